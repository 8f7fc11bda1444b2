#include "apps/serve/chat_scheduler.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <tuple>
#include <utility>

#include "apps/base/clock.h"
#include "apps/base/failure.h"
#include "apps/base/token_count.h"
#include "apps/serve/chat_job.h"
#include "apps/serve/chat_prompt.h"

namespace ocellus::app {
namespace {

// Tokens of every answer per call of the engine: after a slice finished answers leave and new requests join. While a
// session is free a request may come soon, and those that wait join one by one: a prompt, a token of each answer.
constexpr int32_t kSliceTokens = 16, kOpenSliceTokens = 4, kJoiningSliceTokens = 1;
constexpr auto kLookAfter = std::chrono::milliseconds(50);

RequestError full_error() {
  return RequestError(429, "The queue is full: try again later.", "", "rate_limit_exceeded");
}
RequestError stopping_error() { return RequestError(503, "The server is shutting down.", "", "shutting_down"); }

void mark_session(Session* session, bool* was_cancelled) {
  const ocellus_status status = session->mark().code();
  if (status == OCELLUS_OK) return;
  *was_cancelled = status == OCELLUS_CANCELLED;
  throw library_error(status);
}

template <typename Jobs, typename Job>
void take_out(Jobs* jobs, const Job& job) {
  jobs->erase(std::remove(jobs->begin(), jobs->end(), job), jobs->end());
}

// The last place where the session may be marked; all of them, so that a prompt is read in the same pieces whatever the
// session has read before, if answers are to have the same bits.
std::vector<size_t> marks_of(const std::vector<PromptStep>& steps, const ServeOptions& options) {
  if (!options.keeps_beginnings) return {};
  std::vector<size_t> marks = list_marks(steps);
  if (!options.same_bits && marks.size() > 1) marks.erase(marks.begin(), marks.end() - 1);
  return marks;
}

}  // namespace

ChatScheduler::ChatScheduler(const ocellus_model* model, std::vector<Session> sessions, const Engine& engine,
                             const Library* library, ServeOptions options, ServeMetrics* metrics, OpenSession open)
    : model_(model),
      engine_(engine),
      open_(std::move(open)),
      options_(std::move(options)),
      files_(library),
      forms_(engine, options_.forms,
             [this] {
               const std::lock_guard lock(mutex_);
               has_compiled_ = true;
               engine_changed_.notify_one();
             }),
      metrics_(metrics),
      session_count_(std::ssize(sessions)),
      unknown_(options_) {
  for (Session& session : sessions) free_.push_back({std::move(session), {}});
  front_ = std::thread([this] { run_front(); });
  worker_ = std::thread([this] { run_engine(); });
}

ChatScheduler::~ChatScheduler() { stop(); }

void ChatScheduler::submit(std::shared_ptr<HttpExchange> exchange, const Endpoint& endpoint) {
  const auto job = std::make_shared<ChatJob>(std::move(exchange), endpoint,
                                             int64_t{options_.deadline_s} * 1'000'000'000, options_.owner);
  job->metrics = metrics_;
  Job refused = job;
  RequestError error = stopping_error();
  if (std::unique_lock lock(mutex_); !is_stopping_) {
    // Free sessions take their request at once: it does not count as waiting.
    const int64_t idle = session_count_ - std::ssize(running_);
    const bool is_full = line_.size() + being_read_ >= options_.queue + idle;
    const Job other = is_full ? line_.take_for(job->door) : nullptr;
    if (!is_full || other != nullptr) {
      line_.add_arrived(job);
      front_changed_.notify_one();
      refused = other;
    }
    error = full_error();
  }
  if (refused != nullptr) fail(refused, error);
}

void ChatScheduler::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    for (const Job& job : running_) job->session.cancel();
    front_changed_.notify_one();
    engine_changed_.notify_one();
  }
  if (front_.joinable()) front_.join();
  if (worker_.joinable()) worker_.join();
}

// ---- the front thread

void ChatScheduler::run_front() {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    if (!line_.has_arrived()) front_changed_.wait_for(lock, kLookAfter);
    look_after(lock);
    if (line_.has_arrived()) {
      const Job job = line_.take_arrived();
      being_read_ = 1;
      lock.unlock();
      read_request(job);
      lock.lock();
    }
  }
  for (const Job& job : line_.take_if([](const Job&) { return true; })) fail(job, stopping_error());
}

