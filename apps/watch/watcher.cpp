#include "apps/watch/watcher.h"

#include <algorithm>
#include <cmath>

#include "apps/base/failure.h"
#include "apps/base/stop_request.h"
#include "apps/base/terminal.h"
#include "apps/camera/jpeg.h"
#include "apps/camera/jpeg_damage.h"
#include "apps/setup/answer.h"
#include "apps/setup/board_likeness.h"

namespace ocellus::app {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFrameWait{50};  // maximum wait for a frame before questions are checked
constexpr milliseconds kIdleWait{100};
constexpr int64_t kStateNs = 1'000'000'000;
constexpr int32_t kThumbnailSide = 240;
constexpr int32_t kMaxFailures = 3;  // consecutive device failures
constexpr size_t kLatencies = 512;

double ms_between(int64_t from_ns, int64_t to_ns) { return static_cast<double>(to_ns - from_ns) / 1e6; }

// Names the source in sentences.
std::string spoken_name(const std::string& name) { return name == "-" ? "standard input" : name; }

}  // namespace

Watcher::Watcher(const Model& model, WatchOptions options)
    : model_(model),
      options_(std::move(options)),
      control_(options_.settings),
      settings_(options_.settings),
      gate_(options_.settings.change),
      started_ns_(monotonic_ns()) {
  if (!options_.history_path.empty()) {
    history_ = std::make_unique<HistoryFolder>(options_.history_path, options_.history_bytes);
  }
  if (options_.narrator.image_pixels == 0) options_.narrator.image_pixels = kScreenPixels;
  Narrator::plan(model_, options_.narrator, settings_);  // reports what does not fit before a camera is opened
  // The source is opened before the engine, which takes time, and read once the engine is there: the first frames are
  // not lost.
  std::unique_ptr<FrameSource> source = open_source(options_.capture.source);
  narrator_ = std::make_unique<Narrator>(model_, options_.narrator, settings_);
  live_ = std::make_unique<LivePicture>([this](const EncodedPicture& picture) {
    const std::lock_guard lock(listener_mutex_);
    if (listener_ == nullptr) return;
    listener_->tell("frame", {{"sequence", picture.sequence},
                              {"width", picture.width},
                              {"height", picture.height},
                              {"at_ms", wall_ms(picture.captured_ns)}});
  });
  options_.capture.on_frame = [this](const Frame& frame) { live_->offer(frame); };
  options_.capture.on_event = [this](const std::string& text) { note("warning", text); };
  options_.capture.open = [&source](const SourceOptions& asked) {
    return source ? std::move(source) : open_source(asked);
  };
  capture_ = std::make_unique<Capture>(options_.capture);
  publish_state(/*at_once=*/true);
}

Watcher::~Watcher() {
  capture_.reset();  // its thread uses members that are destroyed next
  live_.reset();
}

void Watcher::set_listener(WatchListener* listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = listener;
}

void Watcher::note(const char* level, const std::string& text) {
  if (!options_.narrator.common.quiet) print_note(text);
  const nlohmann::ordered_json data = {{"level", level}, {"text", text}, {"at_ms", wall_ms(monotonic_ns())}};
  if (options_.narrator.common.json) {
    nlohmann::ordered_json line = {{"command", "watch"}, {"kind", "note"}};
    line.update(data);
    print(json_line(line));
  }
  const std::lock_guard lock(listener_mutex_);
  if (listener_ != nullptr) listener_->tell("note", data);
}

int Watcher::run() {
  while (!stop_requested()) {
    apply_settings();
    answer_questions();
    publish_state(/*at_once=*/false);
    if (options_.frame_limit > 0 && counts_.answered + counts_.failed >= options_.frame_limit) break;
    if (take_frame()) {
      answer_frame();
    } else if (capture_->status().state == SourceState::kEnded && !options_.stays) {
      break;
    }
  }
  publish_state(/*at_once=*/true);
  if (options_.narrator.common.json) {
    nlohmann::ordered_json line = {{"command", "watch"}, {"kind", "end"}};
    line.update(state());
    print(json_line(line));
  }
  flush_output();
  const CaptureStatus source = capture_->status();
  if (source.state == SourceState::kEnded && source.captured == 0) {
    throw Failure(kExitBadInput, spoken_name(options_.capture.source.name) + ": it has ended without a frame.");
  }
  return kExitOk;
}

void Watcher::apply_settings() {
  const WatchSettings wanted = control_.settings();
  gate_.set_threshold(wanted.change);
  if (!wanted.same_engine(settings_)) {
    publish_state(/*at_once=*/true);  // shows activity
    try {
      remake(wanted);
    } catch (const Failure& failure) {
      note("error", std::string(failure.what()) + " The previous settings stay in force.");
      WatchSettings before = wanted;
      before.frames = settings_.frames;
      before.kv_bits = settings_.kv_bits;
      before.keep = settings_.keep;
      control_.set(before);
      remake(before);
    }
  }
  use_settings(control_.settings());
}

