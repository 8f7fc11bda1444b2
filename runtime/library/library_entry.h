// The nouns of the image library: what an entry is known by and what it is made of.
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

/// An entry's name. The same picture has another one for every owner.
using LibraryKey = Hash128;

/// What stands before an image: a chain over tokens and images, one after the other.
inline constexpr uint64_t kEmptyPrefix = 1;
/// The prefix with one more part of it. `part`: a token, or a hash.
uint64_t prefix_of(uint64_t before, uint64_t part);

/// Set in EntryFacts::format_version where the model's weights are made up: such entries are never those of a file.
inline constexpr uint32_t kMadeUpModel = 0x80000000u;

/// What an entry was computed from and how it is stored. All of it goes into the key, and an entry is served only where
/// all of it is as asked for.
struct EntryFacts {
  uint32_t format_version = 2;    // of the bytes in the blocks, which are the engine's affair
  Hash128 model = {};             // fingerprint of model and projector
  Hash128 content = {};           // of the pixels and their preprocessing: mm/views/image_hash.h
  uint64_t prefix_id = 0;         // of what stood before the image when it was read
  int32_t layer_count = 0;        // 1 to kMostEntryLayers
  int32_t kv_heads = 0;           // of a layer
  int32_t head_dim = 0;           // elements of a head
  int32_t bits = 16;              // of a stored element
  int32_t scale_form = 0;         // of packed blocks: KvScaleForm as a number
  int32_t token_count = 0;        // rows of the prompt that the image takes
  int32_t block_rows = 0;         // slots of a packing block
  int32_t view_count = 0;         // views that the picture was cut into
  int32_t embedding_width = 0;    // elements of an input row and of the retrieval embedding; up to kMostEmbeddingWidth
  int32_t stored_input_rows = 0;  // rows in the last block
  int32_t tile_cols = 0;          // tiles side by side among the views; 0: the picture is one view
  friend constexpr bool operator==(const EntryFacts&, const EntryFacts&) = default;
};

inline constexpr int32_t kMostEntryLayers = 1024;
inline constexpr int32_t kMostEmbeddingWidth = 16384;
inline constexpr int32_t kMostTags = 8;
inline constexpr int32_t kMostTagBytes = 31;
inline constexpr int32_t kMostOwnerBytes = 64;
inline constexpr int32_t kMostCaptionBytes = 1000;
/// Blocks begin at multiples of this in their file, and the file ends at one, as direct reads want it.
inline constexpr int64_t kBlockAlignment = 512;

/// Text of at most kMost bytes in place.
template <int kMost>
class ShortText {
 public:
  using Length = std::conditional_t<(kMost > 255), uint16_t, uint8_t>;
  constexpr ShortText() = default;
  bool assign(std::string_view text) {
    if (text.size() > kMost) return false;
    *this = {};
    std::copy(text.begin(), text.end(), text_);
    length_ = static_cast<Length>(text.size());
    return true;
  }
  std::string_view view() const { return {text_, length_}; }
  const char* c_str() const { return text_; }
  friend bool operator==(const ShortText& a, const ShortText& b) { return a.view() == b.view(); }

 private:
  char text_[kMost + 1] = {};
  Length length_ = 0;
};
using EntryCaption = ShortText<kMostCaptionBytes>;
using OwnerName = ShortText<kMostOwnerBytes>;

struct EntryTags {
  ShortText<kMostTagBytes> tags[kMostTags];
  int32_t count = 0;
  friend bool operator==(const EntryTags&, const EntryTags&) = default;
};

/// Whose entries: an owner's own, or the part that all owners of a library read.
enum class LibraryPart : uint8_t { kOwn = 0, kShared = 1 };

/// What the shared part is called where an owner's name would stand; no owner can have this name.
inline constexpr std::string_view kSharedName = "@shared";

/// 1 to 64 characters of [A-Za-z0-9._-], the first no dot.
bool is_owner_name(std::string_view name);
/// 1 to 31 bytes without control characters.
bool is_tag(std::string_view tag);
/// UTF-8 of at most 1,000 bytes without control characters (line ends are such, too); may be empty.
bool is_caption(std::string_view caption);

/// What its owner says about an entry. It may change; what the entry was computed from may not.
struct EntryLabels {
  EntryTags tags = {};
  EntryCaption caption = {};
  int64_t expires = 0;  // from this second on the entry is gone; 0: never
  bool pinned = false;  // quotas do not remove it
  friend bool operator==(const EntryLabels&, const EntryLabels&) = default;
};

/// Labels from what a caller says. kBadArgument where a tag is no tag, the caption no caption, or too much of either.
Status make_labels(std::span<const std::string_view> tags, std::string_view caption, int64_t expires, bool pinned,
                   EntryLabels* out);

/// Tags as a caller gives them; `views` must last as long.
std::span<const std::string_view> view_tags(const EntryTags& tags, std::string_view (&views)[kMostTags]);

/// Both in seconds since 1970; 0: never.
constexpr bool has_expired(int64_t expires, int64_t now) { return expires != 0 && expires <= now; }

/// Random bytes of one owner, which make its keys differ from everybody else's.
struct OwnerSecret {
  uint8_t bytes[32] = {};
};

/// XXH3-128 over all facts, with a secret that is drawn from the owner's. Keeps owners' keys apart; it is no protection
/// from somebody who can read or write the library's files.
LibraryKey library_key(const OwnerSecret& secret, const EntryFacts& facts);

/// XXH3-64, the checksum of headers and blocks.
uint64_t library_checksum(const void* bytes, int64_t count);

/// 32 characters and a zero.
struct KeyText {
  char text[33] = {};
};
KeyText key_text(const LibraryKey& key);
/// False where the text is not 32 lower-case hexadecimal digits.
bool parse_key(std::string_view text, LibraryKey* out);

}  // namespace ocellus