// Answers a request, or makes of it a job that waits for a session.
void ChatScheduler::read_request(const Job& job) {
  try {
    const std::shared_ptr<HttpExchange> exchange = std::exchange(job->exchange, nullptr);
    job->body = exchange->take_body();
    job->endpoint.read({model_, options_, files_, unknown_}, exchange->request(), job.get());
  } catch (const RequestError& error) {
    end_reading();
    return fail(job, error);
  } catch (const std::exception& error) {
    end_reading();
    return fail(job, RequestError(500, "The request could not be read: " + describe_exception(error)));
  }
  if (job->answer) {
    end_reading();
    return job->reply.send(*std::exchange(job->answer, std::nullopt));
  }
  const std::lock_guard lock(mutex_);
  being_read_ = 0;
  line_.add_read(job);
  engine_changed_.notify_one();
}

// Comes before the answer: whoever has that may send the next request at once.
void ChatScheduler::end_reading() {
  const std::lock_guard lock(mutex_);
  being_read_ = 0;
  show_load();
}

// Removes jobs of clients that have left, in the queue and on the engine, and enforces deadlines in the queue.
void ChatScheduler::look_after(const std::unique_lock<std::mutex>& /*held*/) {
  const int64_t now = monotonic_ns();
  const auto is_over = [now](const Job& job) { return !job->reply.is_open() || now > job->deadline_ns; };
  for (const Job& job : line_.take_if(is_over)) {
    if (!job->reply.is_open()) {
      drop(job);
    } else {
      fail(job, RequestError(504, "The request waited longer than its deadline.", "", "deadline_exceeded"));
    }
  }
  for (const Job& job : running_) {
    if (!job->reply.is_open()) job->session.cancel();
  }
  show_load();
}

void ChatScheduler::show_load() {
  int64_t cache_bytes = shared_bytes_;
  for (const Job& job : running_) cache_bytes += job->cache_bytes;
  metrics_->set_load(std::ssize(running_), line_.size() + being_read_,
                     static_cast<double>(cache_bytes) / static_cast<double>(options_.cache_bytes));
}

// ---- the engine's thread

void ChatScheduler::show_sharing() {
  if (!options_.shares) return;
  const Result<ocellus_engine_stats> stats = engine_.stats();
  if (!stats) return;
  metrics_->set_sharing(*stats);
  shared_bytes_ = stats->shared_bytes_used;
}

void ChatScheduler::run_engine() {
  if (options_.enter) options_.enter();
  for (;;) {
    reopen_lost();
    {
      std::unique_lock lock(mutex_);
      const bool may_run = !free_.empty();
      const auto may_go_on = [](const Job& job) { return !job->waits_for_form; };
      const auto has_work = [&] {
        return is_stopping_ || has_compiled_ || std::any_of(running_.begin(), running_.end(), may_go_on) ||
               (may_run && line_.has_read());
      };
      if (lost_count_ > 0) {
        engine_changed_.wait_for(lock, kLookAfter, has_work);
      } else {
        engine_changed_.wait(lock, has_work);
      }
      if (is_stopping_ && running_.empty()) return;
      has_compiled_ = false;
      if (line_.has_read() && !free_.empty() && !is_stopping_) {
        const Job next = line_.take_read(running_);
        take_session(next);
        running_.push_back(next);
        show_load();
      }
    }
    continue_answers();
  }
}

// Gives a job the session that has read most of its prompt, else an empty one, else the one that was used least lately.
void ChatScheduler::take_session(const Job& job) {
  const std::vector<PromptStep> steps =
      job->work ? std::vector<PromptStep>() : list_steps(job->request, job->prompt_index());
  const auto rank = [&](const FreeSession& one) {
    const bool is_known = one.beginning.begins(job->user, steps);
    return std::tuple(is_known ? one.beginning.tokens : 0, one.beginning.digests.empty(), -one.beginning.used);
  };
  const auto best = std::max_element(free_.begin(), free_.end(),
                                     [&](const FreeSession& a, const FreeSession& b) { return rank(a) < rank(b); });
  metrics_->observe_queue(job->age_s());
  job->session = std::move(best->session);
  job->beginning = std::move(best->beginning);
  free_.erase(best);
}

// Does what a job needs before its answer can be decoded beside others: errors of a request show here.
void ChatScheduler::advance(const Job& job) {
  bool was_cancelled = false;
  try {
    if (!job->waits_for_form) {
      ocellus_session_set_deadline(job->session.get(), job->deadline_ns);
      files_.attach(&job->session, job->user);
    }
    if (job->work) return do_work(job);
    if (job->request.form && job->constraint == nullptr && !take_form(job)) return;
    job->begin_answer(options_);
    read_prompt(job, &was_cancelled);
    if (job->answer_index + 1 == job->request.answer_count()) {
      job->body.bytes = {};
      (void)job->body.recount(job->request.text_bytes());
    }
    if (must_stop(job)) return drop(job);
    job->is_answering = true;
    if (!job->unscored().empty()) return;
    job->request.scored.empty() ? generate_first(job) : answer_by_choice(job);
  } catch (const RequestError& error) {
    if (was_cancelled || must_stop(job)) return drop(job);
    const bool is_late = error.status() == 504 && job->usage.completion_tokens > 0;  // other answers are there
    is_late ? finish(job, "length") : fail(job, error);
  } catch (const std::exception& error) {
    fail(job, RequestError(500, "The request failed: " + describe_exception(error)));
  }
}

