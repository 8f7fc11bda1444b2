// Single JPEG files out of a stream of them, as pipes and files of motion JPEG are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::app {

// Walks markers, segments and coded data, so that thumbnails inside of segments end no frame. What stands between
// frames (the headers of HTTP's multipart streams, padding) is skipped. A frame that is cut short or has damaged
// markers is reported, and the search goes on inside of it. Any bytes in any cuts are fine; at most kMostEncodedBytes
// and what one push brought are held.
class JpegSplitter {
 public:
  enum Result {
    kNeedMore,  // no frame is complete: push more
    kFrame,     // *frame is one
    kBroken,    // one cannot be used; *what says why in a sentence
  };

  void push(const uint8_t* bytes, size_t count);
  Result next(std::vector<uint8_t>* frame, std::string* what);
  // At the stream's end: whether a frame had begun, which is thrown away.
  bool finish();
  size_t held_bytes() const { return bytes_.size(); }

 private:
  enum class State { kSearch, kMarker, kSegment, kCoded };
  enum class Step { kOn, kNeedMore, kFrame, kBroken };

  Step search();
  Step read_marker();
  Step read_coded();
  Step fail(const char* why, size_t search_from);

  std::vector<uint8_t> bytes_;
  State state_ = State::kSearch;
  size_t start_ = 0;         // of the frame, or of what need not be kept
  size_t at_ = 0;            // of what is looked at next
  size_t doubtful_ = 0;      // in a segment whose end may be wrong, because no marker has followed it yet
  size_t segment_end_ = 0;   // of the segment that begins at at_
  bool coded_next_ = false;  // coded data follow this segment
  bool seen_scan_ = false;   // the frame has coded data
  size_t between_ = 0;       // bytes since the last frame
  bool complained_ = false;  // that these are many
  const char* why_ = "";
};

}  // namespace ocellus::app
