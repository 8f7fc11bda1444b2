// Progress as text, and on a terminal and in a log.
#include "apps/base/progress.h"

#include <doctest/doctest.h>

namespace ocellus::app {
namespace {

ProgressFacts loading() {
  return {.task = "loading Shapeboard",
          .noun = "byte",
          .done = int64_t{100} << 20,
          .total = int64_t{250} << 20,
          .seconds = 2};
}

TEST_CASE("durations") {
  CHECK(format_duration(0.4) == "0 s");
  CHECK(format_duration(99.4) == "99 s");
  CHECK(format_duration(100) == "2 min");
  CHECK(format_duration(12'000) == "3 h 20 min");
}

TEST_CASE("a bar leaves out what a narrow terminal has no room for") {
  const ProgressFacts facts = loading();
  const std::string whole =
      "loading Shapeboard  40 % [#########...............] 100.0 of 250.0 MiB, 50.0 MiB/s, 3 s left";
  CHECK(progress_bar(facts, 200) == whole);
  CHECK(progress_bar(facts, whole.size()) == whole);
  CHECK(progress_bar(facts, whole.size() - 1) ==
        "loading Shapeboard  40 % [#########...............] 100.0 of 250.0 MiB, 3 s left");
  CHECK(progress_bar(facts, 60) == "loading Shapeboard  40 % 100.0 of 250.0 MiB, 3 s left");
  CHECK(progress_bar(facts, 40) == "loading Shapeboard  40 % 3 s left");
  CHECK(progress_bar(facts, 30) == "loading Shapeboard  40 %");
  for (size_t columns = 0; columns <= 100; ++columns) CHECK(progress_bar(facts, columns).size() <= columns);
}

TEST_CASE("wide characters are cut where they end") {
  const ProgressFacts facts = {.task = "\u8aad\u8aad\u8aad", .noun = "byte"};
  CHECK(progress_bar(facts, 5) == "\u8aad\u8aad");
  CHECK(progress_bar(facts, 10) == "\u8aad\u8aad\u8aad ...");
}

TEST_CASE("amounts, rates and times of bytes and of other things") {
  CHECK(progress_line(loading()) == "loading Shapeboard: 40 %, 100.0 of 250.0 MiB, 50.0 MiB/s, 3 s left");
  ProgressFacts facts = loading();
  facts.first = int64_t{50} << 20;  // by an earlier run
  CHECK(progress_line(facts) == "loading Shapeboard: 40 %, 100.0 of 250.0 MiB, 25.0 MiB/s, 6 s left");
  facts.done = facts.total;
  CHECK(progress_line(facts) == "loading Shapeboard: 100 %, 250.0 of 250.0 MiB, 100.0 MiB/s, after 2 s");
  facts = {.task = "x", .noun = "byte", .done = int64_t{1} << 30, .total = int64_t{3} << 30, .seconds = 1e-9};
  CHECK(progress_line(facts).find("1.00 of 3.00 GiB") != std::string::npos);
  facts = {.task = "x", .noun = "byte", .done = 1024, .total = 10240, .seconds = 1};
  CHECK(progress_line(facts) == "x: 10 %, 1 of 10 KiB, 1 KiB/s, 9 s left");
  facts = {.task = "answering", .noun = "question", .note = "accuracy 0.917", .done = 12, .total = 48, .seconds = 48};
  CHECK(progress_line(facts) == "answering: 25 %, 12 of 48 questions, 4.0 s each, 2 min left, accuracy 0.917");
  facts.seconds = 3;
  CHECK(progress_line(facts) == "answering: 25 %, 12 of 48 questions, 4.0/s, 9 s left, accuracy 0.917");
  facts.done = 0;
  CHECK(progress_line(facts) == "answering: 0 %, 0 of 48 questions, accuracy 0.917");
}

}  // namespace
}  // namespace ocellus::app
