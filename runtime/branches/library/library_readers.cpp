#include "runtime/branches/library/library_readers.h"

#include <cstdio>
#include <mutex>

#include "runtime/branches/library/image_library.h"

namespace ocellus {

Status BlockReaders::start(int threads, const ThreadSettings& settings, const TraceSink& trace) {
  trace_ = trace;
  const auto main = [](void* self) { static_cast<BlockReaders*>(self)->loop(); };
  for (; running_ < threads; ++running_) {
    char name[24];
    std::snprintf(name, sizeof name, "read-%d", running_ + 1);
    OCELLUS_TRY(threads_[running_].start(settings, name, main, this));
  }
  return {};
}

void BlockReaders::stop() {
  {
    const std::lock_guard lock(monitor_);
    quit_ = true;
    monitor_.notify_all();
  }
  for (; running_ > 0; --running_) threads_[running_ - 1].join();
  quit_ = false;
}

void BlockReaders::begin(const LibraryEntry& entry, int32_t count, const int64_t* offsets, std::byte* to,
                         const Progress& progress) {
  const std::lock_guard lock(monitor_);
  entry_ = &entry;
  offsets_ = offsets;
  to_ = to;
  progress_ = progress;
  next_ = 0;
  count_ = count;
  damaged_ = -1;
  intact_ = 0;
  is_read_.reset();
  if (running_ > 0) monitor_.notify_all();
}

bool BlockReaders::help() {
  const std::lock_guard lock(monitor_);
  if (next_ == count_) return false;
  read_next();
  return true;
}

void BlockReaders::drop() {
  const std::lock_guard lock(monitor_);
  next_ = count_;
}

int32_t BlockReaders::finish() {
  const std::lock_guard lock(monitor_);
  while (begun_ > 0) monitor_.wait();
  return damaged_;
}

/// Called with the lock held; releases it meanwhile.
void BlockReaders::note_progress() {
  if (progress_.note == nullptr) return;
  const int32_t intact = intact_;
  monitor_.unlock();
  progress_.note(progress_.user, intact);
  monitor_.lock();
}

/// Called with the lock held; releases it while reading.
void BlockReaders::read_next() {
  const int32_t block = next_++;
  ++begun_;
  monitor_.unlock();
  const bool is_sound = [&] {
    const TraceRange range(trace_, "library block");
    return entry_->probe_block(block, to_ + offsets_[block]);
  }();
  monitor_.lock();
  if (is_sound) {
    is_read_[static_cast<size_t>(block)] = true;
    while (intact_ < count_ && is_read_[static_cast<size_t>(intact_)]) ++intact_;
    note_progress();
  } else {
    damaged_ = block;
    next_ = count_;
  }
  if (--begun_ == 0) monitor_.notify_all();
}

void BlockReaders::loop() {
  const std::lock_guard lock(monitor_);
  while (!quit_) {
    if (next_ < count_)
      read_next();
    else
      monitor_.wait();
  }
}

}  // namespace ocellus
