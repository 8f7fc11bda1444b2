// Shared by the camera's tests: frames, folders, pipes and a scripted source.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/base/failure.h"
#include "apps/camera/capture.h"
#include "apps/camera/frame_source.h"
#include "apps/camera/synthetic_source.h"
#include "tests/support/random.h"

namespace ocellus::app::test {

using namespace ocellus::test;  // shared by all tests

using std::chrono::milliseconds;
using Bytes = std::vector<uint8_t>;

inline const std::string kSamples = std::string(OCELLUS_SOURCE_DIR) + "/apps/samples/";

inline Bytes read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_whole(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

inline Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

inline Bytes to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

/// A JPEG of a made-up scene; another seed, another scene.
inline Bytes scene_jpeg(int32_t width, int32_t height, uint64_t seed) {
  SyntheticSource source({.name = "synthetic", .format = "mjpeg", .width = width, .height = height, .seed = seed});
  Frame frame;
  REQUIRE(source.next(&frame, milliseconds(1000)).kind == SourceEvent::kFrame);
  return frame.bytes;
}

/// Without its Huffman tables, as webcams send it.
inline Bytes strip_tables(const Bytes& jpeg) {
  Bytes out(jpeg.begin(), jpeg.begin() + 2);
  size_t at = 2;
  while (jpeg[at + 1] != 0xDA) {
    const size_t length = 2 + static_cast<size_t>(jpeg[at + 2] << 8 | jpeg[at + 3]);
    if (jpeg[at + 1] != 0xC4) out.insert(out.end(), jpeg.begin() + at, jpeg.begin() + at + length);
    at += length;
  }
  out.insert(out.end(), jpeg.begin() + at, jpeg.end());
  return out;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> count{0};
    path_ = (std::filesystem::temp_directory_path() /
             ("ocellus-camera-" + std::to_string(::getpid()) + "-" + std::to_string(count++)))
                .string();
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The source reads from `reader` and closes it; the test writes.
class Pipe {
 public:
  Pipe() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    reader = ends[0];
    writer_ = ends[1];
  }
  ~Pipe() { finish(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void write(const Bytes& bytes) const {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::write(writer_, bytes.data() + done, bytes.size() - done);
      REQUIRE(count > 0);
      done += static_cast<size_t>(count);
    }
  }
  void finish() {
    if (writer_ >= 0) ::close(writer_);
    writer_ = -1;
  }
  int reader = -1;

 private:
  int writer_ = -1;
};

/// All that a source gives until its end, or `most` events without its timeouts.
inline std::vector<SourceEvent> collect(FrameSource& source, std::vector<Frame>* frames, size_t most = 1000) {
  std::vector<SourceEvent> events;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (events.size() < most && std::chrono::steady_clock::now() < end) {
    Frame frame;
    const SourceEvent event = source.next(&frame, milliseconds(100));
    if (event.kind == SourceEvent::kTimeout) continue;
    events.push_back(event);
    if (event.kind == SourceEvent::kFrame && frames != nullptr) frames->push_back(frame);
    if (event.kind == SourceEvent::kEnd || event.kind == SourceEvent::kLost) break;
  }
  return events;
}

inline int64_t count_kind(const std::vector<SourceEvent>& events, SourceEvent::Kind kind) {
  return std::count_if(events.begin(), events.end(), [&](const SourceEvent& event) { return event.kind == kind; });
}

/// The sentence of the Failure that `action` throws; empty if it throws none.
inline std::string failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return {};
}

/// Returns true if `condition` holds within some seconds.
inline bool comes_true(const std::function<bool()>& condition, milliseconds patience = milliseconds(10000)) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return condition();
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Events that a Capture reported.
class EventList {
 public:
  std::function<void(const std::string&)> listener() {
    return [this](const std::string& sentence) {
      const std::lock_guard<std::mutex> guard(lock_);
      sentences_.push_back(sentence);
    };
  }
  bool has(const std::string& part) const {
    const std::lock_guard<std::mutex> guard(lock_);
    for (const std::string& sentence : sentences_) {
      if (contains(sentence, part)) return true;
    }
    return false;
  }

 private:
  mutable std::mutex lock_;
  std::vector<std::string> sentences_;
};

}  // namespace ocellus::app::test
