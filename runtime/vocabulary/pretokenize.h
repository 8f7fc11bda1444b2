// Pre-tokenizers: how byte-level BPE cuts text into pieces before merging, written out instead of a regex library.
#pragma once

#include <cstdint>
#include <string_view>

namespace ocellus {

/// Named as tokenizer.ggml.pre names them.
enum class PreTokenizer : uint8_t { kGpt2, kSmollm, kQwen2, kLlamaBpe };

/// Bytes of the first piece of `text` (not empty): 1 to text.size(). Cutting a whole text this way is linear in its
/// size. Bytes that are not UTF-8 count as symbols: neither letters nor numbers nor white space.
int64_t first_piece_bytes(PreTokenizer pre_tokenizer, std::string_view text);

}  // namespace ocellus
