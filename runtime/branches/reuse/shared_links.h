// SharedLinks: a session's links to images that sessions share on the device, the first tier in which an image is
// looked for. Their blocks depend on no prompt: each session reads them from its own position, without the rows that it
// computed in place.
#pragma once

#include "runtime/cache/prompt_chunk.h"
#include "runtime/engine/shared_images.h"
#include "runtime/session/conversation.h"

namespace ocellus {

class SharedLinks {
 public:
  void open(Conversation& conversation) { conversation_ = &conversation; }

  bool planned() const;
  /// Links an image that the device holds, or copies it, as image number *ordinal, and fetches its rows that are
  /// computed in place. If there is none, nothing has changed.
  Status link(const PictureWish& wish, const PromptChunk& chunk, int32_t* ordinal, bool* found);
  /// Lets sessions find an image that is complete, or on its way from the store with its rows. `computed`: its rows
  /// are only with those of the chunk's linked images.
  void keep(int32_t ordinal, const PictureWish& wish, SharedImage image, bool computed, const PromptChunk& chunk);
  /// Returns where an image's rows are kept that are computed in place; null: it has blocks of its own.
  void* rows_of(int32_t ordinal) const;

 private:
  void copy_blocks(int32_t place, int32_t ordinal, bool to_place);
  Conversation* conversation_ = nullptr;
};

}  // namespace ocellus
