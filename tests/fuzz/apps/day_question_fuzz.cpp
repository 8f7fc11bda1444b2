// Questions about a day, and the times in them.
#include "apps/day/day_question.h"
#include "tests/fuzz/text_changes.h"

namespace ocellus::fuzz {
namespace {

constexpr int64_t kDay_ms = 86'400'000;
constexpr int64_t kNow_ms = 20'800 * kDay_ms;
constexpr const char* kPieces[] = {
    " between ",    " and ",       " since ",  " at ",        " in the last ", " half ",      " hours ",
    " ago",         " 9",          " 10:30",   ":",           " am",           " pm",         " 99:1",
    " -1",          " 1000000",    " today",   " yesterday",  " tonight",      " noon",       " this ",
    " morning",     " last night", " o'clock", "2h",          "2026-11-27",    "9999999999d", "when did ",
    " leave",       "how many ",   " came",    " at the top", "was there ",    "show me ",    " first",
    "what changed", "people",      "?",        "the ",        "\xff",          "\xc3\xa9",    "\n",
    " from ",       " to ",        " around "};

bool run(const uint8_t* data, size_t size) {
  const std::string text(data, data + size);
  // Every day of two years, some of which have 23 or 25 hours.
  const int64_t now_ms = kNow_ms + static_cast<int64_t>(size % 731) * kDay_ms;
  const app::TimedText timed = app::take_time_words(text, now_ms);
  const app::DayQuestion question = app::parse_day_question(text, now_ms);
  const bool needs_thing = question.kind != app::DayQuestion::kChange && question.kind != app::DayQuestion::kFree;
  require(!timed.span || timed.span->begin_ms < timed.span->end_ms, "a time has a length");
  require(timed.text.size() <= size + 1, "words are taken out of a question, not put in");
  require(question.thing.empty() != needs_thing, "a question that is about a thing names it");
  require(question.span.has_value() == timed.span.has_value(), "a question keeps its time");
  const auto since = app::parse_since(text, now_ms);
  if (since) require(!app::clock_text(*since, now_ms).empty(), "a time can be written");
  return since || timed.span || question.kind != app::DayQuestion::kFree;
}

std::vector<Bytes> make_seeds() {
  std::vector<Bytes> seeds;
  for (const std::string_view text :
       {"When did the red circle first appear today?", "How many people came between 9 and 10 yesterday morning?",
        "Was there a truck at the top left in the last 2 hours?", "What changed since lunch?",
        "Show me the blue ring around 10:30 pm.", "90m", "2026-11-27 09:30"})
    seeds.emplace_back(text.begin(), text.end());
  return seeds;
}

void change_question(Bytes& input, Random& random) { change_pieces(input, 0, kPieces, random); }

const Registration kRegistered({.name = "day_question",
                                .make_seeds = make_seeds,
                                .mutate = change_question,
                                .run = run,
                                .most_bytes = 4096,
                                .most_heap_bytes = int64_t{4} << 20});

}  // namespace
}  // namespace ocellus::fuzz
