// Requests to a session whose outcome depends on nothing but themselves: the same bits whatever other sessions,
// engines, threads and libraries do meanwhile.
#pragma once

#include <cstdint>
#include <ctime>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/ocellus.hpp"

namespace ocellus::test {

enum class TaskKind { kTalk, kConstrained, kClip, kChoices, kScore, kEmbed, kEmbedPicture, kRewind };
inline constexpr TaskKind kTaskKinds[] = {TaskKind::kTalk,         TaskKind::kConstrained, TaskKind::kClip,
                                          TaskKind::kChoices,      TaskKind::kScore,       TaskKind::kEmbed,
                                          TaskKind::kEmbedPicture, TaskKind::kRewind};
const char* task_name(TaskKind kind);

/// Ways of one request that change no bit of its outcome.
enum class Manner { kWhole, kSliced, kDrafted, kTogether, kByKey };
inline constexpr Manner kManners[] = {Manner::kWhole, Manner::kSliced, Manner::kDrafted, Manner::kTogether,
                                      Manner::kByKey};

struct Task {
  TaskKind kind = TaskKind::kTalk;
  int variant = 0;  // chooses texts, pictures and the sampler
  Manner manner = Manner::kWhole;
};

struct Outcome {
  std::string text;
  uint64_t hash = 0;
  std::vector<double> values;
  bool operator==(const Outcome&) const = default;
};

/// What a task needs.
struct Seat {
  Engine* engine = nullptr;
  Session* session = nullptr;
  int32_t images = 0;                        // planned for a session
  int32_t clip_frames = 0;                   // planned for a session
  int32_t width = 0;                         // of an embedding, at most
  std::vector<std::string>* keys = nullptr;  // by picture: where an image library keeps it; null: there is none
};

/// Time that a thread has had on a processor: a loaded machine does not change what a call takes of it.
inline int64_t worked_ns(clockid_t thread) {
  timespec time = {};
  clock_gettime(thread, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Makes calls one after the other until one fails. Between them other threads may take their turn.
class Calls {
 public:
  /// `turn`, held during each call; null: the caller holds it for all of them.
  explicit Calls(std::mutex* turn = nullptr) : turn_(turn) {}

  template <class Call>
  Calls& make(const char* name, Call call) {
    if (status_ != OCELLUS_OK) return *this;
    std::unique_lock<std::mutex> lock;
    if (turn_ != nullptr) lock = std::unique_lock<std::mutex>(*turn_);
    made_.push_back({name, deadline_ns(Clock::now()), 0, worked_ns(CLOCK_THREAD_CPUTIME_ID)});
    status_ = call().code();
    if (status_ != OCELLUS_OK) sentence_ = ocellus_last_error()->sentence;
    made_.back().end_ns = deadline_ns(Clock::now());
    made_.back().worked_ns = worked_ns(CLOCK_THREAD_CPUTIME_ID) - made_.back().worked_ns;
    return *this;
  }
  bool ok() const { return status_ == OCELLUS_OK; }
  ocellus_status status() const { return status_; }
  struct Made {
    const char* name = "";
    int64_t begin_ns = 0, end_ns = 0;
    int64_t worked_ns = 0;  // of the thread's time on a processor
  };
  const std::vector<Made>& made() const { return made_; }
  const std::string& sentence() const { return sentence_; }
  ocellus_generate_stats stats = {};  // of the last generate

 private:
  std::mutex* turn_;
  ocellus_status status_ = OCELLUS_OK;
  std::vector<Made> made_;
  std::string sentence_;
};

/// Pictures that tasks show. Read before threads start.
int32_t picture_count();
Bytes picture_bytes(int32_t picture);

/// Adds the prompt of a task of kind kTalk to a session that was reset.
void add_prompt(const Seat& seat, const Task& task, Calls& calls);
ocellus_generate_params task_params(const Task& task);
/// Resets the session and does all of a task.
void do_task(const Seat& seat, const Task& task, Calls& calls, Outcome* out);

}  // namespace ocellus::test
