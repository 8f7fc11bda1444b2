#include "apps/camera/capture.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/camera/pacer.h"
#include "apps/camera/sentences.h"

namespace ocellus::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kStep{25};  // longest wait inside a source, so that stopping is quick
constexpr milliseconds kStopPatience{80};
constexpr milliseconds kBrokenPause{10};  // pause between broken frames once this many came in a row
constexpr int kBrokenInRow = 30;
constexpr double kStallPeriods = 2.5;  // periods of a slow source after which a frame is missed

// Frame rate over the last few seconds.
class RateMeter {
 public:
  void add(int64_t time_ns) { times_ns_[static_cast<size_t>(count_++) % times_ns_.size()] = time_ns; }
  double rate(int64_t now_ns) const {
    const int64_t kept = std::min<int64_t>(count_, static_cast<int64_t>(times_ns_.size()));
    int64_t first_ns = 0, intervals = 0;
    for (int64_t back = 1; back <= kept; ++back) {
      const int64_t time_ns = times_ns_[static_cast<size_t>(count_ - back) % times_ns_.size()];
      if (back > 2 && now_ns - time_ns > kWindow_ns) break;
      first_ns = time_ns;
      intervals = back - 1;
    }
    if (intervals < 1) return 0;
    const int64_t last_ns = times_ns_[static_cast<size_t>(count_ - 1) % times_ns_.size()];
    const int64_t usual_ns = (last_ns - first_ns) / intervals;
    // A late next frame lowers the rate.
    const int64_t end_ns = std::max(last_ns, now_ns - usual_ns);
    return 1e9 * static_cast<double>(intervals) / static_cast<double>(std::max<int64_t>(1, end_ns - first_ns));
  }

 private:
  static constexpr int64_t kWindow_ns = 3'000'000'000;
  std::array<int64_t, 128> times_ns_ = {};
  int64_t count_ = 0;
};

}  // namespace

const char* source_state_name(SourceState state) {
  switch (state) {
    case SourceState::kRunning: return "running";
    case SourceState::kStalled: return "stalled";
    case SourceState::kLost: return "lost";
    case SourceState::kEnded: return "ended";
  }
  return "unknown";
}

// Shared by the thread and the Capture; outlives both.
struct Capture::State {
  explicit State(CaptureOptions given) : options(std::move(given)) {}

  void run();
  void handle(const SourceEvent& event);
  void accept(const SourceEvent& event);
  void note_broken(const SourceEvent& event);
  void check_stall();
  void lose(const std::string& what);
  void end(const std::string& what);
  void say(const std::string& sentence);
  bool pause(milliseconds time);
  nanoseconds stall_time() const;

  std::thread thread;

  // Used by the thread only.
  CaptureOptions options;
  std::unique_ptr<FrameSource> source;
  Frame filling;
  int64_t last_frame_ns = 0;  // or start of the wait for the first one
  int64_t broken_in_row = 0;
  milliseconds retry{0};
  bool ended = false;

  std::mutex calls;  // held while callbacks of the options run
  bool abandoned = false;

  mutable std::mutex lock;
  std::condition_variable changed;
  bool stopping = false, finished = false;
  bool waits = false;  // `newest` has not been taken
  Frame newest;
  CaptureStatus status;
  RateMeter meter;
};

void Capture::State::say(const std::string& sentence) {
  const std::lock_guard<std::mutex> guard(calls);
  if (!abandoned && options.on_event) options.on_event(sentence);
}

// Waits; returns false if the thread must stop.
bool Capture::State::pause(milliseconds time) {
  std::unique_lock<std::mutex> guard(lock);
  return !changed.wait_for(guard, time, [&] { return stopping; });
}

// Returns the time without a frame after which the source counts as stalled.
nanoseconds Capture::State::stall_time() const {
  const double rate = source->frames_per_second();
  const nanoseconds slow(rate > 0 ? static_cast<int64_t>(kStallPeriods * 1e9 / rate) : 0);
  return std::max<nanoseconds>(options.stall_after, slow);
}

void Capture::State::run() {
  last_frame_ns = monotonic_ns();
  while (!ended && pause(milliseconds(0))) {
    try {
      handle(source->next(&filling, kStep));
    } catch (const std::exception& error) {  // at worst, out of memory
      if (source->can_reopen()) {
        lose(describe_exception(error));
      } else {
        end(describe_exception(error));
      }
    }
  }
  source.reset();
  const std::lock_guard<std::mutex> guard(lock);
  finished = true;
  changed.notify_all();
}

void Capture::State::handle(const SourceEvent& event) {
  switch (event.kind) {
    case SourceEvent::kFrame: accept(event); return;
    case SourceEvent::kTimeout: check_stall(); return;
    case SourceEvent::kBroken: note_broken(event); return;
    case SourceEvent::kLost:
      if (source->can_reopen()) {
        lose(event.what);
      } else {
        end(event.what.empty() ? "The source was lost." : event.what);
      }
      return;
    case SourceEvent::kEnd: end(event.what); return;
  }
}

