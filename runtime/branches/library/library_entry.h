// Types of the image library: an entry's identity and contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/engine/picture_identity.h"

namespace ocellus {

/// An entry's name. The same picture has a different one for every owner.
using LibraryKey = Hash128;

inline constexpr int32_t kMaxEntryLayers = 1024;
inline constexpr int32_t kMaxEmbeddingWidth = 16384;
inline constexpr int32_t kMaxTags = 8;
inline constexpr int32_t kMaxTagBytes = 31;
inline constexpr int32_t kMaxCaptionBytes = 1000;
/// Blocks begin at multiples of this in their file, and the file ends at one, as direct reads need.
inline constexpr int64_t kBlockAlignment = 512;

using EntryCaption = ShortText<kMaxCaptionBytes>;

struct EntryTags {
  ShortText<kMaxTagBytes> tags[kMaxTags];
  int32_t count = 0;
  friend bool operator==(const EntryTags&, const EntryTags&) = default;
};

/// An owner's own entries, or the part that all owners of a library read.
enum class LibraryPart : uint8_t { kOwn = 0, kShared = 1 };

/// Name of the shared part in place of an owner's; no owner can have it.
inline constexpr std::string_view kSharedName = "@shared";

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

/// 32 characters and a terminating zero.
struct KeyText {
  char text[33] = {};
};
KeyText key_text(const LibraryKey& key);
/// Returns false if the text is not 32 lower-case hexadecimal digits.
bool parse_key(std::string_view text, LibraryKey* out);

}  // namespace ocellus
