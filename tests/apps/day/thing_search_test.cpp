// When a thing was to be seen: captions, and questions where they change.
#include "apps/day/thing_search.h"

#include <doctest/doctest.h>

namespace ocellus::app {
namespace {

using Shown = std::vector<bool>;

// Captions of frames with a red circle (r), without (.), and those that are wrong: with it by mistake (R), or not told
// though it is there (-).
std::vector<std::string> captions_of(const std::string& day) {
  std::vector<std::string> captions;
  for (const char c : day) {
    captions.push_back(c == 'r' || c == 'R' ? "A blue star at the top and a small red circle on the left, on navy."
                                            : "A blue star at the top and a red square on the left, on navy.");
  }
  return captions;
}

Shown truth_of(const std::string& day) {
  Shown shown;
  for (const char c : day) shown.push_back(c == 'r' || c == '-');
  return shown;
}

struct Search {
  explicit Search(const std::string& day, size_t most_checks = 64) {
    const Shown truth = truth_of(day);
    const auto ask = [&](const std::vector<size_t>& frames) {
      checks += frames.size();
      Shown answers;
      for (const size_t i : frames) answers.push_back(truth[i]);
      return answers;
    };
    shown = find_thing(captions_of(day), "red circle", ask, most_checks);
    is_right = shown == truth;
  }
  Shown shown;
  bool is_right = false;
  size_t checks = 0;
};

TEST_CASE("a thing is in a caption if one of its parts has all of its words") {
  const std::string caption = "A small red circle at the top left, two blue stars and a sign, on a navy background.";
  for (const char* thing : {"red circle", "circle", "small red circle", "red circle at the top left", "blue star"}) {
    CAPTURE(thing);
    CHECK(caption_shows(caption, thing));
  }
  for (const char* thing : {"blue circle", "red star", "circles", "red circle on the left", ""}) {
    CAPTURE(thing);
    CHECK_FALSE(caption_shows(caption, thing));
  }
}

TEST_CASE("captions that are right cost two questions a change") {
  const Search search("....rrrrrr....rr");
  CHECK(search.is_right);
  CHECK(search.checks == 6);
}

TEST_CASE("a caption that is wrong in one frame makes no event") {
  for (const char* day : {"....rrr-rrr....", "..R...rr...", "....rr--rr.", "R....", "rrrr-"}) {
    CAPTURE(day);
    CHECK(Search(day).is_right);
  }
}

TEST_CASE("a thing that no caption names is looked for in samples") {
  const Search search("....--------....");
  CHECK(search.is_right);
  CHECK(Search("................").checks == 8);
}

TEST_CASE("no more questions are asked than allowed, and captions decide the rest") {
  const Search search("r.r.r.r.r.r.r.r.", 5);
  CHECK(search.checks == 5);
  CHECK(search.is_right);
}

TEST_CASE("a day without frames has nothing") {
  const auto fail = [](const std::vector<size_t>&) -> Shown { throw 1; };
  CHECK(find_thing({}, "red circle", fail, 64).empty());
}

}  // namespace
}  // namespace ocellus::app
