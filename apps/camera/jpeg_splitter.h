// Splits a stream of JPEG files (motion JPEG) into single files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::app {

// Walks markers, segments and coded data, so that thumbnails inside segments end no frame. Bytes between frames (the
// headers of HTTP's multipart streams, padding) are skipped. A frame that is cut short or has damaged markers is
// reported, and the search continues inside it; one that is whole but for its end marker gets that, and the tables that
// it may lack. Any bytes in any cuts are fine; at most kMaxEncodedBytes plus one push are held.
class JpegSplitter {
 public:
  enum Result {
    kNeedMore,  // no frame is complete: push more
    kFrame,     // *frame is one
    kBroken,    // one cannot be used; *what is a sentence that says why
  };

  void push(const uint8_t* bytes, size_t count);
  Result next(std::vector<uint8_t>* frame, std::string* what);
  // Tells that no bytes follow for now: returns true if the last frame lacks its end marker alone, so that next() has
  // it.
  bool pause();
  // Ends the stream; returns true if an incomplete frame was dropped.
  bool finish();
  size_t held_bytes() const { return bytes_.size(); }

 private:
  enum class State { kSearch, kMarker, kSegment, kCoded };
  enum class Step { kOn, kNeedMore, kFrame, kBroken };

  Step search();
  Step read_marker();
  Step read_coded();
  Step fail(const char* why, size_t search_from);
  bool close_frame();
  void end_frame();

  std::vector<uint8_t> bytes_;
  State state_ = State::kSearch;
  size_t start_ = 0;             // start of the frame, or of the bytes to keep
  size_t at_ = 0;                // next byte to examine
  size_t doubtful_ = 0;          // start of a segment whose end is unconfirmed, because no marker has followed it yet
  size_t segment_end_ = 0;       // end of the segment that begins at at_
  bool coded_next_ = false;      // coded data follow this segment
  bool seen_scan_ = false;       // the frame has coded data
  size_t between_ = 0;           // bytes since the last frame
  std::vector<uint8_t> closed_;  // a frame that got its end marker, until next() gives it
  size_t tried_ = 0;             // bytes of the frame that pause() has last found incomplete
  bool complained_ = false;      // about kManyBetween
  const char* why_ = "";
};

}  // namespace ocellus::app
