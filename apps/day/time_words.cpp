#include "apps/day/time_words.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <vector>

#include "apps/base/plain_text.h"
#include "apps/base/sizes.h"

namespace ocellus::app {
namespace {

constexpr int64_t kMinute_s = 60, kHour_s = 3600, kDay_s = 86400;
constexpr int64_t kAround_s = 600;
constexpr int64_t kMostCount = 1'000'000;  // maximum number of a unit

std::tm local_time(int64_t at_ms) {
  const std::time_t seconds = static_cast<std::time_t>(at_ms / 1000);
  std::tm local = {};
  localtime_r(&seconds, &local);
  return local;
}

// The time `seconds` by the clock after midnight of the day that is `days` after that of `now_ms`.
int64_t time_of_day(int64_t now_ms, int days, int64_t seconds) {
  std::tm local = local_time(now_ms);
  local.tm_mday += days + static_cast<int>(seconds / kDay_s);
  local.tm_hour = static_cast<int>(seconds % kDay_s / kHour_s);
  local.tm_min = static_cast<int>(seconds % kHour_s / kMinute_s);
  local.tm_sec = static_cast<int>(seconds % kMinute_s);
  local.tm_isdst = -1;
  return int64_t{std::mktime(&local)} * 1000;
}

// Reads a whole number from the front of the text; -1: there is none, or it is too large.
int64_t take_number(std::string_view* text) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || number < 0 || number > kMostCount || text->front() == '-') return -1;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return number;
}

// Seconds of a unit, "h", "hours"; 0: it is none.
int64_t unit_seconds(std::string_view word) {
  struct Unit {
    std::string_view names;
    int64_t seconds;
  };
  constexpr Unit kUnits[] = {{" s sec secs second seconds ", 1},
                             {" m min mins minute minutes ", kMinute_s},
                             {" h hour hours ", kHour_s},
                             {" d day days ", kDay_s}};
  for (const Unit& unit : kUnits) {
    if (!word.empty() && unit.names.find(" " + std::string(word) + " ") != std::string_view::npos) return unit.seconds;
  }
  return 0;
}

// True for a word of which a number may be the count: "9 people".
bool is_many(std::string_view word) {
  if (word == "this" || word == "does") return false;
  return word == "people" || (word.size() > 3 && word.ends_with('s') && !word.ends_with("ss"));
}

// A time by the clock.
struct Clock {
  int64_t seconds = 0;
  bool is_exact = false;  // with seconds
  bool has_half = false;  // am or pm
  bool is_plain = false;  // a number alone, which may be no time
  bool is_named = false;  // "noon"
  size_t words = 0;       // 0: no time
};

// A question's words; those of time are marked.
class Words {
 public:
  explicit Words(const std::string& question) {
    size_t at = 0;
    while ((at = question.find_first_not_of(" \t\r\n", at)) != std::string::npos) {
      const size_t end = std::min(question.find_first_of(" \t\r\n", at), question.size());
      raw_.push_back(question.substr(at, end - at));
      plain_.push_back(trim(to_lower(raw_.back()), "?!.,;:()\""));
      at = end;
    }
    taken_.resize(raw_.size());
  }

  size_t size() const { return raw_.size(); }
  // Empty beyond the end.
  std::string_view operator[](size_t i) const { return i < plain_.size() ? std::string_view(plain_[i]) : ""; }
  bool is_taken(size_t i) const { return taken_[i]; }
  void take(size_t first, size_t count) {
    for (size_t i = first; i < std::min(first + count, taken_.size()); ++i) taken_[i] = true;
  }
  Clock clock_at(size_t i) const;
  // The other words, with the question's end.
  std::string rest() const {
    std::string text;
    for (size_t i = 0; i < raw_.size(); ++i) {
      if (!taken_[i]) text += (text.empty() ? "" : " ") + raw_[i];
    }
    text = trim(text, " ,");
    const char end = raw_.empty() ? ' ' : raw_.back().back();
    const bool lost = (end == '?' || end == '.' || end == '!') && !text.empty() && text.back() != end;
    return lost ? text + end : text;
  }

