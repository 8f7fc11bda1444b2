// Types of the image library: an entry's identity and contents.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "platform/status.h"

namespace ocellus {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend constexpr bool operator==(const Hash128&, const Hash128&) = default;
};

/// An entry's name. The same picture has a different one for every owner.
using LibraryKey = Hash128;

/// The prompt before an image: a hash chain over its tokens and images.
inline constexpr uint64_t kEmptyPrefix = 1;
/// The part after which all before it were read: rows have the same bits again only if they are read in the same
/// pieces. No token, and no number of columns.
inline constexpr uint64_t kEndOfPiece = ~uint64_t{0};
/// Extends the prefix by one part, a token or a hash.
uint64_t prefix_of(uint64_t before, uint64_t part);

/// Set in EntryFacts::format_version if the model's weights are random: such entries never match those of a file.
inline constexpr uint32_t kMadeUpModel = 0x80000000u;

/// The inputs and storage format of an entry. All facts go into the key, and an entry is served only if all of them
/// match.
struct EntryFacts {
  uint32_t format_version = 2;    // version of the bytes in the blocks, which the engine defines
  Hash128 model = {};             // fingerprint of model and projector
  Hash128 content = {};           // hash of the pixels and their preprocessing: mm/views/image_hash.h
  uint64_t prefix_id = 0;         // the prompt before the image when it was read
  int32_t layer_count = 0;        // 1 to kMaxEntryLayers
  int32_t kv_heads = 0;           // per layer
  int32_t head_dim = 0;           // elements of a head
  int32_t bits = 16;              // per stored element
  int32_t scale_form = 0;         // KvScaleForm of packed blocks, as a number
  int32_t token_count = 0;        // prompt rows of the image
  int32_t block_rows = 0;         // slots of a packing block
  int32_t view_count = 0;         // views of the picture
  int32_t embedding_width = 0;    // elements of an input row and of the retrieval embedding; up to kMaxEmbeddingWidth
  int32_t stored_input_rows = 0;  // rows in the last block
  int32_t tile_cols = 0;          // tiles side by side among the views; 0: the picture is one view. Up to 255. A view
                                  // of any size: 1 if its rows form more lines than columns
  int32_t shared_rows = 0;        // rows of the image without a position of their own
  friend constexpr bool operator==(const EntryFacts&, const EntryFacts&) = default;
};

inline constexpr int32_t kMaxEntryLayers = 1024;
inline constexpr int32_t kMaxEmbeddingWidth = 16384;
inline constexpr int32_t kMaxTags = 8;
inline constexpr int32_t kMaxTagBytes = 31;
inline constexpr int32_t kMaxOwnerBytes = 64;
inline constexpr int32_t kMaxCaptionBytes = 1000;
/// Blocks begin at multiples of this in their file, and the file ends at one, as direct reads need.
inline constexpr int64_t kBlockAlignment = 512;

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
using EntryCaption = ShortText<kMaxCaptionBytes>;
using OwnerName = ShortText<kMaxOwnerBytes>;

struct EntryTags {
  ShortText<kMaxTagBytes> tags[kMaxTags];
  int32_t count = 0;
  friend bool operator==(const EntryTags&, const EntryTags&) = default;
};

/// An owner's own entries, or the part that all owners of a library read.
enum class LibraryPart : uint8_t { kOwn = 0, kShared = 1 };

/// Name of the shared part in place of an owner's; no owner can have it.
inline constexpr std::string_view kSharedName = "@shared";

/// True for 1 to 64 characters of [A-Za-z0-9._-], the first no dot.
bool is_owner_name(std::string_view name);
/// True for 1 to 31 bytes without control characters.
bool is_tag(std::string_view tag);
/// True for UTF-8 of at most 1,000 bytes without control characters (including line ends); may be empty.
bool is_caption(std::string_view caption);

/// The owner's labels of an entry. They may change; the facts may not.
struct EntryLabels {
  EntryTags tags = {};
  EntryCaption caption = {};
  int64_t expires = 0;  // the second at which the entry expires; 0: never
  bool pinned = false;  // exempt from removal by quotas
  friend bool operator==(const EntryLabels&, const EntryLabels&) = default;
};

/// Makes labels from a caller's values. kBadArgument for an invalid tag or caption, or too much of either.
Status make_labels(std::span<const std::string_view> tags, std::string_view caption, int64_t expires, bool pinned,
                   EntryLabels* out);

/// Returns the tags as views; `views` must last as long.
std::span<const std::string_view> view_tags(const EntryTags& tags, std::string_view (&views)[kMaxTags]);

/// Both in seconds since 1970; 0: never.
constexpr bool has_expired(int64_t expires, int64_t now) { return expires != 0 && expires <= now; }

/// Random bytes of one owner, which make its keys differ from those of all others.
struct OwnerSecret {
  uint8_t bytes[32] = {};
};

/// XXH3-128 over all facts, with a secret derived from the owner's. Separates owners' keys; it does not protect against
/// readers or writers of the library's files.
LibraryKey library_key(const OwnerSecret& secret, const EntryFacts& facts);

/// XXH3-64, the checksum of headers and blocks.
uint64_t library_checksum(const void* bytes, int64_t count);

/// 32 characters and a terminating zero.
struct KeyText {
  char text[33] = {};
};
KeyText key_text(const LibraryKey& key);
/// Returns false if the text is not 32 lower-case hexadecimal digits.
bool parse_key(std::string_view text, LibraryKey* out);

}  // namespace ocellus
