// What a session's cache is listed as: pages of text, images, and what survived of rows that competed for slots.
#pragma once

#include <cstdint>

#include "kernels/base/kv_run.h"
#include "platform/arena.h"

namespace ocellus {

template <>
struct TypeName<KvRun> {
  static constexpr const char* value = "run";
};
template <>
struct TypeName<KvSlot> {
  static constexpr const char* value = "slot";
};

/// What one session may take: the sizes of its lists.
struct SessionLimits {
  int64_t pages = 0;
  int64_t blocks = 0;
  int64_t images = 0;
  int64_t evictions = 0;    // prompts, or parts of them, of which only some slots survive
  int64_t holes = 0;        // of an image: slots that are not read, anywhere in it
  int64_t text_blocks = 0;  // of text that was packed after it was read
};

/// Bytes of a session's live slots, as the plan's formulas count them, and what else its pages and blocks take.
struct CacheBytes {
  int64_t payload = 0;         // keys and values
  int64_t scales = 0;          // offsets and steps of packed blocks
  int64_t waste = 0;           // slots without a token, padding
  int64_t blocks = 0;          // of payload and scales what lies in image blocks
  int64_t block_elements = 0;  // numbers that it stands for
  int64_t resident() const { return payload + scales + waste; }
};

/// What survived of rows that competed: `text` f16 slots in pages and `visual` slots in blocks, at most, by layer and
/// head as counts says.
struct EvictedRows {
  int32_t first_page = 0;   // of the session's pages of survivors
  int32_t first_block = 0;  // of its blocks
  int32_t text = 0;
  int32_t visual = 0;
  int32_t images = 0;  // that were among the rows
  int32_t rows = 0;
  int32_t text_rows = 0;  // of them
};

struct TextPage {
  int32_t page = 0;  // of the pool
  int32_t position_shift = 0;
  int64_t position = 0;  // of its first slot, when it was computed
  int64_t end = 0;       // behind its last one
};

/// An image with blocks of its own.
struct StoredImage {
  int32_t slots = 0;     // 0: reserved
  int32_t rows = 0;      // it was read as
  int64_t position = 0;  // of its first row
  // Linked images only:
  int32_t first_slot = 0;      // those before it are not read: their rows stand among the text
  int32_t hole_count = 0;      // nor are these, see SessionCache::note_hole
  int32_t position_shift = 0;  // from where it was computed
};

/// An image that is linked into a chunk. Its slots: first those of the rows that are read in place, whose keys and
/// values stand among the text from then on, then the others, which are read from where they are; both by position.
struct LinkedImage {
  int32_t ordinal = 0;
  int32_t slots = 0;
  int32_t in_place = 0;
  int32_t position_shift = 0;
};

/// A stretch of a linked image's slots that stands between two rows of a chunk.
struct LinkedRun {
  int32_t image = 0;  // of the chunk's linked images
  int32_t first_slot = 0;
  int32_t slots = 0;
  int32_t visible_from = 0;  // row of the chunk
};

template <>
struct TypeName<TextPage> {
  static constexpr const char* value = "page";
};
template <>
struct TypeName<EvictedRows> {
  static constexpr const char* value = "rows";
};
template <>
struct TypeName<LinkedImage> {
  static constexpr const char* value = "image";
};
template <>
struct TypeName<LinkedRun> {
  static constexpr const char* value = "link";
};
template <>
struct TypeName<StoredImage> {
  static constexpr const char* value = "image";
};

}  // namespace ocellus
