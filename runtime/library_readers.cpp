#include "runtime/library_readers.h"

#include <csignal>
#include <cstring>
#include <mutex>

#include "runtime/image_library.h"

namespace ocellus {

int start_library_thread(pthread_t* thread, void* (*main)(void*), void* argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(thread, nullptr, main, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

Status BlockReaders::start(int threads) {
  const auto main = [](void* self) -> void* {
    static_cast<BlockReaders*>(self)->loop();
    return nullptr;
  };
  for (; running_ < threads; ++running_)
    if (const int error = start_library_thread(&threads_[running_], main, this); error != 0)
      return OCELLUS_FAIL(Code::kIo, "the system allows no threads for the image library (%s)", std::strerror(error));
  return {};
}

void BlockReaders::stop() {
  {
    const std::lock_guard lock(monitor_);
    quit_ = true;
    monitor_.notify_all();
  }
  for (; running_ > 0; --running_) pthread_join(threads_[running_ - 1], nullptr);
  quit_ = false;
}

void BlockReaders::begin(const LibraryEntry& entry, int32_t count, const int64_t* offsets, std::byte* to) {
  const std::lock_guard lock(monitor_);
  entry_ = &entry;
  offsets_ = offsets;
  to_ = to;
  next_ = 0;
  count_ = count;
  damaged_ = -1;
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

/// With the lock, which others may have meanwhile.
void BlockReaders::read_next() {
  const int32_t block = next_++;
  ++begun_;
  monitor_.unlock();
  const bool is_sound = entry_->probe_block(block, to_ + offsets_[block]);
  monitor_.lock();
  if (!is_sound) {
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
