#include "apps/camera/jpeg_splitter.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "apps/camera/jpeg_repair.h"
#include "apps/camera/picture_decode.h"
#include "mm/pictures/jpeg_markers.h"

namespace ocellus::app {
namespace {

constexpr size_t kManyBetween = 64 << 10;  // bytes without a JPEG that are reported

using namespace jpeg;

// True if a segment of this kind can have this length: a wrong length would swallow other frames.
bool is_possible(uint8_t marker, size_t length) {
  if (marker == kDht) return length <= 2 + 8 * (17 + 256);
  if (marker <= kSof15) return length <= 8 + 3 * 4;
  switch (marker) {
    case kSos: return length <= 6 + 2 * 4;
    case kDqt: return length <= 2 + 4 * 129;
    case kDnl:
    case kDri: return length == 4;
    default: return length >= 2;
  }
}

// Cuts the text off that HTTP's multipart streams have between two frames.
void cut_boundary(std::vector<uint8_t>* frame) {
  constexpr size_t kMaxText = 2048;
  const auto is_text = [](uint8_t byte) {
    return byte == '\r' || byte == '\n' || byte == '\t' || (byte >= ' ' && byte <= '~');
  };
  size_t begin = frame->size();
  while (begin > 0 && frame->size() - begin < kMaxText && is_text((*frame)[begin - 1])) --begin;
  const std::string_view text(reinterpret_cast<const char*>(frame->data()) + begin, frame->size() - begin);
  size_t at = text.find("\n--");
  if (at == std::string_view::npos) return;
  if (at > 0 && text[at - 1] == '\r') --at;
  frame->resize(begin + at);
}

}  // namespace

void JpegSplitter::push(const uint8_t* bytes, size_t count) {
  if (state_ == State::kSearch) start_ = at_;
  if (start_ > 0) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(start_));
    at_ -= start_;
    segment_end_ -= start_;
    doubtful_ -= start_;
    start_ = 0;
  }
  bytes_.insert(bytes_.end(), bytes, bytes + count);
}

