// Pre-tokenizers: byte-level BPE's split of text into pieces before merging, hand-written instead of a regex library.
#pragma once

#include <cstdint>
#include <string_view>

namespace ocellus {

/// Values of tokenizer.ggml.pre.
enum class PreTokenizer : uint8_t { kGpt2, kSmollm, kQwen2, kLlamaBpe, kTekken };

/// Bytes of the first piece of `text` (not empty): 1 to text.size(). Splitting a whole text is linear in its size.
/// Bytes that are not UTF-8 count as symbols: neither letters nor numbers nor white space.
int64_t first_piece_bytes(PreTokenizer pre_tokenizer, std::string_view text);

}  // namespace ocellus
