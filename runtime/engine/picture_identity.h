// The identity of a linked picture: two with the same have the same bits of keys and values, wherever they are kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "platform/status.h"

namespace ocellus {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend constexpr bool operator==(const Hash128&, const Hash128&) = default;
};

/// XXH3-64.
uint64_t hash64(const void* bytes, int64_t count);

/// The prompt before an image: a hash chain over its tokens and images.
inline constexpr uint64_t kEmptyPrefix = 1;
/// The part after which all before it were read: rows have the same bits again only if they are read in the same
/// pieces. No token, and no number of columns.
inline constexpr uint64_t kEndOfPiece = ~uint64_t{0};
/// Extends the prefix by one part, a token or a hash.
uint64_t prefix_of(uint64_t before, uint64_t part);

/// Set in EntryFacts::format_version if the model's weights are random: such entries never match those of a file.
inline constexpr uint32_t kMadeUpModel = 0x80000000u;

/// The inputs and storage format of a picture that is kept. It is found only if all of them match.
struct EntryFacts {
  uint32_t format_version = 2;    // version of the bytes in the blocks, which the engine defines
  Hash128 model = {};             // fingerprint of model and projector
  Hash128 content = {};           // hash of the pixels and their preprocessing: mm/views/image_hash.h
  uint64_t prefix_id = 0;         // the prompt before the image when it was read
  int32_t layer_count = 0;        // with keys and values
  int32_t kv_heads = 0;           // per layer
  int32_t head_dim = 0;           // elements of a head
  int32_t bits = 16;              // per stored element
  int32_t scale_form = 0;         // KvScaleForm of packed blocks, as a number
  int32_t token_count = 0;        // prompt rows of the image
  int32_t block_rows = 0;         // slots of a packing block
  int32_t view_count = 0;         // views of the picture
  int32_t embedding_width = 0;    // elements of an input row, and of the mean of all
  int32_t stored_input_rows = 0;  // rows in the last block
  int32_t tile_cols = 0;          // tiles side by side among the views; 0: the picture is one view. Up to 255. A view
                                  // of any size: 1 if its rows form more lines than columns
  int32_t shared_rows = 0;        // rows of the image without a position of their own
  friend constexpr bool operator==(const EntryFacts&, const EntryFacts&) = default;
};

/// Text of at most kMax bytes, stored in place.
template <int kMax>
class ShortText {
 public:
  using Length = std::conditional_t<(kMax > 255), uint16_t, uint8_t>;
  constexpr ShortText() = default;
  bool assign(std::string_view text) {
    if (text.size() > kMax) return false;
    *this = {};
    std::copy(text.begin(), text.end(), text_);
    length_ = static_cast<Length>(text.size());
    return true;
  }
  std::string_view view() const { return {text_, length_}; }
  const char* c_str() const { return text_; }
  friend bool operator==(const ShortText& a, const ShortText& b) { return a.view() == b.view(); }

 private:
  char text_[kMax + 1] = {};
  Length length_ = 0;
};

/// The owner of pictures: others do not find them.
inline constexpr int32_t kMaxOwnerBytes = 64;
using OwnerName = ShortText<kMaxOwnerBytes>;
/// True for 1 to 64 characters of [A-Za-z0-9._-], the first no dot.
bool is_owner_name(std::string_view name);

}  // namespace ocellus
