#include "apps/serve/waiting_line.h"

#include <algorithm>
#include <tuple>

namespace ocellus::app {
namespace {

constexpr int64_t kMaxTurns = 256;  // names whose last turn is remembered

template <typename Rank>
WaitingLine::Job take_least(std::deque<WaitingLine::Job>* jobs, Rank rank) {
  const auto found =
      std::min_element(jobs->begin(), jobs->end(), [&](const auto& a, const auto& b) { return rank(*a) < rank(*b); });
  const WaitingLine::Job job = *found;
  jobs->erase(found);
  return job;
}

}  // namespace

int64_t Turns::last(const std::string& name) const {
  const auto turn = turns_.find(name);
  return turn == turns_.end() ? 0 : turn->second;
}

void Turns::take(const std::string& name) {
  turns_[name] = ++count_;
  std::erase_if(turns_, [this](const auto& turn) { return turn.second + kMaxTurns < count_; });
}

WaitingLine::Job WaitingLine::take_arrived() {
  const Job job = take_least(&arrived_, [this](const ChatJob& one) { return reading_.last(one.door); });
  reading_.take(job->door);
  return job;
}

WaitingLine::Job WaitingLine::take_read(const std::vector<Job>& running) {
  const auto rank = [&](const ChatJob& one) {
    int64_t of_door = 0, of_client = 0;
    for (const Job& job : running) {
      of_door += job->door == one.door ? 1 : 0;
      of_client += job->door == one.door && job->client == one.client ? 1 : 0;
    }
    return std::tuple(of_door, doors_.last(one.door), of_client, clients_.last(one.client));
  };
  const Job job = take_least(&read_, rank);
  doors_.take(job->door);
  clients_.take(job->client);
  return job;
}

WaitingLine::Job WaitingLine::take_for(const std::string& door) {
  std::map<std::string, int64_t> counts;
  for (const auto* jobs : {&arrived_, &read_}) {
    for (const Job& job : *jobs) ++counts[job->door];
  }
  const auto found = counts.find(door);
  int64_t most = 1 + (found == counts.end() ? 0 : found->second);
  std::deque<Job>* line = nullptr;
  std::deque<Job>::iterator newest;
  for (auto* jobs : {&read_, &arrived_}) {
    for (auto job = jobs->begin(); job != jobs->end(); ++job) {
      const int64_t count = counts[(*job)->door];
      if (count < most || (count == most && (line == nullptr || (*job)->arrived_ns < (*newest)->arrived_ns))) continue;
      most = count;
      line = jobs;
      newest = job;
    }
  }
  if (line == nullptr) return nullptr;
  const Job job = *newest;
  line->erase(newest);
  return job;
}

std::vector<WaitingLine::Job> WaitingLine::take_if(const std::function<bool(const Job&)>& is_over) {
  std::vector<Job> taken;
  for (auto* jobs : {&arrived_, &read_}) {
    std::erase_if(*jobs, [&](const Job& job) {
      if (!is_over(job)) return false;
      taken.push_back(job);
      return true;
    });
  }
  return taken;
}

}  // namespace ocellus::app