void Watcher::use_settings(const WatchSettings& settings) {
  const std::lock_guard lock(mutex_);
  settings_ = settings;
}

NarratorOptions Watcher::narrator_options() const {
  const std::lock_guard lock(mutex_);
  return options_.narrator;
}

void Watcher::remake(const WatchSettings& settings) {
  Narrator::plan(model_, options_.narrator, settings);
  std::optional<FrameMemory> frames;
  if (narrator_) frames.emplace(std::move(narrator_->memory()));
  narrator_.reset();  // two at a time would not fit the budget
  narrator_ = std::make_unique<Narrator>(model_, options_.narrator, settings);
  if (frames) narrator_->memory().inherit(std::move(*frames));
  use_settings(settings);
}

void Watcher::answer_questions() {
  while (const std::optional<WatchQuestion> question = control_.next_question()) {
    if (stop_requested()) return;
    answer(*question);
  }
}

void Watcher::answer(const WatchQuestion& question) {
  const auto tell = [this, &question](const char* event, nlohmann::ordered_json data) {
    const std::lock_guard lock(listener_mutex_);
    if (listener_ != nullptr) listener_->tell(event, std::move(data));
  };
  tell("question_begin", {{"id", question.id}, {"question", question.text}});
  QuestionAnswer answer;
  answer.id = question.id;
  answer.question = question.text;
  try {
    narrator_->memory().ask(
        question.text, narrator_->options(),
        [&](const std::string& piece) {
          tell("question_text", {{"id", question.id}, {"text", piece}});
        },
        log_.records(0, WatchLog::kMaxRecords), &answer);
  } catch (const Failure& failure) {
    answer.error = failure.what();
    answer.answered_ns = monotonic_ns();
  }
  {
    const std::lock_guard lock(mutex_);
    ++counts_.questions;
  }
  log_.add(answer);
  const nlohmann::ordered_json data = question_answer_json(answer);
  tell("question_end", data);
  if (options_.narrator.common.json) {
    nlohmann::ordered_json line = {{"command", "watch"}, {"kind", "answer"}};
    line.update(data);
    print(json_line(line));
  } else {
    print("? " + answer.question + "\n  " + (answer.error.empty() ? answer.text : answer.error) + "\n");
  }
}

bool Watcher::take_frame() {
  const int64_t now = monotonic_ns();
  if (settings_.paused || now < next_due_ns_) {
    const milliseconds rest((std::max<int64_t>(next_due_ns_ - now, 0) + 999999) / 1000000);
    control_.wait_for_change(settings_.paused ? kIdleWait : std::min(rest, kIdleWait));
    return false;
  }
  if (!capture_->take(&frame_, kFrameWait)) {
    if (capture_->status().state == SourceState::kEnded && options_.stays) control_.wait_for_change(kIdleWait);
    return false;
  }
  change_ = gate_.change(frame_);
  if (gate_.pass()) return true;
  const std::lock_guard lock(mutex_);
  ++counts_.unchanged;
  return false;
}

TurnAnswer Watcher::caption(const WatchSettings& settings, Record* record) {
  const int64_t pixels = int64_t{frame_.width} * frame_.height;
  if (pixels > options_.narrator.image_pixels) {  // a larger picture than planned for
    NarratorOptions larger = options_.narrator;
    larger.image_pixels = pixels;
    Narrator::plan(model_, larger, settings);
    {
      const std::lock_guard lock(mutex_);
      options_.narrator.image_pixels = pixels;
    }
    remake(settings);
  }
  const int64_t deadline_ns = settings.deadline_ms > 0 ? frame_.captured_ns + settings.deadline_ms * 1000000 : 0;
  return narrator_->caption(frame_, settings.prompt, deadline_ns, [this, record](const std::string& piece) {
    const std::lock_guard lock(listener_mutex_);
    if (listener_ != nullptr) listener_->tell("caption_text", {{"id", record->id}, {"text", piece}});
  });
}

void Watcher::remark_on_far_frame() {
  const std::string remark = describe_far_frame(model_, spoken_name(options_.capture.source.name), frame_);
  if (!remark.empty()) note("information", remark);
}

void Watcher::refuse_damage() const {
  if (frame_.kind != FrameKind::kEncoded) return;
  const std::string damage = find_jpeg_damage(frame_.bytes);
  if (!damage.empty()) throw Failure(kExitBadInput, damage);
}