 private:
  std::vector<std::string> raw_, plain_;
  std::vector<bool> taken_;
};

Clock Words::clock_at(size_t i) const {
  std::string_view word = (*this)[i];
  if (word == "noon" || word == "lunch" || word == "lunchtime")
    return {.seconds = 12 * kHour_s, .has_half = true, .is_named = true, .words = 1};
  if (word == "midnight") return {.seconds = 0, .has_half = true, .is_named = true, .words = 1};
  const int64_t hour = word.empty() ? -1 : take_number(&word);
  if (hour < 0 || hour > 24) return {};
  int64_t minute = 0, second = 0;
  Clock clock = {.is_plain = true, .words = 1};
  for (int64_t* part : {&minute, &second}) {
    if (word.size() < 3 || word[0] != ':') break;
    word.remove_prefix(1);
    *part = take_number(&word);
    if (*part < 0 || *part > 59) return {};
    clock.is_plain = false;
    clock.is_exact = part == &second;
  }
  if (word.empty() && ((*this)[i + 1] == "am" || (*this)[i + 1] == "pm" || (*this)[i + 1] == "o'clock")) {
    word = (*this)[i + 1];
    clock.words = 2;
    if (word == "o'clock") {
      word = "";
      clock.is_plain = false;
    }
  }
  int64_t hours = hour;
  if (word == "am" || word == "pm") {
    if (hour < 1 || hour > 12) return {};
    hours = hour % 12 + (word == "pm" ? 12 : 0);
    clock.has_half = true;
    clock.is_plain = false;
  } else if (!word.empty()) {
    return {};
  }
  if (clock.is_plain && raw_[i] == plain_[i] && is_many((*this)[i + 1])) return {};
  clock.seconds = hours * kHour_s + minute * kMinute_s + second;
  return clock.seconds > kDay_s ? Clock() : clock;
}

// Seconds of a part of the day, the first and the one after the last.
bool part_of_day(std::string_view word, int64_t* begin, int64_t* end) {
  struct Part {
    std::string_view name;
    int64_t first, last;  // hours
  };
  constexpr Part kParts[] = {{"morning", 6, 12}, {"afternoon", 12, 18}, {"evening", 18, 24}};
  for (const Part& part : kParts) {
    if (part.name != word) continue;
    *begin = part.first * kHour_s;
    *end = part.last * kHour_s;
    return true;
  }
  return false;
}

// Finds the words of time of one question.
class Finder {
 public:
  Finder(Words* words, int64_t now_ms) : words_(*words), now_ms_(now_ms) {}

