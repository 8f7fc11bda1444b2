// ChatScheduler: a bounded queue in front of a few sessions that are decoded together. One thread owns the engine; a
// second one reads requests, and removes those whose clients have left or that waited too long.
#pragma once

#include <atomic>
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

#include "apps/serve/asked_retrieval.h"
#include "apps/serve/chat_request.h"
#include "apps/serve/kept_files.h"
#include "apps/serve/request_error.h"
#include "apps/serve/serve_metrics.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

struct ChatJob;

struct ServeOptions {
  int32_t queue = 16;                            // maximum number of waiting requests; more get 429
  int32_t deadline_s = 60;                       // from arrival; then the answer ends, or 504 if it has not begun
  int64_t cache_bytes = 1;                       // planned for the keys and values of all sessions
  int32_t images = 0;                            // maximum per conversation, besides `retrievals`
  int32_t retrievals = 0;                        // pictures that the model may ask for during an answer
  RetrievalForm form = {};                       // the way in which it asks
  bool strict = false;                           // refuse unknown fields instead of ignoring them
  std::vector<std::string> names;                // the model's names; the first one is its own
  ocellus_generate_params params;                // defaults of requests
  int32_t vocabulary = 0;                        // number of tokens
  bool thinks = false;                           // the model's answers may begin with a thought
  ocellus_library* library = nullptr;            // holds the users' pictures; must outlive the scheduler
  bool shares = false;                           // sessions share pictures on the device
  std::string owner;                             // the user of requests without a key of their own
  std::function<void()> enter;                   // called first on the engine's thread; may be empty
  std::function<void(const std::string&)> note;  // takes a line for the log; may be empty
  // Reopens a session, as ocellus_session_open does.
  std::function<ocellus_status(ocellus_engine*, ocellus_session**)> open = ocellus_session_open;
};

class ChatScheduler {
 public:
  // The sessions belong to one engine; the scheduler alone may use them from now on.
  ChatScheduler(const ocellus_model* model, std::vector<ocellus_session*> sessions, ocellus_engine* engine,
                ServeOptions options, ServeMetrics* metrics);
  ~ChatScheduler();  // stops
  ChatScheduler(const ChatScheduler&) = delete;
  ChatScheduler& operator=(const ChatScheduler&) = delete;

  // Accepts a request for an answer or about files on the server's thread; does not block.
  void submit(std::shared_ptr<HttpExchange> exchange);
  // Ends running and waiting requests, each with 503 or the end of its stream.
  void stop();

 private:
  using Job = std::shared_ptr<ChatJob>;

  void run_front();
  void run_engine();
  void read_request(const Job& job);
  void end_reading();
  bool read_chat(const Job& job);
  bool read_file_request(const Job& job, const HttpRequest& head);
  void check_request(const ChatRequest& request);
  void check_images(const ChatRequest& request) const;
  void note_unknown_field(const std::string& name);
  void look_after(const std::unique_lock<std::mutex>& held);
  Job take_next();
  void start(const Job& job);
  void generate_first(const Job& job);
  void keep_file(const Job& job);
  void link_asked(const Job& job);
  bool must_stop(const Job& job);
  void continue_answers();
  int32_t slice_tokens();
  void generate_slice(const std::vector<Job>& jobs);
  void judge(const Job& job, ocellus_status status, const ocellus_generate_stats& stats);
  void finish(const Job& job, const char* reason);
  void fail(const Job& job, const RequestError& error);
  void drop(const Job& job);  // removes a job whose client has left
  void leave(const Job& job);
  void reopen_lost();
  void show_load();
  void show_sharing();

  const ocellus_model* model_;
  ocellus_engine* engine_;
  const ServeOptions options_;
  const KeptFiles files_;
  ServeMetrics* metrics_;
  const int64_t session_count_;
  std::vector<ocellus_session*> free_;  // engine's thread only
  int64_t lost_count_ = 0;              // sessions to reopen; engine's thread only
  std::atomic<int64_t> shared_bytes_ = 0;

  std::set<std::string> noted_fields_;  // front thread only

  std::mutex mutex_;  // guards the members below, and ChatJob::session
  std::condition_variable front_changed_, engine_changed_;
  std::deque<Job> arrived_;               // not yet read
  std::deque<Job> waiting_;               // waiting for a session
  std::vector<Job> running_;              // changed by the engine's thread only
  std::map<std::string, int64_t> turns_;  // by client: number of its last turn
  int64_t turn_ = 0;
  int64_t being_read_ = 0;
  bool is_stopping_ = false;
  std::thread front_, worker_;
};

}  // namespace ocellus::app
