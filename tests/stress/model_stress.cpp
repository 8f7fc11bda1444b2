// A long run of what tests/runtime/models/model_change_test.cpp does briefly: a pair of model files that changes at
// random moments while processes open it, make an engine of it and talk to it. Prints one JSON object.
//
//   model_stress MOMENTS [SEED]
//
// Ends with 1 where a process was killed by a signal or ended in anything but an answer or a sentence about the file.
#include <cstdio>
#include <cstdlib>

#include "platform/clock.h"
#include "tests/support/model_changes.h"

int main(int argument_count, char** arguments) {
  if (argument_count < 2 || argument_count > 3) {
    std::fprintf(stderr, "usage: model_stress MOMENTS [SEED]\n");
    return 2;
  }
  const int64_t moments = std::atoll(arguments[1]);
  const auto seed = static_cast<uint64_t>(argument_count > 2 ? std::atoll(arguments[2]) : 1);
  const ocellus::test::ChangingPair pair;
  ocellus::test::ChangeTally tally;
  const int64_t begin = ocellus::now_ns();
  pair.run_many(moments, seed, &tally);
  const auto count = [](int64_t value) { return static_cast<long long>(value); };
  std::printf(
      "{\"moments\": %lld, \"answered\": %lld, \"refused\": %lld, \"killed\": %lld, \"wrong\": %lld, "
      "\"seconds\": %.1f}\n",
      count(tally.moments), count(tally.answered), count(tally.refused), count(tally.killed), count(tally.wrong),
      ocellus::elapsed_ms(begin, ocellus::now_ns()) / 1000);
  if (tally.killed == 0 && tally.wrong == 0) return 0;
  std::fprintf(stderr, "model_stress: %s\n", tally.first_wrong.c_str());
  return 1;
}