void Watcher::answer_frame() {
  const int64_t start_ns = monotonic_ns();
  next_due_ns_ = start_ns + static_cast<int64_t>(settings_.every_s * 1e9);
  Record record;
  record.id = counts_.answered + counts_.failed + 1;
  record.sequence = frame_.sequence;
  record.captured_ns = frame_.captured_ns;
  record.prompt = settings_.prompt;
  record.changed = change_;
  {
    const std::lock_guard lock(listener_mutex_);
    if (listener_ != nullptr) {
      listener_->tell("caption_begin", {{"id", record.id},
                                        {"sequence", record.sequence},
                                        {"at_ms", wall_ms(record.captured_ns)},
                                        {"prompt", record.prompt}});
    }
  }
  try {
    refuse_damage();
    if (record.id == 1) remark_on_far_frame();
    const TurnAnswer answer = caption(settings_, &record);
    if (answer.status == OCELLUS_CANCELLED && stop_requested()) return;
    record.text = answer.text;
    record.stats = answer.stats;
    record.deadline_missed = answer.status == OCELLUS_DEADLINE;
    if (record.deadline_missed) record.stats.stop = OCELLUS_STOP_DEADLINE;
    narrator_->memory().remember(record.id, record.captured_ns, frame_);
    failures_in_a_row_ = 0;
  } catch (const Failure& failure) {
    if (narrator_ == nullptr) throw;  // no engine could be created for a larger picture
    record.error = failure.what();
    if (failure.exit_code() == kExitRuntime) {
      if (++failures_in_a_row_ >= kMaxFailures) throw;
      note("error", record.error + " The engine is created again.");
      {
        const std::lock_guard lock(mutex_);
        ++counts_.restarts;
      }
      remake(settings_);
    }
  }
  const int64_t end_ns = monotonic_ns();
  record.queue_ms = ms_between(record.captured_ns, start_ns);
  record.total_ms = ms_between(start_ns, end_ns);
  record.age_ms = ms_between(record.captured_ns, end_ns);
  keep_record(std::move(record));
}

void Watcher::keep_record(Record record) {
  const int64_t dropped = capture_->status().dropped;
  {
    const std::lock_guard lock(mutex_);
    record.dropped = dropped - counts_.seen_dropped;
    counts_.seen_dropped = dropped;
    ++(record.error.empty() ? counts_.answered : counts_.failed);
    counts_.deadline_missed += record.deadline_missed ? 1 : 0;
    counts_.tokens += record.stats.generated_tokens;
    if (record.error.empty()) {
      last_stats_ = record.stats;
      latencies_ms_.push_back(record.total_ms);
      if (latencies_ms_.size() > kLatencies) latencies_ms_.pop_front();
      last_age_ms_ = record.age_ms;
      age_.add(record.age_ms / 1e3);
      work_.add(record.total_ms / 1e3);
      if (record.stats.generated_tokens > 0) first_token_.add(record.stats.first_token_ms / 1e3);
      if (record.stats.generated_tokens > 1) {
        token_.add(record.stats.decode_ms / 1e3 / (record.stats.generated_tokens - 1));
      }
    }
  }
  if (!make_jpeg(frame_, kThumbnailSide, &thumbnail_)) thumbnail_.clear();
  record.has_thumbnail = !thumbnail_.empty();
  show_record(record);
  if (history_) {
    const std::string trouble = history_->add(record, thumbnail_);
    if (!trouble.empty() && history_trouble_.empty()) note("warning", trouble + ".");
    if (trouble.empty() && !history_trouble_.empty()) note("information", "The history is written to disk again.");
    history_trouble_ = trouble;
  }
  log_.add(std::move(record), thumbnail_);
}

void Watcher::show_record(const Record& record) {
  const nlohmann::ordered_json data = record_json(record);
  if (options_.narrator.common.json) {
    nlohmann::ordered_json line = {{"command", "watch"}, {"kind", "caption"}};
    line.update(data);
    print(json_line(line));
  } else {
    print((record.error.empty() ? record.text : "(" + record.error + ")") + "\n");
  }
  const std::lock_guard lock(listener_mutex_);
  if (listener_ != nullptr) listener_->tell("caption_end", data);
}

void Watcher::publish_state(bool at_once) {
  const int64_t now = monotonic_ns();
  if (!at_once && now - last_state_ns_ < kStateNs) return;
  last_state_ns_ = now;
  nlohmann::ordered_json made = make_state();
  {
    const std::lock_guard lock(mutex_);
    state_ = made;
  }
  const std::lock_guard lock(listener_mutex_);
  if (listener_ != nullptr) listener_->tell("state", made);
}

}  // namespace ocellus::app
