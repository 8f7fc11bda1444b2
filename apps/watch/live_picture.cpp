#include "apps/watch/live_picture.h"

#include "apps/camera/jpeg.h"
#include "apps/watch/record.h"

namespace ocellus::app {
namespace {

constexpr int64_t kLookedAtNs = 5'000'000'000;  // a viewer counts as present for this long
constexpr int64_t kWatchedNs = 1'000'000'000 / 15;
constexpr int64_t kUnwatchedNs = 1'000'000'000;

}  // namespace

LivePicture::LivePicture(std::function<void(const EncodedPicture&)> on_picture) : on_picture_(std::move(on_picture)) {
  thread_ = std::thread([this] { encode_frames(); });
}

LivePicture::~LivePicture() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

int64_t LivePicture::now_ns() { return monotonic_ns(); }

void LivePicture::offer(const Frame& frame) {
  const int64_t now = now_ns();
  const bool is_watched = now - looked_ns_ < kLookedAtNs;
  if (now - offered_ns_ < (is_watched ? kWatchedNs : kUnwatchedNs)) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || has_frame_) return;
  waiting_ = frame;
  has_frame_ = true;
  offered_ns_ = now;
  changed_.notify_all();
}

std::shared_ptr<const EncodedPicture> LivePicture::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

void LivePicture::encode_frames() {
  Frame frame;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return has_frame_ || stopping_; });
    if (stopping_) return;
    std::swap(frame, waiting_);
    has_frame_ = false;
    lock.unlock();
    auto picture = std::make_shared<EncodedPicture>(
        EncodedPicture{frame.sequence, frame.captured_ns, frame.width, frame.height, std::vector<uint8_t>()});
    const bool is_made = make_jpeg(frame, kMaxSide, &picture->jpeg);
    lock.lock();
    if (!is_made) continue;
    latest_ = picture;
    lock.unlock();
    on_picture_(*picture);
    lock.lock();
  }
}

}  // namespace ocellus::app
