// Transfer of entries between an engine and image libraries.
//
//   session  begin ----------- wait, copy to the cache, end      store ------------------ continues
//   reader         read, check                                         |
//   writer                                                             put, wait for the disk
//
// One thread reads entries ahead into planned memory while the session computes; another one writes computed entries.
// Between them and the session are a few places, each with room for one entry. Only the session's thread (one at a
// time, as for the engine) calls the public functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/buffer.h"
#include "platform/log.h"
#include "platform/queue.h"
#include "runtime/branches/library/library_cache.h"
#include "runtime/branches/library/library_readers.h"

namespace ocellus {

struct KvShape;

/// An entry that was read, or whose leading bytes were.
struct LoadedEntry {
  const std::byte* bytes = nullptr;  // null: not found, or damaged
  int64_t byte_count = 0;            // number of bytes that are there and intact
  bool is_whole = false;             // no more will come
  bool from_memory = false;          // no file was read
  double computed_ms = 0;            // time that computing the image took; 0: unknown
  EntryStamp stamp = {};
  LibraryPart part = LibraryPart::kOwn;
  bool is_stamped = false;  // else only the stamp's key is known
};

/// Result of a session's last store.
struct StoredEntry {
  Status status;
  LibraryKey key = {};
  Failure failure = {};  // reason why it was not stored
  int64_t number = 0;    // from store(); 0: the image did not get there
  EntryStamp stamp = {};
  LibraryPart part = LibraryPart::kOwn;
  bool is_stamped = false;
};

/// An entry to store: its facts, the mean of its rows, and its computing time.
struct ComputedEntry {
  int32_t session = 0;  // to which the result belongs
  EntryWish wish;
  EntryLabels labels = {};
  const float* embedding = nullptr;  // [facts.embedding_width]
  double computed_ms = 0;
};

/// Host memory for transfers, pinned if there is a GPU.
struct TrafficMemory {
  HostView<std::byte> loads;  // [kLoads, bytes of an entry]
  HostView<std::byte> store;  // [1, bytes of an entry]
  HostView<float> embedding;  // [1, D]
  HostView<std::byte> cache;  // [entries, bytes of an entry]
  HostView<std::byte> cache_records;
};

/// Totals since the start. Times are those of the two threads, including waits for the disk.
struct TrafficTotals {
  int64_t unstored = 0;  // computed entries that are in no library: the disk failed, or the call was stopped
  int64_t read_bytes = 0;
  double read_ms = 0;  // finding, reading and checking
  int64_t written_bytes = 0;
  double write_ms = 0;
};

/// Bytes of an entry's block: the layers, then the input rows.
int64_t entry_block_bytes(const KvShape& kv, const EntryFacts& facts, int32_t block);
/// Bytes of the last block: the input rows in f16, then their row numbers in the image.
int64_t input_row_bytes(const EntryFacts& facts);
int64_t pick_bytes(const EntryFacts& facts);
int64_t entry_bytes(const KvShape& kv, const EntryFacts& facts);

class LibraryTraffic {
 public:
  /// Number of entries read ahead; two, so that one is read while the other is copied.
  static constexpr int kLoads = 2;
  static constexpr int32_t kAnySession = -1;
  static_assert(kLoads <= Queue::kTickets);

  LibraryTraffic() = default;
  ~LibraryTraffic() { stop(); }
  LibraryTraffic(const LibraryTraffic&) = delete;
  LibraryTraffic& operator=(const LibraryTraffic&) = delete;

  /// Starts the two threads, and `readers` that help the reading one, for sessions from 0 to `sessions` - 1. The other
  /// arguments must stay valid. `log` is called by the writing thread for the first entry that a library did not take.
  /// kIo, or fails as Thread::start.
  Status start(const KvShape& kv, const TrafficMemory& memory, int32_t sessions, int readers,
               const ThreadSettings& settings, const TraceSink& trace, const LogSink& log);
  /// Finishes pending writes and ends the threads.
  void stop();

