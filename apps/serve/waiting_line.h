// WaitingLine: requests that wait to be read, and then for a session. Clients take turns at both, and where the line is
// full, the client that has most in it waits no longer with its newest request.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/serve/chat_job.h"

namespace ocellus::app {

// Remembers when names had their last turn; those of long ago are forgotten, as if they had none.
class Turns {
 public:
  int64_t last(const std::string& name) const;  // 0: none
  void take(const std::string& name);

 private:
  std::map<std::string, int64_t> turns_;
  int64_t count_ = 0;
};

// Not thread-safe.
class WaitingLine {
 public:
  using Job = std::shared_ptr<ChatJob>;

  bool has_arrived() const { return !arrived_.empty(); }
  bool has_read() const { return !read_.empty(); }
  int64_t size() const { return std::ssize(arrived_) + std::ssize(read_); }

  void add_arrived(const Job& job) { arrived_.push_back(job); }
  void add_read(const Job& job) { read_.push_back(job); }

  // Takes the first request of the client whose last turn at being read is longest ago.
  Job take_arrived();
  // Takes the first request of the client with the fewest of `running`, among these of the one whose last turn is
  // longest ago. Of one ChatJob::door all ChatJob::client are asked in the same way.
  Job take_read(const std::vector<Job>& running);
  // Takes the newest request of the client that has most, if it has more than `door` would have with one more; else
  // nullptr.
  Job take_for(const std::string& door);
  // Takes all for which `is_over` is true.
  std::vector<Job> take_if(const std::function<bool(const Job&)>& is_over);

 private:
  std::deque<Job> arrived_;  // not yet read
  std::deque<Job> read_;     // waiting for a session
  Turns reading_, doors_, clients_;
};

}  // namespace ocellus::app
