// Frames from a pipe or a file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/camera/frame_source.h"
#include "apps/camera/pacer.h"
#include "apps/camera/stream_parser.h"

namespace ocellus::app {

// Reads standard input ("-"), a named pipe or a file: motion JPEG (also in HTTP's multipart form, with its head or from
// the middle on), Y4M or, with `format`, raw frames. Pipes deliver frames as they come. Files are paced at
// `frames_per_second`, their own rate or 30, and with `loop` start again at their end. A stalled pipe is a kTimeout; a
// frame that is cut short at the end is kBroken.
class StreamSource : public FrameSource {
 public:
  // Throws a Failure for files that cannot be read and for contradicting options. A pipe's bytes are checked later: if
  // they cannot be read, next() returns kLost.
  explicit StreamSource(const SourceOptions& options);
  // Reads from an open descriptor, which it closes; `name` is for sentences.
  StreamSource(const SourceOptions& options, int descriptor);
  ~StreamSource() override;
  StreamSource(const StreamSource&) = delete;
  StreamSource& operator=(const StreamSource&) = delete;

  SourceEvent next(Frame* frame, std::chrono::milliseconds wait) override;
  std::string describe() const override;
  double frames_per_second() const override;

 private:
  enum class Input { kBytes, kNothing, kEnd, kError };

  void start();
  Input read_more(int64_t wait_ns);
  std::string choose_parser(bool at_end);
  std::string refusal() const;
  bool finds_jpeg();
  SourceEvent parse(Frame* frame);
  SourceEvent end_of_input();

  SourceOptions options_;
  int descriptor_;
  bool is_file_ = false, at_end_ = false, any_in_pass_ = false;
  int64_t file_begin_ = 0;
  std::unique_ptr<StreamParser> parser_;  // null until the format is known
  Pacer pacer_;
  std::vector<uint8_t> input_;
  size_t taken_ = 0, held_ = 0;  // bytes of input_: taken by the parser, read so far
  size_t searched_ = 0;          // bytes searched for a JPEG, before the format is known
  int64_t sequence_ = 0;
};

}  // namespace ocellus::app