  void find(TimedText* out) {
    for (size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] == "today" || words_[i] == "yesterday") {
        has_day_ = true;
        day_ = words_[i] == "today" ? 0 : -1;
        const bool takes_before = i > 0 && words_[i - 1] == "since";
        is_open_ = is_open_ || takes_before;
        words_.take(takes_before ? i - 1 : i, takes_before ? 2 : 1);
      }
    }
    for (size_t i = 0; i < words_.size() && !found_; ++i) found_ = find_range(i) || find_bound(i) || find_ago(i);
    for (size_t i = 0; i < words_.size() && !is_relative_; ++i)
      found_ = (!words_.is_taken(i) && find_part(i)) || found_;
    if (!found_ && !has_day_) return;
    if (is_relative_) {
      out->span = relative_;
    } else {
      int days = day_;
      if (!has_day_ && time_of_day(now_ms_, days, begin_) > now_ms_) --days;
      out->span = TimeSpan{time_of_day(now_ms_, days, begin_), time_of_day(now_ms_, days, end_)};
      if (is_open_) out->span->end_ms = now_ms_ + 1;
      // A time may have passed already, or not exist where clocks go forward.
      out->span->end_ms = std::max(out->span->end_ms, out->span->begin_ms + 1);
    }
    out->is_moment = is_moment_;
  }

 private:
  bool set(size_t first, size_t count, int64_t begin, int64_t end) {
    words_.take(first, count);
    begin_ = begin;
    end_ = end;
    return true;
  }

  bool set_moment(size_t first, size_t count, const Clock& clock) {
    is_moment_ = !is_open_;  // "since yesterday at 9" is none
    return set(first, count, clock.seconds, clock.seconds + (clock.is_exact ? 1 : kMinute_s));
  }
  // Moves a time that was found into the part: "at 9 this evening". Without one, the part is the time.
  bool set_part(size_t first, size_t count, int64_t begin, int64_t end) {
    if (!found_) return set(first, count, begin, end);
    const int64_t half = 12 * kHour_s;
    for (; begin_ < begin && begin_ + half < end; begin_ += half) end_ += half;
    words_.take(first, count);
    return true;
  }

  // "between 9 and 10", "from 9 to 10"
  bool find_range(size_t i) {
    if (words_[i] != "between" && words_[i] != "from") return false;
    Clock begin = words_.clock_at(i + 1);
    const size_t joint = i + 1 + begin.words;
    const bool is_joined = words_[joint] == "and" || words_[joint] == "to" || words_[joint] == "until";
    const Clock end = words_.clock_at(joint + 1);
    if (begin.words == 0 || end.words == 0 || !is_joined) return false;
    const int64_t half = 12 * kHour_s;
    if (end.has_half && !begin.has_half && begin.seconds + half < end.seconds) begin.seconds += half;
    int64_t last = end.seconds;
    if (last <= begin.seconds && !end.has_half && last + half > begin.seconds) last += half;
    if (last <= begin.seconds) last += kDay_s;
    return set(i, joint + 1 + end.words - i, begin.seconds, last);
  }

  // "since 9", "before 9", "after 9", "around 9", "at 9"
  bool find_bound(size_t i) {
    const std::string_view word = words_[i];
    int64_t begin = 0, end = 0;
    if (word == "since" && words_[i + 1] == "this" && part_of_day(words_[i + 2], &begin, &end)) {
      is_open_ = true;
      return set(i, 3, begin, kDay_s);
    }
    const Clock bare = words_.clock_at(i);  // "like 10:30"
    if (bare.words > 0 && !bare.is_plain && !bare.is_named) return set_moment(i, bare.words, bare);
    const Clock clock = words_.clock_at(i + 1);
    if (clock.words == 0) return false;
    const size_t count = 1 + clock.words;
    if (word == "since" || word == "after") {
      is_open_ = is_open_ || word == "since" || !has_day_ || day_ == 0;
      return set(i, count, clock.seconds, kDay_s);
    }
    if (word == "before" || word == "until" || word == "till") return set(i, count, 0, clock.seconds);
    if (word == "around" || (word == "about" && !clock.is_plain)) {
      return set(i, count, std::max<int64_t>(clock.seconds - kAround_s, 0), clock.seconds + kAround_s);
    }
    return word == "at" && set_moment(i, count, clock);
  }

  // "this morning", "in the afternoon", "tonight", "last night"
  bool find_part(size_t i) {
    int64_t begin = 0, end = 0;
    if (words_[i] == "tonight") return set_part(i, 1, 18 * kHour_s, kDay_s);
    if (words_[i] == "last" && words_[i + 1] == "night") {
      has_day_ = true;
      day_ = -1;
      return set_part(i, 2, 18 * kHour_s, kDay_s + 6 * kHour_s);
    }
    if (words_[i] == "this" && part_of_day(words_[i + 1], &begin, &end)) return set_part(i, 2, begin, end);
    if (words_[i] == "in" && words_[i + 1] == "the" && part_of_day(words_[i + 2], &begin, &end)) {
      return set_part(i, 3, begin, end);
    }
    if (i > 0 && words_[i - 1] == "yesterday" && part_of_day(words_[i], &begin, &end))
      return set_part(i, 1, begin, end);
    return false;
  }

  // "in the last 2 hours", "the past half hour", "2 hours ago"
  bool find_ago(size_t i) {
    size_t at = i;
    for (const std::string_view word : {"in", "for", "during", "over", "within"}) {
      if (words_[i] == word) at = i + 1;
    }
    const bool is_last = words_[at] == "the" && (words_[at + 1] == "last" || words_[at + 1] == "past");
    if (is_last) at += 2;
    if (!is_last && at != i) return false;
    std::string_view number = words_[at];
    int64_t count = number.empty() ? -1 : take_number(&number);
    int64_t halves = 2;
    if (number == "half" || number == "a" || number == "an") {
      halves = number == "half" ? 1 : 2;
      count = 1;
      ++at;
      if (words_[at] == "an") ++at;
    } else if (count >= 0 && number.empty()) {
      ++at;
    } else {
      count = is_last ? 1 : -1;
    }
    const int64_t unit = unit_seconds(words_[at]);
    const bool is_ago = words_[at + 1] == "ago";
    if (count < 0 || unit == 0 || (!is_last && !is_ago)) return false;
    const int64_t begin_ms = std::max<int64_t>(now_ms_ - count * unit * halves * 500, 0);
    is_relative_ = true;
    is_moment_ = !is_last;
    relative_ = {begin_ms, is_last ? now_ms_ + 1 : begin_ms + kMinute_s * 1000};
    words_.take(i, at + (is_last ? 1 : 2) - i);
    return true;
  }

  Words& words_;
  const int64_t now_ms_;
  bool found_ = false, has_day_ = false, is_open_ = false, is_moment_ = false, is_relative_ = false;
  int day_ = 0;
  int64_t begin_ = 0, end_ = kDay_s;  // seconds after the day's midnight
  TimeSpan relative_;
};

}  // namespace

