// What questions about a day ask for.
#include "apps/day/day_question.h"

#include <doctest/doctest.h>

#include <vector>

namespace ocellus::app {
namespace {

constexpr int64_t kNow_ms = 1'795'700'000'000;

TEST_CASE("questions say what they ask for and about which thing") {
  struct Row {
    const char* question;
    DayQuestion::Kind kind;
    const char* thing;
    bool first = false;
  };
  for (const Row& row : std::vector<Row>{
           {"When did the red circle appear?", DayQuestion::kAppear, "red circle"},
           {"When did the red circle first appear today?", DayQuestion::kAppear, "red circle", true},
           {"When did a truck arrive for the first time?", DayQuestion::kAppear, "truck", true},
           {"when did the truck leave", DayQuestion::kDisappear, "truck"},
           {"When did the cat on the left go away this morning?", DayQuestion::kDisappear, "cat on the left"},
           {"How many times did a red circle appear between 9 and 10?", DayQuestion::kCount, "red circle"},
           {"When did a truck arrive at the top left?", DayQuestion::kAppear, "truck at the top left"},
           {"How many red rings at the top came?", DayQuestion::kCount, "red ring at the top"},
           {"How often did you see a bus?", DayQuestion::kCount, "bus"},
           {"How often did the bus come?", DayQuestion::kCount, "bus"},
           {"How many people came between 9 and 10?", DayQuestion::kCount, "person"},
           {"How many red crosses appeared today?", DayQuestion::kCount, "red cross"},
           {"Was there a red circle between 9 and 10?", DayQuestion::kPresence, "red circle"},
           {"Were there any trucks this morning?", DayQuestion::kPresence, "truck"},
           {"Was the truck there at noon?", DayQuestion::kPresence, "truck"},
           {"Has a red circle been there today?", DayQuestion::kPresence, "red circle"},
           {"Are there any trucks since 9?", DayQuestion::kPresence, "truck"},
           {"Was there a lunch box?", DayQuestion::kPresence, "lunch box"},
           {"Were there between 2 and 5 people?", DayQuestion::kFree, ""},
           {"Were there 3 trucks at noon?", DayQuestion::kFree, ""},
           {"Is there a red circle since 9?", DayQuestion::kPresence, "red circle"},
           {"Did you see a dog today?", DayQuestion::kPresence, "dog"},
           {"Show me the red circle.", DayQuestion::kShow, "red circle"},
           {"Which frames show a ring at the top left?", DayQuestion::kShow, "ring at the top left"},
           {"When was the red circle last seen?", DayQuestion::kShow, "red circle"},
           {"When was the circle first to be seen?", DayQuestion::kShow, "circle", true},
           {"Which image shows a ring?", DayQuestion::kShow, "ring"},
           {"Show me what happened at 9.", DayQuestion::kFree, ""},
           {"What happened to the truck?", DayQuestion::kFree, ""},
           {"What changed since yesterday at 9?", DayQuestion::kChange, ""},
           {"What changed since lunch?", DayQuestion::kChange, ""},
           {"What happened in the last hour?", DayQuestion::kChange, ""},
           {"What was there at 10:30?", DayQuestion::kFree, ""},
           {"How many shapes were there at 9?", DayQuestion::kFree, ""},
           {"Is there a red circle?", DayQuestion::kFree, ""},
           {"What color is the circle?", DayQuestion::kFree, ""},
           {"", DayQuestion::kFree, ""}}) {
    CAPTURE(row.question);
    const DayQuestion question = parse_day_question(row.question, kNow_ms);
    CHECK(question.kind == row.kind);
    CHECK(question.thing == row.thing);
    CHECK(question.first == row.first);
  }
}

TEST_CASE("the model is asked without the words of time") {
  CHECK(parse_day_question("What color was the ring between 9 and 10?", kNow_ms).text == "What color was the ring?");
  CHECK(parse_day_question("Which one?\nA  ring\nB  star", kNow_ms).text == "Which one?\nA  ring\nB  star");
  CHECK(parse_day_question("What was there at 10:30?", kNow_ms).is_moment);
}

}  // namespace
}  // namespace ocellus::app
