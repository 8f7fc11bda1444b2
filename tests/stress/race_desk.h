// An engine with its sessions, at which several threads work, and which another thread stops at any moment.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ocellus.hpp"
#include "tests/stress/race_tally.h"
#include "tests/stress/race_tasks.h"
#include "tests/support/random.h"

namespace ocellus::test {

struct DeskPlan {
  const char* name;
  const char* family;  // below tests/data/families; empty: the bundled model
  const char* owner;   // in the image library; null: it has none
  int32_t sessions;
  int32_t threads;  // of the engine
  int32_t users;    // threads that work at it
  bool is_visited;  // another process has the same
  void (*choose)(ocellus_limits* limits);
};
extern const std::vector<DeskPlan> kDeskPlans;

class Desk {
 public:
  Desk(const DeskPlan& plan, const Model& model, const Library* library);
  ~Desk();
  const DeskPlan& plan() const { return plan_; }
  size_t task_count() const { return expected_.size(); }

  /// Finds what the tasks give on an engine of one thread without an image library, with nothing else going on.
  void find_expected();
  /// Makes the engine and opens its sessions.
  void open();
  /// The same with all work on the calling thread.
  void open_alone() {
    threads_ = 1;
    open();
  }
  /// Works as one of the users until a time.
  void work(uint64_t seed, Clock::time_point end, Tally* tally);
  /// Cancels what is due: called again and again by one thread.
  void cancel_due();

 private:
  struct Place {
    Session session;
    std::vector<std::string> keys;
    bool is_talking = false;               // one user goes on here while others take their turns
    std::atomic<int64_t> cancel_at_ns{0};  // 0: not wanted
    std::atomic<int64_t> cancelled_ns{0};
    std::atomic<clockid_t> worker{};               // clock of the thread that is to be stopped
    std::atomic<int64_t> worked_until_stop_ns{0};  // by it
  };
  struct Expected {
    Task task;
    Outcome outcome;
  };

  ocellus_engine_config configure(int32_t threads);
  Seat seat_of(Place& place);
  void open_session(Place& place);
  bool is_quiet() const;
  Place* choose_place(Random& random);
  void work_once(Random& random, Tally* tally);
  void try_task(Random& random, Tally* tally);
  void try_batch(Random& random, Tally* tally);
  void talk_in_turns(Random& random, Tally* tally);
  void reopen(Random& random, Tally* tally);
  void look(Tally* tally);
  void search(Random& random, Tally* tally);
  Task draw_task(Random& random, const Outcome** expected);
  void threaten(Place& place, Random& random, const char* kind);
  bool is_stopped(Place& place, const Calls& calls, const char* kind, Tally* tally);
  void calm(Place& place, Tally* tally, const Calls& calls);

  const DeskPlan& plan_;
  const Model& model_;
  int32_t threads_;
  const Library* library_;
  ocellus_model_facts facts_ = {};
  ocellus_limits limits_ = {};
  std::vector<Expected> expected_;
  std::atomic<int64_t> balance_{0};   // pieces of set-up memory
  std::atomic<int64_t> messages_{0};  // of the log and the trace
  std::mutex turn_;                   // one thread at a time may use an engine and its sessions
  std::mutex life_;                   // a session is not closed while it is cancelled
  Engine engine_;
  std::deque<Place> places_;
  std::map<std::string, int64_t> usual_ns_;  // by kind of work
};

}  // namespace ocellus::test