void Capture::State::accept(const SourceEvent& event) {
  const int64_t now_ns = monotonic_ns();
  if (filling.captured_ns == 0) filling.captured_ns = now_ns;
  std::string news;
  {
    const std::lock_guard<std::mutex> guard(lock);
    const bool new_size = status.captured > 0 && (status.width != filling.width || status.height != filling.height);
    if (new_size) {
      ++status.size_changes;
      news = "The picture's size has changed from " + size_text(status.width, status.height) + " to " +
             size_text(filling.width, filling.height) + ".";
    } else if (!event.what.empty()) {
      news = event.what;
    } else if (status.state == SourceState::kStalled) {
      news = "Frames arrive again after " + format_number(static_cast<double>(now_ns - last_frame_ns) / 1e9, 1) + " s.";
    }
    if (new_size || status.captured == 0 || !event.what.empty()) status.format = source->describe();
    status.width = filling.width;
    status.height = filling.height;
    status.state = SourceState::kRunning;
    status.trouble.clear();
    filling.sequence = ++status.captured;
    status.skipped += event.skipped;
    meter.add(now_ns);
  }
  last_frame_ns = now_ns;
  broken_in_row = 0;
  retry = options.first_retry;
  if (!news.empty()) say(news);
  if (options.on_frame) {
    const std::lock_guard<std::mutex> guard(calls);
    if (!abandoned) options.on_frame(filling);
  }
  std::unique_lock<std::mutex> guard(lock);
  std::swap(filling, newest);
  if (waits) ++status.dropped;
  waits = true;
  changed.notify_all();
  if (options.lossless) changed.wait(guard, [&] { return !waits || stopping; });
}

void Capture::State::note_broken(const SourceEvent& event) {
  const std::string what = event.what.empty() ? "A frame is broken." : event.what;
  bool news = false;
  {
    const std::lock_guard<std::mutex> guard(lock);
    ++status.broken;
    status.skipped += event.skipped;
    news = broken_in_row == 0 || status.trouble != what;  // a repeated trouble is reported once
    status.trouble = what;
  }
  if (news) say(what);
  check_stall();
  if (++broken_in_row > kBrokenInRow) pause(kBrokenPause);
}

void Capture::State::check_stall() {
  const int64_t silent_ns = monotonic_ns() - last_frame_ns;
  if (silent_ns < stall_time().count()) return;
  std::string sentence;
  bool give_up = false;
  {
    const std::lock_guard<std::mutex> guard(lock);
    if (status.state == SourceState::kRunning) {
      status.state = SourceState::kStalled;
      ++status.stalls;
      sentence = "No frame has come for " + format_number(static_cast<double>(silent_ns) / 1e9, 1) + " s.";
      status.trouble = sentence;
    }
    give_up = options.reopen_after.count() > 0 && source->can_reopen() &&
              silent_ns >= std::max(nanoseconds(options.reopen_after), stall_time()).count();
  }
  if (!sentence.empty()) say(sentence);
  if (give_up)
    lose("No frame has come for " + format_number(static_cast<double>(silent_ns) / 1e9, 1) +
         " s: the source is opened again.");
}

// Reopens the source until it is back or the thread has to stop.
void Capture::State::lose(const std::string& what) {
  {
    const std::lock_guard<std::mutex> guard(lock);
    status.state = SourceState::kLost;
    ++status.losses;
    status.trouble = what.empty() ? "The source was lost." : what;
  }
  say(what.empty() ? "The source was lost." : what);
  if (retry.count() == 0) retry = options.first_retry;
  while (pause(retry)) {
    // A source that is lost again before its first frame also waits longer every time.
    retry = std::min(2 * retry, options.last_retry);
    try {
      source->reopen();
    } catch (const std::exception& error) {
      const std::lock_guard<std::mutex> guard(lock);
      status.trouble = describe_exception(error);
      continue;
    }
    {
      const std::lock_guard<std::mutex> guard(lock);
      status.state = SourceState::kRunning;
      status.format = source->describe();
    }
    last_frame_ns = monotonic_ns();
    say("The source is back.");
    return;
  }
}

void Capture::State::end(const std::string& what) {
  {
    const std::lock_guard<std::mutex> guard(lock);
    status.state = SourceState::kEnded;
    status.trouble = what;
    ended = true;
    changed.notify_all();
  }
  say(what.empty() ? "The source has ended." : what);
}

Capture::Capture(CaptureOptions options) : state_(std::make_shared<State>(std::move(options))) {
  State& state = *state_;
  state.source = state.options.open ? state.options.open(state.options.source) : open_source(state.options.source);
  state.status.format = state.source->describe();
  state.thread = std::thread([shared = state_] { shared->run(); });
}

Capture::~Capture() {
  State& state = *state_;
  {
    std::unique_lock<std::mutex> guard(state.lock);
    state.stopping = true;
    state.changed.notify_all();
    const bool finished = state.changed.wait_for(guard, kStopPatience, [&] { return state.finished; });
    guard.unlock();
    if (finished) {
      state.thread.join();
    } else {
      state.thread.detach();
    }
  }
  const std::lock_guard<std::mutex> guard(state.calls);
  state.abandoned = true;
}

bool Capture::take(Frame* frame, std::chrono::milliseconds wait) {
  State& state = *state_;
  std::unique_lock<std::mutex> guard(state.lock);
  state.changed.wait_for(guard, wait, [&] { return state.waits || state.status.state == SourceState::kEnded; });
  if (!state.waits) return false;
  std::swap(*frame, state.newest);
  state.waits = false;
  if (state.options.lossless) state.changed.notify_all();
  return true;
}

CaptureStatus Capture::status() const {
  const std::lock_guard<std::mutex> guard(state_->lock);
  CaptureStatus status = state_->status;
  status.frames_per_second = state_->meter.rate(monotonic_ns());
  return status;
}

}  // namespace ocellus::app
