// The two threads of LibraryTraffic.
#include <algorithm>
#include <mutex>
#include <string_view>

#include "runtime/branches/library/library_traffic.h"
#include "runtime/cache/kv_pools.h"

namespace ocellus {

void LibraryTraffic::read_loop() {
  const std::lock_guard lock(monitor_);
  while (true) {
    if (const int load = next_load(); load >= 0)
      serve(load);
    else if (use_.library != nullptr)
      pass_use_on();
    else if (quit_)
      return;
    else
      monitor_.wait();
  }
}

int LibraryTraffic::next_load() const {
  int next = -1;
  for (int i = 0; i < kLoads; ++i)
    if (loads_[i].step == Step::kQueued && (next < 0 || loads_[i].sequence < loads_[next].sequence)) next = i;
  return next;
}

/// Called with the lock held; releases it while reading.
void LibraryTraffic::serve(int number) {
  Load& load = loads_[number];
  const EntryWish wish = load.wish;
  load.step = Step::kWorking;
  // If the same image is being written, it will be on the disk soon.
  while (is_being_written(wish)) monitor_.wait();
  CachedEntry entry;
  bool found = false;
  if (!quit_) {
    monitor_.unlock();
    const int64_t start = now_ns();
    found = read_entry(wish, number, &entry);
    if (load.cached >= 0) cache_.end_fill(load.cached, found ? &entry : nullptr);
    monitor_.lock();
    totals_.read_bytes += found ? entry.bytes : 0;
    totals_.read_ms += found ? elapsed_ms(start, now_ns()) : 0;
  }
  if (load.step == Step::kAbandoned) {
    free_load(load);
  } else {
    const std::byte* const bytes = load.result.bytes;
    load.result = {};
    if (found)
      load.result = {bytes, entry.bytes, true, false, entry.computed_ms, entry.stamp, entry.part, entry.library != 0};
    load.result.is_whole = true;
    load.step = Step::kReady;
  }
  monitor_.notify_all();
  monitor_.unlock();
  wish.library->end_use();
  monitor_.lock();
}

/// Tells the session that further layers of a load are there.
struct LibraryTraffic::Handover {
  LibraryTraffic& traffic;
  int64_t& bytes;  // guarded by the traffic's monitor
  const int64_t* offsets;
  int32_t count;