// Reads the prompt of the next answer, as far as the session does not have it, and marks where others may go on.
void ChatScheduler::read_prompt(const Job& job, bool* was_cancelled) {
  const std::vector<PromptStep> steps = list_steps(job->request, job->prompt_index());
  const std::span<const PromptStep> all(steps);
  size_t known = go_to_beginning(job, steps);
  if (job->is_prompts_first()) {
    const auto cached = static_cast<int32_t>(job->beginning.tokens);
    job->usage.cached_tokens += cached;
    job->usage.prompt_tokens += cached;
  }
  for (const size_t mark : marks_of(steps, options_)) {
    if (mark <= known) continue;
    job->beginning = {};
    add_steps(&job->session, model_, all.subspan(known, mark - known), was_cancelled);
    mark_session(&job->session, was_cancelled);
    job->beginning.set(job->user, all.first(mark));
    job->beginning.tokens = *job->session.count_tokens();
    known = mark;
  }
  add_steps(&job->session, model_, all.subspan(known), was_cancelled);
}

// Makes the session one that has read the first steps, and returns their number; else it is empty.
size_t ChatScheduler::go_to_beginning(const Job& job, const std::vector<PromptStep>& steps) {
  if (job->beginning.begins(job->user, steps) && *job->session.rewind()) return job->beginning.digests.size();
  job->beginning = {};
  if (const Status status = job->session.forget_all(); !status) throw library_error(status.code());
  return 0;
}

void ChatScheduler::generate_first(const Job& job) {
  const bool is_answers_first = job->usage.completion_tokens == 0;
  show_sharing();  // before the client sees anything
  const ocellus_generate_params params = job->params(1);
  ocellus_generate_stats stats = {};
  stats.stop = OCELLUS_STOP_FAILED;
  const ocellus_status status = job->session.generate(params, nullptr, &stats).code();
  if (job->is_prompts_first() || job->written_tokens > 0) job->usage.prompt_tokens += stats.prompt_tokens;
  if (is_answers_first && written_tokens(stats) > 0) metrics_->observe_first_token(job->age_s());
  judge(job, status, stats);
}

// Puts the picture that the model asked for into its answer, which then goes on.
void ChatScheduler::link_asked(const Job& job) {
  if (job->has_all_tokens()) return finish(job, "length");
  bool was_cancelled = false;
  try {
    const std::vector<RetrievedPicture> found = files_.search_any(job->user, job->asked.take_query());
    for (const RetrievedPicture& one : found) add_kept_picture(&job->session, one.key, "", &was_cancelled);
    job->reply.note_retrieved(found);
    const RetrievalForm& form = job->asked.form();
    add_answer_text(&job->session, found.empty() ? form.nothing_found : form.after_picture, &was_cancelled);
    generate_first(job);
  } catch (const RequestError& error) {
    if (was_cancelled) return drop(job);
    error.code() == "context_length_exceeded" ? finish(job, "length") : fail(job, error);
  }
}

// Does a piece of the work of a request that is not for an answer of the model.
void ChatScheduler::do_work(const Job& job) {
  job->beginning = {};
  if (must_stop(job)) return drop(job);
  std::optional<ReadyAnswer> answer = job->work(&job->session);
  if (!answer) return;
  if (job->endpoint.is_counted) metrics_->count_request(200);
  leave(job);  // first: the next request may come as soon as this one is answered
  job->reply.send(*std::move(answer));
}

// A cancellation before the session had a prompt was cleared; its reason still holds.
bool ChatScheduler::must_stop(const Job& job) {
  const std::lock_guard lock(mutex_);
  return is_stopping_ || !job->reply.is_open();
}

void ChatScheduler::continue_answers() {
  for (const Job& job : std::vector<Job>(running_)) {
    if (!job->is_answering) {
      advance(job);
    } else if (!job->unscored().empty()) {
      score_prompt(job);
    }
  }
  std::vector<Job> jobs;
  std::copy_if(running_.begin(), running_.end(), std::back_inserter(jobs),
               [](const Job& job) { return job->is_answering && job->unscored().empty(); });
  if (jobs.empty()) return;
  const auto owes = [](const Job& job) { return job->owed_ms > 0; };
  if (!std::all_of(jobs.begin(), jobs.end(), owes)) std::erase_if(jobs, owes);
  try {
    generate_slice(jobs);
  } catch (const std::exception& error) {  // out of memory
    for (const Job& job : jobs) {
      if (job->session) fail(job, RequestError(500, "The request failed: " + describe_exception(error)));
    }
  }
}