JpegSplitter::Result JpegSplitter::next(std::vector<uint8_t>* frame, std::string* what) {
  for (;;) {
    if (!closed_.empty()) {
      frame->swap(closed_);
      closed_.clear();
      return kFrame;
    }
    Step step = Step::kOn;
    switch (state_) {
      case State::kSearch: step = search(); break;
      case State::kMarker: step = read_marker(); break;
      case State::kCoded: step = read_coded(); break;
      case State::kSegment:
        if (bytes_.size() < segment_end_) {
          step = Step::kNeedMore;
        } else {
          at_ = segment_end_;
          state_ = coded_next_ ? State::kCoded : State::kMarker;
        }
        break;
    }
    if (step != Step::kFrame && state_ != State::kSearch && at_ - start_ > static_cast<size_t>(kMaxEncodedBytes)) {
      step = fail("A frame has more than 32 MiB.", at_);
    }
    switch (step) {
      case Step::kOn: break;
      case Step::kNeedMore: return kNeedMore;
      case Step::kBroken: *what = why_; return kBroken;
      case Step::kFrame:
        frame->assign(bytes_.begin() + static_cast<std::ptrdiff_t>(start_),
                      bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
        end_frame();
        return kFrame;
    }
  }
}

void JpegSplitter::end_frame() {
  state_ = State::kSearch;
  start_ = at_;
  between_ = 0;
  complained_ = false;
}

bool JpegSplitter::pause() {
  if (state_ != State::kCoded || bytes_.size() - start_ == tried_) return false;
  const size_t at = at_;
  at_ = bytes_.size();
  tried_ = at_ - start_;
  if (close_frame()) return true;
  at_ = at;
  return false;
}

// Ends the frame before at_ if it is whole but for its end marker; false if it is not.
bool JpegSplitter::close_frame() {
  closed_.assign(bytes_.begin() + static_cast<std::ptrdiff_t>(start_),
                 bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
  cut_boundary(&closed_);
  insert_huffman_tables(&closed_);
  if (append_end(&closed_)) {
    end_frame();
    return true;
  }
  closed_.clear();
  return false;
}

bool JpegSplitter::finish() {
  const bool begun = state_ != State::kSearch;
  *this = JpegSplitter();
  return begun;
}

JpegSplitter::Step JpegSplitter::fail(const char* why, size_t search_from) {
  why_ = why;
  state_ = State::kSearch;
  start_ = at_ = search_from;
  between_ = 0;
  return Step::kBroken;
}

JpegSplitter::Step JpegSplitter::search() {
  const uint8_t* bytes = bytes_.data();
  const size_t size = bytes_.size(), from = at_;
  while (at_ < size) {
    const void* found = std::memchr(bytes + at_, 0xFF, size - at_);
    at_ = found == nullptr ? size : static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes);
    if (at_ + 2 >= size) break;
    if (bytes[at_ + 1] == kSoi && bytes[at_ + 2] == 0xFF) {
      start_ = at_;
      at_ += 2;
      doubtful_ = at_;
      seen_scan_ = false;
      tried_ = 0;
      state_ = State::kMarker;
      return Step::kOn;
    }
    ++at_;
  }
  between_ += at_ - from;
  if (between_ <= kManyBetween || complained_) return Step::kNeedMore;
  complained_ = true;
  why_ = "The stream has more than 64 KiB that are no JPEG.";
  return Step::kBroken;
}

JpegSplitter::Step JpegSplitter::read_marker() {
  const uint8_t* bytes = bytes_.data();
  const size_t size = bytes_.size();
  if (at_ < size && bytes[at_] != 0xFF) return fail("A JPEG has no marker where one should be.", doubtful_);
  while (at_ + 1 < size && bytes[at_ + 1] == 0xFF) ++at_;  // padding
  if (at_ + 1 >= size) return Step::kNeedMore;
  const uint8_t marker = bytes[at_ + 1];
  if (marker == kSoi) {
    if (seen_scan_ && close_frame()) return Step::kOn;
    return fail("A JPEG ends where the next one begins.", at_);
  }
  if (marker == kEoi && !seen_scan_) return fail("A JPEG ends before its picture.", at_ + 2);
  if (marker == kEoi) {
    at_ += 2;
    return Step::kFrame;
  }
  if (marker == kTem || is_restart(marker)) {  // without a segment
    at_ += 2;
    return Step::kOn;
  }
  if (marker < kSof0) return fail("A JPEG has a marker that does not exist.", doubtful_);
  if (at_ + 3 >= size) return Step::kNeedMore;
  const size_t length = static_cast<size_t>(bytes[at_ + 2] << 8 | bytes[at_ + 3]);
  if (length < 2 || !is_possible(marker, length)) {
    return fail("A JPEG has a segment of an impossible length.", doubtful_);
  }
  doubtful_ = at_ + 2;
  segment_end_ = at_ + 2 + length;
  coded_next_ = marker == kSos;
  seen_scan_ = seen_scan_ || coded_next_;
  state_ = State::kSegment;
  return Step::kOn;
}

JpegSplitter::Step JpegSplitter::read_coded() {
  const uint8_t* bytes = bytes_.data();
  const size_t size = bytes_.size();
  while (at_ < size) {
    const void* found = std::memchr(bytes + at_, 0xFF, size - at_);
    at_ = found == nullptr ? size : static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes);
    if (at_ + 1 >= size) break;
    const uint8_t marker = bytes[at_ + 1];
    if (marker == 0xFF) {
      ++at_;
    } else if (marker < kSof0 || is_restart(marker)) {
      at_ += 2;  // a data byte FF, a restart, or damage that decoders skip
    } else {
      doubtful_ = at_ + 2;
      state_ = State::kMarker;
      return Step::kOn;
    }
  }
  return Step::kNeedMore;
}

}  // namespace ocellus::app
