// Conditions on answers in JSON, and what they set off.
#include "apps/watch/answer_events.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <unistd.h>

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

const Json kAnswer = Json::parse(R"({"count": 5, "what": "red ring", "alarm": true, "none": null,
                                     "objects": [{"label": "car", "box": [1, 2]}, {"label": "2"}]})");

bool holds(const std::string& text) {
  std::string missing;
  return Condition(text).holds_in(kAnswer, &missing);
}

TEST_CASE("a condition compares fields, `and` before `or`") {
  for (const char* text : {"count == 5", "count!=4", "count <= 5 and count >= 5 ", " count > -1",
                           "what contains \"ring\"", "alarm", "none == null", "objects.length == 2",
                           "objects contains 'car'", "objects.0.box contains 2", "none and alarm or count == 5"}) {
    CHECK_MESSAGE(holds(text), std::string(text));
  }
  for (const char* text : {"count > 5", "what contains 'Ring'", "what", "missing != 1", "objects.2.label != 'x'",
                           "what < 5", "count contains 5", "count == '5'", "objects.99999999999999999999"}) {
    CHECK_FALSE_MESSAGE(holds(text), std::string(text));
  }
  for (const char* text : {"count >", "count = 3", "count > red", "b c", "(a)", "a == 'b", "a < true", ""}) {
    CHECK_THROWS_WITH(holds("a == 1 or " + std::string(text)), doctest::Contains("at character 11:"));
  }
}

TEST_CASE("an answer that was cut off or is too deep is none") {
  CHECK(parse_answer("12", true) == 12);
  CHECK(parse_answer("12", false).is_null());
  CHECK(parse_answer("[12]", false)[0] == 12);
  CHECK(parse_answer("{\"count\": 1", true).is_null());
  CHECK(parse_answer(std::string(90, '[') + std::string(90, ']'), true).is_null());
}

TEST_CASE("an event is the beginning of a condition, and what comes during an errand is dropped") {
  WatchEvents notes(/*quiet=*/true, /*json=*/false);
  AnswerEventOptions options = {.metrics = {"count", "what"}, .condition = Condition("count > 3"), .errands = {}};
  options.errands["run"] = make_command("sleep 0.2; exit 3");
  AnswerEvents events(options, &notes);
  const auto take = [&events](const Json& answer) {
    Record record;
    record.answer = answer;
    events.take(record);
    PrometheusText text;
    events.add_metrics(&text);
    return text.text();
  };
  CHECK(take(kAnswer).find("answer_value{field=\"count\"} 5\n") != std::string::npos);
  CHECK(take(nullptr).find("answer_value") == std::string::npos);
  take(kAnswer);
  take(Json{{"count", 3}});
  take(kAnswer);
  events.finish();
  CHECK(events.state()["count"] == 2);
  CHECK(events.state()["run"] == Json{{"done", 0}, {"dropped", 1}, {"failed", 1}});
}

}  // namespace
TEST_CASE("a command that hangs is killed with its children" * doctest::test_suite("long")) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);  // every process of the command holds the second end
  CHECK(make_command("sleep 300 | cat")({}) == "killed after 10 s or at the stop");
  close(ends[1]);
  pollfd end = {.fd = ends[0], .events = POLLIN, .revents = 0};
  CHECK(poll(&end, 1, 1000) == 1);
  CHECK((end.revents & POLLHUP) != 0);
  close(ends[0]);
}

}  // namespace ocellus::app