TimedText take_time_words(const std::string& question, int64_t now_ms) {
  Words words(question);
  TimedText out;
  Finder(&words, now_ms).find(&out);
  out.text = words.rest();
  return out;
}

std::optional<int64_t> parse_since(const std::string& text, int64_t now_ms) {
  std::string_view rest = text;
  if (const int64_t count = rest.empty() ? -1 : take_number(&rest); count >= 0 && unit_seconds(rest) > 0) {
    return std::max<int64_t>(now_ms - count * unit_seconds(rest) * 1000, 0);
  }
  const size_t space = text.find(' ');
  const std::string day = text.substr(0, space);
  std::tm date = local_time(now_ms);
  char after = 0;
  const bool has_day = day.size() == 10 && std::sscanf(day.c_str(), "%4d-%2d-%2d%c", &date.tm_year, &date.tm_mon,
                                                       &date.tm_mday, &after) == 3;
  if (has_day) {
    date.tm_year -= 1900;
    date.tm_mon -= 1;
    if (date.tm_year < 70 || date.tm_mon < 0 || date.tm_mon > 11 || date.tm_mday < 1 || date.tm_mday > 31) {
      return std::nullopt;
    }
  } else if (space != std::string::npos) {
    return std::nullopt;
  }
  Clock clock = {.words = 1};
  const std::string hour = !has_day ? text : space == std::string::npos ? "" : text.substr(space + 1);
  if (!hour.empty() || !has_day) clock = Words(hour).clock_at(0);
  if (clock.words == 0 || clock.is_plain) return std::nullopt;
  date.tm_hour = 12;
  date.tm_isdst = -1;
  const int day_of_month = date.tm_mday;
  const int64_t noon_ms = int64_t{std::mktime(&date)} * 1000;
  if (date.tm_mday != day_of_month) return std::nullopt;  // 30 February
  return time_of_day(noon_ms, 0, clock.seconds);
}

std::string clock_text(int64_t at_ms, int64_t now_ms) {
  const std::tm at = local_time(at_ms), now = local_time(now_ms);
  const bool is_today = at.tm_year == now.tm_year && at.tm_yday == now.tm_yday;
  char text[32];
  std::strftime(text, sizeof text, is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &at);
  return text;
}

}  // namespace ocellus::app
