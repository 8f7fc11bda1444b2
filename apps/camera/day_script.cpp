#include "apps/camera/day_script.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/base/failure.h"

namespace ocellus::app {
namespace {

constexpr int64_t kHour_ms = 3'600'000;
constexpr double kLeastGap_s = 20, kBusyGap_s = 120;  // least time between events, mean time in a busy hour
constexpr char kTruthStart[] = "{\"day\":";
constexpr const char* kEventNames[] = {"appear", "disappear", "move", "background"};

// Mean time between events.
double mean_gap_s(int64_t hour) {
  if (hour < 6) return 1500;
  if (hour == 8 || hour == 17) return kBusyGap_s;
  return hour < 22 ? 240 : 720;
}

class DayWriter {
 public:
  explicit DayWriter(uint64_t seed) : random_(seed) {
    board_.background = random_.below(kBackgroundCount);
    for (SceneObject& favourite : favourites_) choose_thing(board_, &random_, &favourite);
    const int32_t count = 1 + random_.below(3);
    for (int32_t i = 0; i < count; ++i) add_object();
    board_.sort_by_cell();
  }
  const Board& board() const { return board_; }

  // Draws the time of the event after the one at `ms`: at the pace of a busy hour, and most are left out in others.
  int64_t next_time(int64_t ms) {
    ms += static_cast<int64_t>(1000 * kLeastGap_s);
    for (;;) {
      ms += static_cast<int64_t>(random_.between(0, 2000 * (kBusyGap_s - kLeastGap_s)));
      if (random_.between(0, mean_gap_s(ms / kHour_ms) - kLeastGap_s) < kBusyGap_s - kLeastGap_s) return ms;
    }
  }

  DayEvent change(int64_t at_ms) {
    DayEvent event = {.at_ms = at_ms, .kind = choose_kind()};
    auto& objects = board_.objects;
    const auto object = objects.begin() + random_.below(static_cast<int32_t>(objects.size()));
    switch (event.kind) {
      case DayEventKind::kAppear: event.object = add_object(); break;
      case DayEventKind::kDisappear:
        event.object = *object;
        objects.erase(object);
        break;
      case DayEventKind::kMove:
        object->cell = board_.free_cell(&random_);
        place(&*object, object->phase);
        event.object = *object;
        break;
      case DayEventKind::kBackground: change_background(); break;
    }
    board_.sort_by_cell();
    event.after = board_;
    return event;
  }

 private:
  // As many appear as disappear; one in twelve events is another background.
  DayEventKind choose_kind() {
    const int32_t draw = random_.below(12);
    if (draw == 11) return DayEventKind::kBackground;
    if (draw >= 8) return DayEventKind::kMove;
    const size_t count = board_.objects.size();
    const bool appears = count == 1 || (draw < 4 && count < kMaxObjects);
    return appears ? DayEventKind::kAppear : DayEventKind::kDisappear;
  }

  bool is_there(const SceneObject& thing) const {
    return std::any_of(board_.objects.begin(), board_.objects.end(), [&](const SceneObject& object) {
      return object.color == thing.color && object.shape == thing.shape;
    });
  }

  SceneObject add_object() {
    SceneObject object;
    do {
      if (random_.below(2) == 0) {
        object = favourites_[static_cast<size_t>(random_.below(static_cast<int32_t>(favourites_.size())))];
      } else {
        choose_thing(board_, &random_, &object);
      }
    } while (is_there(object) || !board_.shows(object.color));
    object.cell = board_.free_cell(&random_);
    object.large = random_.below(2) == 1;
    settle(&object, &random_);
    place(&object, object.phase);
    board_.objects.push_back(object);
    return object;
  }

  void change_background() {
    const auto& objects = board_.objects;
    const int32_t old = board_.background;
    do {
      board_.background = random_.below(kBackgroundCount);
    } while (board_.background == old || !std::all_of(objects.begin(), objects.end(), [&](const SceneObject& object) {
               return board_.shows(object.color);
             }));
  }

  SceneRandom random_;
  std::array<SceneObject, 12> favourites_;  // half of the things that appear
  Board board_;
};

std::string local_text(int64_t ms, const char* format) {
  const auto seconds = static_cast<time_t>(ms / 1000);
  tm local = {};
  localtime_r(&seconds, &local);
  char text[64] = {};
  std::strftime(text, sizeof text, format, &local);
  return text;
}

}  // namespace

const Board& DayScript::board_at(int64_t ms) const {
  const auto next = std::upper_bound(events.begin(), events.end(), ms,
                                     [](int64_t time_ms, const DayEvent& event) { return time_ms < event.at_ms; });
  return next == events.begin() ? first : std::prev(next)->after;
}

DayScript make_day(uint64_t seed) {
  DayWriter writer(seed);
  DayScript script = {.first = writer.board(), .events = {}};
  for (int64_t ms = writer.next_time(0); ms < kDay_ms; ms = writer.next_time(ms)) {
    script.events.push_back(writer.change(ms));
  }
  return script;
}

Date parse_date(const std::string& text) {
  const time_t now = std::time(nullptr);
  tm local = {};
  localtime_r(&now, &local);
  if (!text.empty()) strptime(text.c_str(), "%Y-%m-%d", &local);
  local.tm_hour = local.tm_min = local.tm_sec = 0;
  local.tm_isdst = -1;
  const int64_t midnight_ms = int64_t{mktime(&local)} * 1000;
  const Date date = {local_text(midnight_ms, "%Y-%m-%d"), midnight_ms};
  if (midnight_ms > 0 && (text.empty() || text == date.text)) return date;
  throw Failure(kExitUsage, "A day is written as in 2026-11-27, not \"" + text + "\".");
}

void write_truth(const std::string& path, const DayScript& script, const Date& date, uint64_t seed) {
  std::error_code ignored;  // errors are reported where it is opened
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw Failure(kExitBadInput, path + ": this is not a regular file.");
  }
  std::string start(std::char_traits<char>::length(kTruthStart), '\0');
  std::ifstream(path, std::ios::binary).read(start.data(), static_cast<std::streamsize>(start.size()));
  if (start[0] != '\0' && start != kTruthStart) {
    throw Failure(kExitUsage, "--truth " + path + ": it exists and is no truth of a day: give another name.");
  }
  using nlohmann::ordered_json;
  std::ofstream file(path, std::ios::binary);
  file << ordered_json{{"day", date.text},
                       {"midnight_ms", date.midnight_ms},
                       {"seed", seed},
                       {"caption", script.first.caption()}}
       << "\n";
  for (const DayEvent& event : script.events) {
    const bool has_object = event.kind != DayEventKind::kBackground;
    const int64_t at_ms = date.midnight_ms + event.at_ms;
    file << ordered_json{{"at_ms", at_ms},
                         {"time", local_text(at_ms, "%H:%M:%S")},
                         {"event", kEventNames[static_cast<size_t>(event.kind)]},
                         {"thing", has_object ? thing_name(event.object) : ""},
                         {"size", has_object ? size_name(event.object) : ""},
                         {"place", has_object ? place_name(event.object) : ""},
                         {"caption", event.after.caption()}}
         << "\n";
  }
  file.close();
  if (!file) throw file_failure(path, "the truth of the day cannot be written");
}

}  // namespace ocellus::app
