// Times in words, in Berlin's time zone, where clocks go forward on 29 March 2026 and back on 25 October.
#include "apps/day/time_words.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include "apps/day/day_question.h"

namespace ocellus::app {
namespace {

struct Berlin {
  Berlin() {
    setenv("TZ", "Europe/Berlin", 1);
    tzset();
  }
  ~Berlin() {
    unsetenv("TZ");
    tzset();
  }
};

int64_t at(const char* time) {
  std::tm local = {};
  REQUIRE(strptime(time, "%Y-%m-%d %H:%M:%S", &local) != nullptr);
  local.tm_isdst = -1;
  return int64_t{std::mktime(&local)} * 1000;
}

struct Row {
  const char* question;
  const char* begin;
  const char* end;
  const char* text;
  bool is_moment = false;
};

void check_rows(const char* now, const std::vector<Row>& rows) {
  const int64_t now_ms = at(now);
  for (const Row& row : rows) {
    CAPTURE(row.question);
    const TimedText timed = take_time_words(row.question, now_ms);
    CHECK(timed.text == row.text);
    CHECK(timed.is_moment == row.is_moment);
    REQUIRE(timed.span.has_value());
    CHECK(clock_text(timed.span->begin_ms, 0) == row.begin);
    CHECK(clock_text(timed.span->end_ms, 0) == row.end);
  }
}

TEST_CASE("words of time become spans of the local clock") {
  const Berlin berlin;
  check_rows(
      "2026-11-27 15:30:00",
      {{"What changed between 9 and 10?", "2026-11-27 09:00:00", "2026-11-27 10:00:00", "What changed?"},
       {"What came from 9:30 to 10:15?", "2026-11-27 09:30:00", "2026-11-27 10:15:00", "What came?"},
       {"Was a bus there between 9am and 1 pm?", "2026-11-27 09:00:00", "2026-11-27 13:00:00", "Was a bus there?"},
       {"between 1 and 2 pm, what changed?", "2026-11-27 13:00:00", "2026-11-27 14:00:00", "what changed?"},
       {"What changed between 11 and 1?", "2026-11-27 11:00:00", "2026-11-27 13:00:00", "What changed?"},
       {"What changed between 22 and 2 yesterday?", "2026-11-26 22:00:00", "2026-11-27 02:00:00", "What changed?"},
       {"What changed between 20 and 21?", "2026-11-26 20:00:00", "2026-11-26 21:00:00", "What changed?"},
       {"What changed since lunch?", "2026-11-27 12:00:00", "2026-11-27 15:30:00", "What changed?"},
       {"What is new since 9:30?", "2026-11-27 09:30:00", "2026-11-27 15:30:00", "What is new?"},
       {"Who came since this morning?", "2026-11-27 06:00:00", "2026-11-27 15:30:00", "Who came?"},
       {"Who came this morning?", "2026-11-27 06:00:00", "2026-11-27 12:00:00", "Who came?"},
       {"Who came yesterday afternoon?", "2026-11-26 12:00:00", "2026-11-26 18:00:00", "Who came?"},
       {"Who came last night?", "2026-11-26 18:00:00", "2026-11-27 06:00:00", "Who came?"},
       {"Who came today?", "2026-11-27 00:00:00", "2026-11-28 00:00:00", "Who came?"},
       {"Who came yesterday?", "2026-11-26 00:00:00", "2026-11-27 00:00:00", "Who came?"},
       {"Who came before 9?", "2026-11-27 00:00:00", "2026-11-27 09:00:00", "Who came?"},
       {"Who came around 9?", "2026-11-27 08:50:00", "2026-11-27 09:10:00", "Who came?"},
       {"Who came in the last 2 hours?", "2026-11-27 13:30:00", "2026-11-27 15:30:00", "Who came?"},
       {"Who came in the last half hour?", "2026-11-27 15:00:00", "2026-11-27 15:30:00", "Who came?"},
       {"Who came during the past hour?", "2026-11-27 14:30:00", "2026-11-27 15:30:00", "Who came?"},
       {"What was there at 10:30?", "2026-11-27 10:30:00", "2026-11-27 10:31:00", "What was there?", true},
       {"What was there at 10:30:05?", "2026-11-27 10:30:05", "2026-11-27 10:30:06", "What was there?", true},
       {"Show me frames like 10:30.", "2026-11-27 10:30:00", "2026-11-27 10:31:00", "Show me frames like.", true},
       {"10:30, what was there?", "2026-11-27 10:30:00", "2026-11-27 10:31:00", "what was there?", true},
       {"Who came at 9 last night?", "2026-11-26 21:00:00", "2026-11-26 21:01:00", "Who came?", true},
       {"Who came at 9 this morning?", "2026-11-27 09:00:00", "2026-11-27 09:01:00", "Who came?", true},
       {"Who came (since 9 yesterday)?", "2026-11-26 09:00:00", "2026-11-27 15:30:00", "Who came?"},
       {"Who came since yesterday at 9?", "2026-11-26 09:00:00", "2026-11-27 15:30:00", "Who came?"},
       {"What was there at noon?", "2026-11-27 12:00:00", "2026-11-27 12:01:00", "What was there?", true},
       {"What was there 2 hours ago?", "2026-11-27 13:30:00", "2026-11-27 13:31:00", "What was there?", true}});
}

TEST_CASE("days on which clocks change have their own length") {
  const Berlin berlin;
  const TimedText spring = take_time_words("Who came today?", at("2026-03-29 12:00:00"));
  CHECK(spring.span->end_ms - spring.span->begin_ms == 23 * 3600 * 1000);
  const TimedText autumn = take_time_words("Who came yesterday?", at("2026-10-26 12:00:00"));
  CHECK(autumn.span->end_ms - autumn.span->begin_ms == 25 * 3600 * 1000);
  check_rows("2026-03-29 12:00:00",  // there was no 2:10
             {{"Who came between 2:10 and 4?", "2026-03-29 03:10:00", "2026-03-29 04:00:00", "Who came?"},
              {"Who came between 2:10 and 3?", "2026-03-29 03:10:00", "2026-03-29 03:10:00", "Who came?"}});
  check_rows("2026-11-27 01:00:00",
             {{"Who came between 9 and 10?", "2026-11-26 09:00:00", "2026-11-26 10:00:00", "Who came?"},
              {"Who came between 22 and 2?", "2026-11-26 22:00:00", "2026-11-27 02:00:00", "Who came?"}});
  check_rows("2026-01-01 10:00:00",
             {{"Who came yesterday?", "2025-12-31 00:00:00", "2026-01-01 00:00:00", "Who came?"}});
}

TEST_CASE("words that are no times stay") {
  const Berlin berlin;
  for (const char* question :
       {"What is in image 3?", "Is there a ring at the top left?", "How many of the 3 squares?",
        "What was there at 25:70?", "What is about 9 pixels wide?", "between us and them", "since", "the last image",
        "at", "", "ago", "the last", "When is lunch?", "Was a midnight blue car there?", "Were there around 9 people?",
        "Look at 3 squares", "What is there at 3 seconds?", "between 2 and 5 stars"}) {
    CAPTURE(question);
    const TimedText timed = take_time_words(question, at("2026-11-27 15:30:00"));
    CHECK_FALSE(timed.span.has_value());
    CHECK(timed.text == question);
  }
}

TEST_CASE("the begin of a time is an age, a time or a day") {
  const Berlin berlin;
  const int64_t now = at("2026-11-27 15:30:00");
  for (const auto& [text, time] :
       std::vector<std::pair<const char*, const char*>>{{"2h", "13:30:00"},
                                                        {"90m", "14:00:00"},
                                                        {"45s", "15:29:15"},
                                                        {"1d", "2026-11-26 15:30:00"},
                                                        {"09:30", "09:30:00"},
                                                        {"2026-11-26", "2026-11-26 00:00:00"},
                                                        {"2026-11-27 09:30", "09:30:00"}}) {
    CAPTURE(text);
    REQUIRE(parse_since(text, now).has_value());
    CHECK(clock_text(*parse_since(text, now), now) == time);
  }
  for (const char* text :
       {"", "lunchbreak", "-2h", "9", "2026-13-01", "2026-02-30", "2026-11-27 x", "9999999999d", "1 h", "25:00"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_since(text, now).has_value());
  }
}

TEST_CASE("any words and bytes end in a question without its times") {
  const Berlin berlin;
  std::mt19937 random(7);
  const std::vector<std::string> words = {
      "between",  "and",   "9",        "10:",  "since",  "at",        "last",    "the",     "half",
      "hours",    "ago",   "in",       "am",   "pm",     "99:1",      "-1",      "to",      "today",
      "tonight",  "\xff",  "noon",     "1e9",  "?",      ":",         "24",      "morning", "this",
      "when did", "leave", "how many", "came", "at the", "was there", "show me", "first",   "what changed"};
  const int64_t now = at("2026-11-27 15:30:00");
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (unsigned n = random() % 8; n > 0; --n) text += words[random() % words.size()] + (random() % 9 == 0 ? "" : " ");
    if (i % 2 == 0 && !text.empty()) text[random() % text.size()] = static_cast<char>(random());
    const TimedText timed = take_time_words(text, now);
    if (timed.span) CHECK(timed.span->begin_ms < timed.span->end_ms);
    const DayQuestion question = parse_day_question(text, now);
    CHECK(question.thing.empty() == (question.kind == DayQuestion::kChange || question.kind == DayQuestion::kFree));
    (void)parse_since(text, now);
  }
}

}  // namespace
}  // namespace ocellus::app
