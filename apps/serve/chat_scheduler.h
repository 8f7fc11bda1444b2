// ChatScheduler: a bounded queue in front of a few sessions that are decoded together. One thread owns the engine; a
// second one reads requests, and removes those whose clients have left or that waited too long.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/serve/compiled_forms.h"
#include "apps/serve/endpoint.h"
#include "apps/serve/prompt_steps.h"
#include "apps/serve/request_error.h"
#include "apps/serve/serve_metrics.h"
#include "apps/serve/waiting_line.h"
#include "runtime/ocellus.hpp"

namespace ocellus::app {

class ChatScheduler {
 public:
  using OpenSession = std::function<Result<Session>(const Engine&)>;
  // The sessions are the engine's. `library` holds the users' pictures; nullptr: none. `open` opens sessions again.
  ChatScheduler(const ocellus_model* model, std::vector<Session> sessions, const Engine& engine, const Library* library,
                ServeOptions options, ServeMetrics* metrics, OpenSession open = Session::open);
  ~ChatScheduler();  // stops
  ChatScheduler(const ChatScheduler&) = delete;
  ChatScheduler& operator=(const ChatScheduler&) = delete;

  // Accepts a request on the server's thread; does not block. The endpoint must outlive this.
  void submit(std::shared_ptr<HttpExchange> exchange, const Endpoint& endpoint);
  // Ends running and waiting requests, each with 503 or the end of its stream.
  void stop();

 private:
  using Job = std::shared_ptr<ChatJob>;
  struct FreeSession {
    Session session;
    Beginning beginning;
  };

  void run_front();
  void run_engine();
  void read_request(const Job& job);
  void end_reading();
  void look_after(const std::unique_lock<std::mutex>& held);
  void take_session(const Job& job);
  void advance(const Job& job);
  void read_prompt(const Job& job, bool* was_cancelled);
  size_t go_to_beginning(const Job& job, const std::vector<PromptStep>& steps);
  void score_prompt(const Job& job);
  void generate_first(const Job& job);
  void answer_by_choice(const Job& job);
  void do_work(const Job& job);
  void link_asked(const Job& job);
  bool must_stop(const Job& job);
  bool take_form(const Job& job);
  void continue_answers();
  int32_t slice_tokens();
  void generate_slice(const std::vector<Job>& jobs);
  void charge_masks(const std::vector<Job>& jobs, const std::vector<ocellus_generate_stats>& stats, double slice_ms);
  void judge(const Job& job, ocellus_status status, const ocellus_generate_stats& stats);
  void finish(const Job& job, const char* reason);
  void fail(const Job& job, const RequestError& error);
  void drop(const Job& job);  // removes a job whose client has left
  void leave(const Job& job, bool keeps = false);
  void reopen_lost();
  void show_load();
  void show_sharing();

  const ocellus_model* model_;
  const Engine& engine_;
  const OpenSession open_;
  const ServeOptions options_;
  const KeptFiles files_;
  CompiledForms forms_;  // engine's thread only
  ServeMetrics* metrics_;
  const int64_t session_count_;
  std::vector<FreeSession> free_;  // engine's thread only, as the next two
  int64_t lost_count_ = 0;         // sessions to reopen
  int64_t used_ = 0;               // sessions taken so far
  std::atomic<int64_t> shared_bytes_ = 0;

  UnknownFields unknown_;  // front thread only

  std::mutex mutex_;  // guards the members below, and ChatJob::session
  std::condition_variable front_changed_, engine_changed_;
  WaitingLine line_;
  std::vector<Job> running_;  // changed by the engine's thread only
  int64_t being_read_ = 0;
  bool is_stopping_ = false;
  bool has_compiled_ = false;  // a form, since the engine's thread looked
  std::thread front_, worker_;
};

}  // namespace ocellus::app