  static void note(void* user, int32_t intact) {
    Handover& self = *static_cast<Handover*>(user);
    if (intact == self.count) return;  // the load ends
    const std::lock_guard lock(self.traffic.monitor_);
    self.bytes = std::max(self.bytes, self.offsets[intact]);
    self.traffic.monitor_.notify_all();
  }
};

/// Returns where an entry is read to: into the memory tier, so that it need not be copied there, or to the load's own
/// place.
std::byte* LibraryTraffic::choose_place(int load, const CachedEntry& entry) {
  const int32_t cached = cache_.begin_fill(entry);
  std::byte* const place = cached < 0 ? memory_.loads.row(load) : cache_.place(cached);
  const std::lock_guard lock(monitor_);
  loads_[load].cached = cached;
  loads_[load].result = {.bytes = place};
  return place;
}

bool LibraryTraffic::is_abandoned(int load) {
  const std::lock_guard lock(monitor_);
  return loads_[load].step == Step::kAbandoned;
}

/// Returns whether the entry is there and intact. A failing library counts as having no entries.
bool LibraryTraffic::read_entry(const EntryWish& wish, int load, CachedEntry* out) {
  const TraceRange range(trace_, "library read");
  LibraryEntry entry;
  bool found = false;
  const Status status = wish.only_there
                            ? wish.library->find_in(wish.owner.view(), wish.part, wish.facts, &entry, &found)
                            : wish.library->find(wish.owner.view(), wish.facts, &entry, &found);
  if (!status.ok() || !found) return false;
  *out = {.library = wish.library->serial(), .owner = wish.owner, .facts = wish.facts, .stamp = {}};
  // Before the bytes: if the file changes while it is read, the result does not count as current.
  if (!entry.take_stamp(&out->stamp)) out->library = 0;
  out->part = entry.part();
  out->computed_ms = static_cast<double>(entry.header().computed_us) * 1e-3;
  int64_t offsets[kMaxEntryLayers + 1];
  const int32_t count = kv_->kept_layers() + 1;
  if (entry.block_count() != count) return false;
  for (int32_t block = 0; block < count; ++block) {
    offsets[block] = out->bytes;
    out->bytes += entry_block_bytes(*kv_, wish.facts, block);
    if (entry.block_bytes(block) != out->bytes - offsets[block]) return false;
  }
  if (is_abandoned(load)) return false;
  std::byte* const to = choose_place(load, *out);
  Handover handover{*this, loads_[load].result.byte_count, offsets, count};
  readers_.begin(entry, count, offsets, to, {&Handover::note, &handover});
  bool is_wanted = true;
  while (readers_.help())
    if (is_abandoned(load)) {
      readers_.drop();
      is_wanted = false;
    }
  const int32_t damaged = readers_.finish();
  if (damaged < 0) return is_wanted;
  // Read again by the call that sets it aside.
  const auto bytes = static_cast<size_t>(entry.block_bytes(damaged));
  (void)entry.read_block(damaged, {to + offsets[damaged], bytes}, &found);
  return false;
}

/// Called with the lock held; releases it while the library is notified.
void LibraryTraffic::pass_use_on() {
  const Use use = use_;
  monitor_.unlock();
  use.library->note_use(use.key);
  use.library->end_use();
  monitor_.lock();
  use_ = {};
}

void LibraryTraffic::write_loop() {
  const std::lock_guard lock(monitor_);
  while (true) {
    if (store_.step == Step::kQueued) {
      store_.step = Step::kWorking;
      ImageLibrary* const library = store_.wish.library;
      monitor_.unlock();
      const int64_t start = now_ns();
      const bool stored = write_entry();
      if (!stored && !store_.wish.only_there)
        tell_unstored();  // a caller that adds pictures asks for the result
                          // itself
      monitor_.lock();
      totals_.unstored += stored ? 0 : 1;
      totals_.written_bytes += stored ? entry_bytes(*kv_, store_.wish.facts) : 0;
      totals_.write_ms += stored ? elapsed_ms(start, now_ns()) : 0;
      store_.step = Step::kFree;
      monitor_.notify_all();
      library->end_use();
    } else if (quit_) {
      return;
    } else {
      monitor_.wait();
    }
  }
}

/// Logged once: a full disk stays full for a while, and answers do not depend on it.
void LibraryTraffic::tell_unstored() {
  if (has_told_) return;
  has_told_ = true;
  log_.write(LogLevel::kWarning, "library: a picture was not stored, and others may fail, too: %s",
             last_failure().sentence);
}

/// Only this thread uses the data being written.
bool LibraryTraffic::write_entry() {
  const TraceRange range(trace_, "library write");
  const EntryWish& wish = store_.wish;
  std::span<const std::byte> blocks[kMaxEntryLayers + 1];
  CachedEntry cached{.library = wish.library->serial(), .owner = wish.owner, .facts = wish.facts, .stamp = {}};
  const std::byte* const from = memory_.store.data;
  for (int32_t block = 0; block <= kv_->kept_layers(); ++block) {
    const int64_t bytes = entry_block_bytes(*kv_, wish.facts, block);
    blocks[block] = {from + cached.bytes, static_cast<size_t>(bytes)};
    cached.bytes += bytes;
  }
  const EntryLabels& labels = store_.labels;
  std::string_view tags[kMaxTags];
  NewEntry entry;
  entry.facts = wish.facts;
  entry.tags = view_tags(labels.tags, tags);
  entry.caption = labels.caption.view();
  entry.expires = labels.expires;
  entry.pinned = labels.pinned;
  entry.computed_us = static_cast<int64_t>(store_.computed_ms * 1e3);
  entry.embedding = {memory_.embedding.data, static_cast<size_t>(memory_.embedding.cols)};
  entry.blocks = {blocks, static_cast<size_t>(kv_->kept_layers()) + 1};
  LibraryKey key;
  const Status status = wish.library->put(wish.owner.view(), wish.part, entry, &key);
  {
    const std::lock_guard lock(monitor_);
    last_writer_ = store_.session;
    stored_[last_writer_] = {status, key, status.ok() ? Failure() : last_failure(), store_.number};
  }
  if (!status.ok()) return false;
  LibraryEntry file;
  bool found = false;
  cached.part = wish.part;
  cached.computed_ms = store_.computed_ms;
  if (!wish.library->find_key(wish.owner.view(), key, &file, &found).ok() || !found || !file.take_stamp(&cached.stamp))
    return true;
  cache_.insert(cached, from);
  const std::lock_guard lock(monitor_);
  stored_[last_writer_].stamp = cached.stamp;
  stored_[last_writer_].part = cached.part;
  stored_[last_writer_].is_stamped = true;
  return true;
}

}  // namespace ocellus
