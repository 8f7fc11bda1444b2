// A trace file of timed ranges for chrome://tracing, Perfetto and other readers of Chrome's trace format.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ocellus::app {

// Ranges may come from any thread and never wait for the disk: the file has a writing thread. Ranges that come faster
// than they can be written are counted and dropped.
class TraceFile {
 public:
  // Called with one sentence, once, when the file cannot be written any more, and once if ranges were dropped. On any
  // thread.
  using Complaint = std::function<void(const std::string& sentence)>;

  TraceFile(std::string path, Complaint complain) : path_(std::move(path)), complain_(std::move(complain)) {}
  ~TraceFile() { close(); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Throws a Failure if the file cannot be created, or exists and is no trace. Does nothing when called again.
  void open();
  // Writes waiting events and the end; the file is then a JSON array of events. Later ranges are dropped.
  void close();

  // Times are CLOCK_MONOTONIC in nanoseconds. `name` must be a literal: it is not copied.
  void add(const char* name, int64_t begin_ns, int64_t end_ns);
  // Calls add(), as ocellus_engine_config.trace; `self` is the file.
  static void receive(void* self, const char* name, int64_t begin_ns, int64_t end_ns);

 private:
  void check_place() const;
  struct Range {
    const char* name;
    int64_t begin_ns;
    int64_t end_ns;
    pid_t thread;
  };
  struct NamedThread {
    pid_t thread;
    char name[16];
  };

  void write_loop();
  void write_events(const std::vector<Range>& ranges, const std::vector<NamedThread>& threads);
  void append_event(const std::string& event);
  bool write_text(const std::string& text);
  void fail(int error);

  const std::string path_;
  const Complaint complain_;
  // Used by the writing thread while it runs:
  int file_ = -1;
  int64_t start_ns_ = 0;
  int64_t good_bytes_ = 0;  // up to the end of the last whole event
  bool has_events_ = false;
  bool failed_ = false;
  std::string text_;

  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::vector<Range> waiting_;
  std::vector<NamedThread> new_threads_;
  std::vector<pid_t> known_threads_;
  int64_t left_out_ = 0;
  bool is_open_ = false;
  bool stopping_ = false;
  std::thread writer_;
};

}  // namespace ocellus::app