  /// Starts to look for an entry. Returns the load's number, which is also its ticket in the queue; -1 if all are in
  /// use.
  int begin(const EntryWish& wish, Queue& queue);
  /// Like begin(), but waits until a load is free. kCancelled, kDeadline.
  Status begin_now(const EntryWish& wish, const StopSignal& stop, Queue& queue, int* load);
  /// Waits until a load has more than `known` bytes, or ends: its layers come one after the other. kCancelled,
  /// kDeadline: abandon the load when nothing is copied from it any more.
  Status wait(int load, int64_t known, const StopSignal& stop, LoadedEntry* out);
  /// Ends a load that is whole; the entry's bytes are kept until the queue's transfers with this ticket are done.
  void end(int load, const Queue& queue);
  /// Ends a load whose result is not needed.
  void abandon(int load);

  /// Returns the place for a computed entry once the one before it is written: null if the signal comes first, or if
  /// the threads do not run. Waiting costs the session no more than writing itself would, and happens only if computing
  /// an image takes less time than writing it; skipping the entry would cost its next user more.
  std::byte* wait_for_room(int32_t session, const StopSignal& stop);
  /// Starts writing the entry whose bytes were put there; its facts and embedding are copied. Returns the number of
  /// this store, from 1 on.
  int64_t store(const ComputedEntry& entry);
  /// Releases the place from wait_for_room(); the entry counts as not stored because of `why`, the latest failure of
  /// this thread.
  void give_up(int32_t session, Status why);
  /// Waits for pending writes.
  void finish_writes();
  /// The same; kCancelled, kDeadline.
  Status wait_for_writes(const StopSignal& stop);
  /// Waits as well; returns the result of the session's last one; kAnySession: of the one that was written last.
  StoredEntry last_stored(int32_t session);
  /// Notifies a library of the use of an entry that was found elsewhere, in the background.
  void note_use(ImageLibrary& library, const LibraryKey& key);
  TrafficTotals totals() const;

 private:
  enum class Step : uint8_t { kFree, kQueued, kWorking, kReady, kAbandoned, kSending };
  struct Load {
    Step step = Step::kFree;
    EntryWish wish;
    LoadedEntry result;
    int32_t cached = -1;   // number in the memory tier
    int64_t sequence = 0;  // order of beginning
  };
  struct Store {
    Step step = Step::kFree;  // kReady: the session fills it
    int32_t session = 0;
    EntryWish wish;
    EntryLabels labels;
    double computed_ms = 0;
    int64_t number = 0;
    bool is_pending() const { return step == Step::kQueued || step == Step::kWorking; }
  };
  struct Handover;
  struct Use {
    ImageLibrary* library = nullptr;
    LibraryKey key;
  };

  bool find_in_memory(Load& load);
  void note_use_later(ImageLibrary* library, const LibraryKey& key);
  void free_load(Load& load);
  int take_place(Queue& queue);
  void read_loop();
  int next_load() const;
  void serve(int load);
  bool read_entry(const EntryWish& wish, int load, CachedEntry* entry);
  std::byte* choose_place(int load, const CachedEntry& entry);
  bool is_abandoned(int load);
  void pass_use_on();
  void write_loop();
  bool write_entry();
  void tell_unstored();
  bool is_being_written(const EntryWish& wish) const;

  const KvShape* kv_ = nullptr;
  TrafficMemory memory_;
  LibraryCache cache_;
  mutable Monitor monitor_;  // guards the members below
  Load loads_[kLoads];
  Store store_;
  Buffer<StoredEntry> stored_;  // by session
  int32_t last_writer_ = 0;     // the session whose entry was written last
  int64_t stores_ = 0;
  Use use_;  // pending notification of a library
  int64_t sequence_ = 0;
  TrafficTotals totals_;
  bool quit_ = false;
  TraceSink trace_;
  LogSink log_;
  bool has_told_ = false;  // writing thread only
  int running_ = 0;
  Thread threads_[2];
  BlockReaders readers_;  // reading thread only
};

}  // namespace ocellus
