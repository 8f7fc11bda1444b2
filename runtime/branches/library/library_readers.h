// BlockReaders: several threads that read the blocks of one library entry. Copying and checking a file from the page
// cache is limited by one core; a large image has a block per layer, and each thread takes the next one.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

#include "platform/monitor.h"
#include "platform/status.h"
#include "platform/thread.h"
#include "platform/trace.h"
#include "runtime/branches/library/library_entry.h"

namespace ocellus {

class LibraryEntry;  // image_library.h

/// Reads one entry at a time: begin, then help until it returns false, then finish, all on one thread.
class BlockReaders {
 public:
  static constexpr int kMaxThreads = 8;

  BlockReaders() = default;
  ~BlockReaders() { stop(); }
  BlockReaders(const BlockReaders&) = delete;
  BlockReaders& operator=(const BlockReaders&) = delete;

  /// Starts `threads` threads besides the caller's: 0 to kMaxThreads. Fails as Thread::start.
  Status start(int threads, const ThreadSettings& settings = {}, const TraceSink& trace = {});
  void stop();

  /// Called by any of the threads when another block is there and intact, with the number of leading ones that are; not
  /// in their order.
  struct Progress {
    void (*note)(void* user, int32_t intact) = nullptr;
    void* user = nullptr;
  };

  /// Begins reading the entry's first `count` blocks, block b to `to` + offsets[b], where there is room for it. All
  /// arguments must stay valid until finish().
  void begin(const LibraryEntry& entry, int32_t count, const int64_t* offsets, std::byte* to, const Progress& progress);
  /// Reads one of the blocks that were not begun; false if there are none.
  bool help();
  /// Prevents further blocks from being begun.
  void drop();
  /// Waits for the blocks that were begun. Returns the first damaged block; -1: all blocks that were begun are intact.
  int32_t finish();

 private:
  void loop();
  void read_next();
  void note_progress();

  Monitor monitor_;  // guards the members below
  const LibraryEntry* entry_ = nullptr;
  const int64_t* offsets_ = nullptr;
  std::byte* to_ = nullptr;
  Progress progress_;
  int32_t next_ = 0, count_ = 0;  // blocks
  int32_t begun_ = 0;             // blocks being read
  int32_t intact_ = 0;            // leading blocks
  std::bitset<kMaxEntryLayers + 1> is_read_;
  int32_t damaged_ = -1;
  bool quit_ = false;
  TraceSink trace_;
  int running_ = 0;
  Thread threads_[kMaxThreads];
};

}  // namespace ocellus
