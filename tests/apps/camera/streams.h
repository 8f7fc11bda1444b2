// Streams of frames, and what a source makes of them.
#pragma once

#include "apps/camera/stream_source.h"
#include "tests/apps/camera/support.h"

namespace ocellus::app::test {

inline SourceOptions raw(const std::string& format, int32_t width, int32_t height) {
  return {.name = "pipe", .format = format, .width = width, .height = height};
}

inline Bytes y4m_frame(const Bytes& planes, const std::string& parameters = "") {
  return to_bytes("FRAME" + parameters + "\n") + planes;
}

/// All events of a pipe that brings these bytes and ends.
inline std::vector<SourceEvent> read_pipe(const SourceOptions& options, const Bytes& bytes,
                                          std::vector<Frame>* frames) {
  Pipe pipe;
  StreamSource source(options, pipe.reader);
  std::thread writer([&] {
    pipe.write(bytes);
    pipe.finish();
  });
  const std::vector<SourceEvent> events = collect(source, frames);
  writer.join();
  return events;
}

}  // namespace ocellus::app::test
