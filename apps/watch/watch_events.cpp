#include "apps/watch/watch_events.h"

#include "apps/base/terminal.h"
#include "apps/setup/answer.h"

namespace ocellus::app {

using nlohmann::ordered_json;

void WatchEvents::set_listener(WatchListener* listener) {
  const std::lock_guard lock(mutex_);
  listener_ = listener;
}

void WatchEvents::tell(const char* event, const ordered_json& data) {
  const std::lock_guard lock(mutex_);
  if (listener_ != nullptr) listener_->tell(event, data);
}

void WatchEvents::print_json(const char* kind, const ordered_json& data) const {
  ordered_json line = {{"command", "watch"}, {"kind", kind}};
  line.update(data);
  print(json_line(line));
}

void WatchEvents::note(const char* level, const std::string& text) {
  if (!quiet_) print_note(text);
  const ordered_json data = {{"level", level}, {"text", text}, {"at_ms", wall_ms(monotonic_ns())}};
  if (json_) print_json("note", data);
  tell("note", data);
}

void WatchEvents::show(const Record& record) {
  const ordered_json data = record_json(record);
  if (json_) {
    print_json("caption", data);
  } else {
    print((record.error.empty() ? record.text : "(" + record.error + ")") + "\n");
  }
  tell("caption_end", data);
}

void WatchEvents::show(const QuestionAnswer& answer) {
  const ordered_json data = question_answer_json(answer);
  tell("question_end", data);
  if (json_) {
    print_json("answer", data);
  } else {
    print("? " + answer.question + "\n  " + (answer.error.empty() ? answer.text : answer.error) + "\n");
  }
}

void WatchEvents::show_end(const ordered_json& state) const {
  if (json_) print_json("end", state);
}

}  // namespace ocellus::app
