// Entries on their way between an engine and image libraries.
//
//   session  begin ----------- wait, copy to the cache, end      store ------------------ goes on
//   reader         read, check                                         |
//   writer                                                             put, wait for the disk
//
// A thread of its own reads entries ahead into planned memory while the session computes; another one writes what was
// computed. Between them and the session stand a few places, each with room for one entry. Only the session's thread
// (one at a time, as for the engine) calls what is public here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/log.h"
#include "platform/queue.h"
#include "runtime/library/library_cache.h"
#include "runtime/library/library_readers.h"

namespace ocellus {

struct KvShape;

/// An entry that arrived.
struct LoadedEntry {
  const std::byte* bytes = nullptr;  // null: there is none
  int64_t byte_count = 0;
  bool from_memory = false;  // no file was read
  double computed_ms = 0;    // what it took to compute the image; 0: not known
  LibraryKey key = {};
  LibraryPart part = LibraryPart::kOwn;
};

/// What became of the entry that was stored last.
struct StoredEntry {
  Status status;
  LibraryKey key = {};
  Failure failure = {};  // why it was not stored
};

/// An entry to be: its facts, the mean of its rows, and what it took.
struct ComputedEntry {
  EntryWish wish;
  EntryLabels labels = {};
  const float* embedding = nullptr;  // [facts.embedding_width]
  double computed_ms = 0;
};

/// Host memory for it, pinned where there is a GPU.
struct TrafficMemory {
  HostView<std::byte> loads;  // [kLoads, bytes of an entry]
  HostView<std::byte> store;  // [1, bytes of an entry]
  HostView<float> embedding;  // [1, D]
  HostView<std::byte> cache;  // [entries, bytes of an entry]
  HostView<std::byte> cache_records;
};

/// What happened since the start. Times are those of the two threads, waiting for the disk included.
struct TrafficTotals {
  int64_t unstored = 0;  // entries that were computed and are in no library: the disk failed, or somebody was stopped
  int64_t read_bytes = 0;
  double read_ms = 0;  // finding, reading and checking
  int64_t written_bytes = 0;
  double write_ms = 0;
};

/// Of the entry's blocks: the layers, then the input rows.
int64_t entry_block_bytes(const KvShape& kv, const EntryFacts& facts, int32_t block);
/// Of the last block: the input rows in f16, then which rows of the image they are.
int64_t input_row_bytes(const EntryFacts& facts);
int64_t pick_bytes(const EntryFacts& facts);
int64_t entry_bytes(const KvShape& kv, const EntryFacts& facts);

class LibraryTraffic {
 public:
  /// Entries that are read ahead; two, so that one is read while the other is copied on.
  static constexpr int kLoads = 2;
  static_assert(kLoads <= Queue::kTickets);

  LibraryTraffic() = default;
  ~LibraryTraffic() { stop(); }
  LibraryTraffic(const LibraryTraffic&) = delete;
  LibraryTraffic& operator=(const LibraryTraffic&) = delete;

  /// Starts the two threads, and `readers` that help the one that reads. The other arguments must stay as they are.
  /// `log` hears, from the thread that writes, of the first entry that a library did not take. Fails as Thread::start.
  Status start(const KvShape& kv, const TrafficMemory& memory, int readers, const ThreadSettings& settings,
               const TraceSink& trace, const LogSink& log);
  /// Finishes what is to be written and ends the threads.
  void stop();

  /// Starts to look for an entry: the load's number, which is its ticket in the queue; -1 if all are in use.
  int begin(const EntryWish& wish, Queue& queue);
  /// The same, but waits until one can begin. kCancelled, kDeadline.
  Status begin_now(const EntryWish& wish, const StopSignal& stop, Queue& queue, int* load);
  /// Waits for a load. kCancelled and kDeadline: the load is over.
  Status wait(int load, const StopSignal& stop, LoadedEntry* out);
  /// After wait(): the entry's bytes are needed until the queue's transfers with this ticket are done.
  void end(int load, const Queue& queue);
  /// Ends a load that nobody waits for any more.
  void abandon(int load);

  /// Where to put an entry that was computed, when the one before it is written: null when the signal comes first, or
  /// where the threads do not run. Waiting costs the session no more than writing itself would, and happens only where
  /// computing an image takes less time than writing it; to skip the entry would cost the next user of the image more.
  std::byte* wait_for_room(const StopSignal& stop);
  /// Has the entry written whose bytes were put there; its facts and embedding are copied.
  void store(const ComputedEntry& entry);
  /// Leaves the place that wait_for_room() gave; the entry counts as not stored because of `why`, the latest failure of
  /// this thread.
  void give_up(Status why);
  /// Waits for what is being written.
  void finish_writes();
  /// The same; what became of the last of it.
  StoredEntry last_stored();
  TrafficTotals totals() const;

 private:
  enum class Step : uint8_t { kFree, kQueued, kWorking, kReady, kAbandoned, kSending };
  struct Load {
    Step step = Step::kFree;
    EntryWish wish;
    LoadedEntry result;
    int32_t cached = -1;   // the memory tier's number
    int64_t sequence = 0;  // in which order they began
  };
  struct Store {
    Step step = Step::kFree;  // kReady: the session fills it
    EntryWish wish;
    EntryLabels labels;
    double computed_ms = 0;
  };
  struct Use {
    ImageLibrary* library = nullptr;
    LibraryKey key;
  };

  bool find_in_memory(Load& load);
  void free_load(Load& load);
  int take_place(Queue& queue);
  void read_loop();
  int next_load() const;
  void serve(int load);
  bool read_entry(const EntryWish& wish, int load, CachedEntry* entry);
  bool is_abandoned(int load);
  void note_use();
  void write_loop();
  bool write_entry();
  void tell_unstored();
  bool is_being_written(const EntryWish& wish) const;

  const KvShape* kv_ = nullptr;
  TrafficMemory memory_;
  LibraryCache cache_;
  mutable Monitor monitor_;  // of all that follows
  Load loads_[kLoads];
  Store store_;
  StoredEntry stored_;
  Use use_;  // that a library is to hear of
  int64_t sequence_ = 0;
  TrafficTotals totals_;
  bool quit_ = false;
  TraceSink trace_;
  LogSink log_;
  bool has_told_ = false;  // of the writing thread
  int running_ = 0;
  Thread threads_[2];
  BlockReaders readers_;  // of the reading thread
};

}  // namespace ocellus
