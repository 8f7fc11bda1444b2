// Who is answered when: a bounded queue in front of a few sessions that are decoded together. One thread owns the
// engine; a second one reads requests, and takes out who has left or waits for too long.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "apps/serve/chat_request.h"
#include "apps/serve/request_error.h"
#include "apps/serve/serve_metrics.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

struct ChatJob;

struct ServeOptions {
  int32_t queue = 16;                             // requests that may wait; more get 429
  int32_t deadline_s = 60;                        // from the arrival; then the answer ends, or 504 if it has not begun
  int64_t cache_bytes = 1;                        // planned for the keys and values of all sessions
  int32_t images = 0;                             // that a conversation can hold
  bool strict = false;                            // fields that nobody knows are refused, not ignored
  std::vector<std::string> names;                 // of the model; the first one is its own
  ocellus_generate_params params;                 // for what requests leave out
  std::function<void(ocellus_session*)> prepare;  // what a session needs whenever it was opened; may be empty
  std::function<void()> enter;                    // what the thread that computes begins with; may be empty
  std::function<void(const std::string&)> note;   // takes a line for the log; may be empty
  // Opens a session again, as ocellus_session_open does.
  std::function<ocellus_status(ocellus_engine*, ocellus_session**)> open = ocellus_session_open;
};

class ChatScheduler {
 public:
  // The sessions are one engine's; from now on nobody else may use any of them.
  ChatScheduler(const ocellus_model* model, std::vector<ocellus_session*> sessions, ocellus_engine* engine,
                ServeOptions options, ServeMetrics* metrics);
  ~ChatScheduler();  // stops
  ChatScheduler(const ChatScheduler&) = delete;
  ChatScheduler& operator=(const ChatScheduler&) = delete;

  // From the server's thread; does not block.
  void submit(std::shared_ptr<HttpExchange> exchange);
  // Ends what runs and waits, each with 503 or the end of its stream.
  void stop();

 private:
  using Job = std::shared_ptr<ChatJob>;

  void run_front();
  void run_engine();
  void read_request(const Job& job);
  void check_request(const ChatRequest& request);
  void note_unknown_field(const std::string& name);
  void look_after(const std::unique_lock<std::mutex>& held);
  Job take_next();
  void start(const Job& job);
  bool must_stop(const Job& job);
  void continue_answers();
  void generate_slice(const std::vector<Job>& jobs);
  void judge(const Job& job, ocellus_status status, const ocellus_generate_stats& stats);
  void finish(const Job& job, const char* reason);
  void fail(const Job& job, const RequestError& error);
  void drop(const Job& job);  // its client has left
  void leave(const Job& job);
  void reopen_lost();
  void show_load();

  const ocellus_model* model_;
  ocellus_engine* engine_;
  const ServeOptions options_;
  ServeMetrics* metrics_;
  const int64_t session_count_;
  std::vector<ocellus_session*> free_;  // the engine's thread's
  int64_t lost_count_ = 0;              // sessions that could not be opened again, yet; the engine's thread's

  std::set<std::string> noted_fields_;  // the front thread's

  std::mutex mutex_;  // of what follows, and of ChatJob::session
  std::condition_variable front_changed_, engine_changed_;
  std::deque<Job> arrived_;               // not yet read
  std::deque<Job> waiting_;               // for a session
  std::vector<Job> running_;              // changed by the engine's thread alone
  std::map<std::string, int64_t> turns_;  // by client: the number of its last turn
  int64_t turn_ = 0;
  int64_t being_read_ = 0;
  bool is_stopping_ = false;
  std::thread front_, worker_;
};

}  // namespace ocellus::app
