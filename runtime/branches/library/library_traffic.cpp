#include "runtime/branches/library/library_traffic.h"

#include <cstring>
#include <mutex>

#include "runtime/cache/kv_pools.h"

namespace ocellus {
namespace {

/// Images of up to this many bytes are one block of their entry, since blocks are padded; larger ones have a block per
/// layer, which can be read one by one.
constexpr int64_t kMaxTogether = int64_t{1} << 20;

/// Interval at which a thread that waits for another checks for a stop.
constexpr int64_t kPollMilliseconds = 5;

bool is_same(const EntryWish& a, const EntryWish& b) {
  return a.library == b.library && a.facts == b.facts && a.owner == b.owner;
}

}  // namespace

int64_t input_row_bytes(const EntryFacts& facts) {
  return int64_t{facts.stored_input_rows} * facts.embedding_width * int64_t{sizeof(Half)};
}
int64_t pick_bytes(const EntryFacts& facts) { return facts.stored_input_rows * int64_t{sizeof(int32_t)}; }

int64_t entry_block_bytes(const KvShape& kv, const EntryFacts& facts, int32_t block) {
  if (block == kv.kept_layers()) return input_row_bytes(facts) + pick_bytes(facts);
  if (kv.image_bytes() > kMaxTogether) return kv.blocks_per_image() * kv.kept_bytes(block);
  return block == 0 ? kv.image_bytes() : 0;
}

int64_t entry_bytes(const KvShape& kv, const EntryFacts& facts) {
  return kv.image_bytes() + entry_block_bytes(kv, facts, kv.kept_layers());
}

Status LibraryTraffic::start(const KvShape& kv, const TrafficMemory& memory, int32_t sessions, int readers,
                             const ThreadSettings& settings, const TraceSink& trace, const LogSink& log) {
  OCELLUS_TRY(stored_.resize(sessions));
  kv_ = &kv;
  trace_ = trace;
  log_ = log;
  memory_ = memory;
  cache_.attach(memory.cache, memory.cache_records);
  const auto read = [](void* self) { static_cast<LibraryTraffic*>(self)->read_loop(); };
  const auto write = [](void* self) { static_cast<LibraryTraffic*>(self)->write_loop(); };
  OCELLUS_TRY(threads_[running_].start(settings, "read", read, this));
  ++running_;
  OCELLUS_TRY(threads_[running_].start(settings, "write", write, this));
  ++running_;
  return readers_.start(readers, settings, trace);
}

void LibraryTraffic::stop() {
  {
    const std::lock_guard lock(monitor_);
    quit_ = true;
    monitor_.notify_all();
  }
  for (; running_ > 0; --running_) threads_[running_ - 1].join();
}

bool LibraryTraffic::find_in_memory(Load& load) {
  if (load.wish.only_there) return false;
  CachedEntry entry;
  bool is_due = false;
  load.cached = cache_.find(load.wish, &entry, &is_due);
  if (load.cached < 0) return false;
  load.result = {cache_.bytes(load.cached), entry.bytes, true, true, entry.computed_ms, entry.stamp, entry.part, true};
  if (is_due) note_use_later(load.wish.library, entry.stamp.key);
  return true;
}

/// Called with the lock held. One at a time: the quotas need no more.
void LibraryTraffic::note_use_later(ImageLibrary* library, const LibraryKey& key) {
  if (use_.library != nullptr) return;
  library->begin_use();
  use_ = {library, key};
  monitor_.notify_all();
}

void LibraryTraffic::note_use(ImageLibrary& library, const LibraryKey& key) {
  const std::lock_guard lock(monitor_);
  note_use_later(&library, key);
}

void LibraryTraffic::free_load(Load& load) {
  if (load.cached >= 0) cache_.release(load.cached);
  load.cached = -1;
  load.step = Step::kFree;
}

/// Returns a place for another load; waits for the device only if all places wait for it.
int LibraryTraffic::take_place(Queue& queue) {
  for (int i = 0; i < kLoads; ++i)
    if (loads_[i].step == Step::kSending && queue.transfers_done(i)) free_load(loads_[i]);
  for (const Step step : {Step::kFree, Step::kSending})
    for (int i = 0; i < kLoads; ++i) {
      if (loads_[i].step != step) continue;
      if (step == Step::kSending) queue.wait_for_transfers(i);
      free_load(loads_[i]);
      return i;
    }
  return -1;
}

int LibraryTraffic::begin(const EntryWish& wish, Queue& queue) {
  const std::lock_guard lock(monitor_);
  const int place = running_ == 2 ? take_place(queue) : -1;
  if (place < 0) return -1;
  Load& load = loads_[place];
  load = {.wish = wish, .result = {}, .sequence = ++sequence_};
  if (find_in_memory(load)) {
    load.step = Step::kReady;
    return place;
  }
  wish.library->begin_use();
  load.step = Step::kQueued;
  monitor_.notify_all();
  return place;
}

Status LibraryTraffic::begin_now(const EntryWish& wish, const StopSignal& stop, Queue& queue, int* load) {
  while ((*load = begin(wish, queue)) < 0) {
    OCELLUS_TRY(stop.check());
    const std::lock_guard lock(monitor_);
    monitor_.wait_ms(kPollMilliseconds);
  }
  return {};
}

Status LibraryTraffic::wait(int load, int64_t known, const StopSignal& stop, LoadedEntry* out) {
  const std::lock_guard lock(monitor_);
  const Load& waited = loads_[load];
  while (waited.step != Step::kReady && waited.result.byte_count <= known) {
    monitor_.wait_ms(kPollMilliseconds);
    if (waited.step != Step::kReady) OCELLUS_TRY(stop.check());
  }
  *out = waited.result;
  return {};
}

void LibraryTraffic::end(int load, const Queue& queue) {
  const std::lock_guard lock(monitor_);
  if (loads_[load].result.bytes == nullptr || queue.transfers_done(load))
    free_load(loads_[load]);
  else
    loads_[load].step = Step::kSending;
}

void LibraryTraffic::abandon(int load) {
  const std::lock_guard lock(monitor_);
  Load& abandoned = loads_[load];
  if (abandoned.step == Step::kQueued) abandoned.wish.library->end_use();
  if (abandoned.step == Step::kQueued || abandoned.step == Step::kReady) free_load(abandoned);
  if (abandoned.step == Step::kWorking) abandoned.step = Step::kAbandoned;
}

std::byte* LibraryTraffic::wait_for_room(int32_t session, const StopSignal& stop) {
  const std::lock_guard lock(monitor_);
  while (running_ == 2 && store_.step != Step::kFree) {
    monitor_.wait_ms(kPollMilliseconds);
    if (store_.step == Step::kFree) continue;
    const Status stopped = stop.check();
    if (stopped.ok()) continue;
    stored_[session] = {stopped, {}, last_failure()};
    ++totals_.unstored;
    return nullptr;
  }
  if (running_ < 2) return nullptr;
  store_.step = Step::kReady;
  return memory_.store.data;
}

int64_t LibraryTraffic::store(const ComputedEntry& entry) {
  std::memcpy(memory_.embedding.data, entry.embedding, static_cast<size_t>(memory_.embedding.cols) * sizeof(float));
  const std::lock_guard lock(monitor_);
  store_ = {Step::kQueued, entry.session, entry.wish, entry.labels, entry.computed_ms, ++stores_};
  entry.wish.library->begin_use();
  monitor_.notify_all();
  return stores_;
}

void LibraryTraffic::give_up(int32_t session, Status why) {
  const std::lock_guard lock(monitor_);
  store_.step = Step::kFree;
  stored_[session] = {why, {}, last_failure()};
  ++totals_.unstored;
}

void LibraryTraffic::finish_writes() {
  const std::lock_guard lock(monitor_);
  while (store_.is_pending()) monitor_.wait();
}

Status LibraryTraffic::wait_for_writes(const StopSignal& stop) {
  const std::lock_guard lock(monitor_);
  while (store_.is_pending()) {
    OCELLUS_TRY(stop.check());
    monitor_.wait_ms(kPollMilliseconds);
  }
  return {};
}

StoredEntry LibraryTraffic::last_stored(int32_t session) {
  finish_writes();
  const std::lock_guard lock(monitor_);
  return stored_[session == kAnySession ? last_writer_ : session];
}

TrafficTotals LibraryTraffic::totals() const {
  const std::lock_guard lock(monitor_);
  return totals_;
}

bool LibraryTraffic::is_being_written(const EntryWish& wish) const {
  return store_.is_pending() && is_same(store_.wish, wish);
}

}  // namespace ocellus
