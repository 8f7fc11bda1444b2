// ChunkLoan: write access to the prompt chunk. An engine has one chunk, which is lent to one prompt at a time.
#pragma once

#include "mm/tower/waiting_views.h"
#include "runtime/cache/prompt_chunk.h"

namespace ocellus {

/// A prompt whose rows may wait in the chunk.
class ChunkHolder {
 public:
  /// Called when another prompt needs the chunk: reads the waiting rows and returns the chunk. A failure stays with the
  /// holder, which reports it at its own next call.
  virtual void yield_chunk() = 0;

 protected:
  ~ChunkHolder() = default;
};

class ChunkLoan {
 public:
  ChunkLoan(PromptChunk& chunk, WaitingViews& views) : chunk_(chunk), views_(views) {}

  bool is_with(const ChunkHolder& holder) const { return holder_ == &holder; }

  /// Lends the chunk to `holder`: as it left it, or empty if it did not have it.
  void lend(ChunkHolder& holder) {
    if (holder_ != nullptr && holder_ != &holder) holder_->yield_chunk();
    holder_ = &holder;
  }

  /// Takes the chunk back from `holder`, which must have it, and empties it.
  void give_back(const ChunkHolder& holder, Queue& queue) {
    if (!is_with(holder)) return;
    queue.join_transfers();  // the next user of the blocks writes after them
    chunk_.clear();
    views_.clear();
    holder_ = nullptr;
  }

 private:
  PromptChunk& chunk_;
  WaitingViews& views_;
  ChunkHolder* holder_ = nullptr;
};

}  // namespace ocellus