int32_t ChatScheduler::slice_tokens() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return kSliceTokens;
  return line_.has_read() ? kJoiningSliceTokens : kOpenSliceTokens;
}

void ChatScheduler::generate_slice(const std::vector<Job>& jobs) {
  const int32_t most_tokens = slice_tokens();
  std::vector<ocellus_session*> sessions;
  std::vector<ocellus_generate_params> params;
  std::vector<ocellus_generate_stats> stats(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    sessions.push_back(jobs[i]->session.get());
    params.push_back(jobs[i]->params(most_tokens));
    stats[i].stop = OCELLUS_STOP_FAILED;
  }
  const int64_t begin = monotonic_ns();
  const ocellus_status status = batch_generate(sessions, params, stats).code();
  charge_masks(jobs, stats, static_cast<double>(monotonic_ns() - begin) / 1e6);
  for (size_t i = 0; i < jobs.size(); ++i) judge(jobs[i], status, stats[i]);
}

// Decides on a job after a call of the engine.
void ChatScheduler::judge(const Job& job, ocellus_status status, const ocellus_generate_stats& stats) {
  job->usage.completion_tokens += written_tokens(stats);
  job->written_tokens += written_tokens(stats);
  job->usage.reasoning_tokens += stats.thought_tokens;
  job->answer_tokens += stats.generated_tokens;
  metrics_->count_drafts(stats);
  metrics_->count_views(stats);
  job->cache_bytes = stats.kv_bytes - stats.kv_shared_bytes;
  const bool has_begun = job->usage.completion_tokens > 0;
  switch (static_cast<ocellus_stop>(stats.stop)) {
    case OCELLUS_STOP_END_TOKEN: return finish(job, "stop");
    case OCELLUS_STOP_MAX_TOKENS:
      if (job->has_all_tokens()) finish(job, "length");
      return;
    case OCELLUS_STOP_CALLBACK:
      if (job->has_left) return drop(job);
      return job->filter.is_stopped() ? finish(job, "stop") : link_asked(job);
    case OCELLUS_STOP_FULL:
      if (has_begun) return finish(job, "length");
      return fail(job, library_error(OCELLUS_FULL));
    case OCELLUS_STOP_CANCELLED: return drop(job);
    case OCELLUS_STOP_DEADLINE:
      if (has_begun) return finish(job, "length");
      return fail(job, library_error(OCELLUS_DEADLINE));
    case OCELLUS_STOP_FAILED: break;
  }
  const std::string form = job->request.form ? job->request.form->param : "";
  fail(job, status == OCELLUS_OK ? RequestError(500, "The engine failed.") : library_error(status, form));
}

void ChatScheduler::finish(const Job& job, const char* reason) {
  if (job->end_answer(reason)) return;
  metrics_->count_finish(reason);
  metrics_->count_tokens(job->usage);
  metrics_->observe_request(job->age_s());
  leave(job, /*keeps=*/true);
  job->reply.finish(job->usage);
}

void ChatScheduler::fail(const Job& job, const RequestError& error) {
  if (job->endpoint.is_counted) metrics_->count_request(error.status());
  leave(job);
  job->reply.fail(error);
}

void ChatScheduler::drop(const Job& job) {
  if (job->reply.is_open()) return fail(job, stopping_error());  // cancelled by the server, not the client
  if (job->endpoint.is_counted) metrics_->count_finish("abort");
  metrics_->count_tokens(job->usage);
  leave(job, job->usage.completion_tokens > 0);
}

// Frees the job's session, if it has one, before the last word of its answer is sent: whoever has that may send the
// next request at once. Only the engine's thread has such jobs. `keeps`: what the session has read may stay.
void ChatScheduler::leave(const Job& job, bool keeps) {
  if (!job->session) return;
  forms_.give_back(std::exchange(job->constraint, nullptr));
  Session session;
  {
    const std::lock_guard lock(mutex_);
    session = std::move(job->session);
    take_out(&running_, job);
    show_load();
  }
  // A late cancellation must not hit the next request: opening a session clears it, and returning to a mark.
  if (keeps && !job->beginning.digests.empty()) {
    job->beginning.used = ++used_;
    free_.push_back({std::move(session), std::move(job->beginning)});
  } else {
    session = {};
    ++lost_count_;
    reopen_lost();
  }
  show_sharing();
}

// Sessions that could not be opened are tried again before every request, and when idle.
void ChatScheduler::reopen_lost() {
  while (lost_count_ > 0) {
    Result<Session> fresh = open_(engine_);
    if (!fresh) return;
    free_.push_back({*std::move(fresh), {}});
    --lost_count_;
  }
}

}  // namespace ocellus::app
