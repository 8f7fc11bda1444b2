// BlockReaders: several threads that read the blocks of one library entry. A file that the system holds in memory is
// copied, and checked, no faster than one core can; of a large image's blocks, one for each layer, each thread takes
// the next.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/monitor.h"
#include "platform/status.h"
#include "platform/thread.h"
#include "platform/trace.h"

namespace ocellus {

class LibraryEntry;

/// One entry at a time: begin, then help until that says no, then finish, all by one thread.
class BlockReaders {
 public:
  static constexpr int kMostThreads = 8;

  BlockReaders() = default;
  ~BlockReaders() { stop(); }
  BlockReaders(const BlockReaders&) = delete;
  BlockReaders& operator=(const BlockReaders&) = delete;

  /// `threads` beside the one that calls: 0 to kMostThreads. Fails as Thread::start.
  Status start(int threads, const ThreadSettings& settings = {}, const TraceSink& trace = {});
  void stop();

  /// Block b of the entry's first `count` goes to `to` + offsets[b], where there is room for it. All of these stay
  /// until finish().
  void begin(const LibraryEntry& entry, int32_t count, const int64_t* offsets, std::byte* to);
  /// Reads one of the blocks that nobody has begun yet; false if there are none.
  bool help();
  /// Nobody begins another block.
  void drop();
  /// Waits for those that were begun. The first block that is not what was written; -1: all blocks that were begun are.
  int32_t finish();

 private:
  void loop();
  void read_next();

  Monitor monitor_;  // of all that follows
  const LibraryEntry* entry_ = nullptr;
  const int64_t* offsets_ = nullptr;
  std::byte* to_ = nullptr;
  int32_t next_ = 0, count_ = 0;  // blocks
  int32_t begun_ = 0;             // that are being read
  int32_t damaged_ = -1;
  bool quit_ = false;
  TraceSink trace_;
  int running_ = 0;
  Thread threads_[kMostThreads];
};

}  // namespace ocellus
