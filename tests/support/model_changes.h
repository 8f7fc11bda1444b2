// A pair of model files that changes while a process opens it, makes an engine of it and talks to it. Every such run is
// a process of its own, so that a signal is counted like any other end. A few moments in the tests, any number in
// tests/stress/model_stress.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/gguf_builder.h"
#include "tests/support/random.h"
#include "tests/support/temporary_file.h"

namespace ocellus::test {

/// The change of a file.
enum class Change { kCutShort, kOverwrittenByNoise, kOverwrittenByModel, kGrown, kRemoved, kRenamedOver };
inline constexpr Change kChanges[] = {
    Change::kCutShort, Change::kOverwrittenByNoise, Change::kOverwrittenByModel, Change::kGrown,
    Change::kRemoved,  Change::kRenamedOver};
const char* change_name(Change change);

/// The stage of the run at the change. It waits until the change is done, except for kGoingOn.
enum class Stage { kBeforeOpening, kOpened, kEngineMade, kGoingOn };

struct Moment {
  Change change = Change::kCutShort;
  bool of_text = true;  // selects one of the two files
  Stage stage = Stage::kGoingOn;
  int64_t delay_us = 0;  // kGoingOn: from the start of the run to the change
};

/// The end of a run.
struct RunEnd {
  int signal = 0;    // fatal signal; 0: it ended by itself
  int status = 0;    // ocellus_status of the first call that failed, of those before the answer was complete
  std::string text;  // the answer, or the sentence of the failure
};

/// Counts of many runs.
struct ChangeTally {
  int64_t moments = 0;
  int64_t answered = 0;  // as one of the models that there were
  int64_t refused = 0;   // OCELLUS_BAD_FILE and a sentence that names the file
  int64_t killed = 0;    // by a signal
  int64_t wrong = 0;     // anything else
  std::string first_wrong;
};

class ChangingPair {
 public:
  ChangingPair();

  RunEnd run(const Moment& moment, Random& random) const;
  /// Changes of every kind at random times, from the start of a run to a little after it has its engine.
  void run_many(int64_t moments, uint64_t seed, ChangeTally* tally) const;

  /// The pair's answer, and its answer with the other model in place of one of its files.
  const std::string& answer() const { return answer_; }
  const std::string& other_answer(bool of_text) const { return of_text ? text_.answer : vision_.answer; }
  const std::string& path(bool of_text) const { return file(of_text).copy.path(); }

 private:
  struct File {
    File(const GgufBuilder& good_model, const GgufBuilder& other_model);
    Bytes good, other;
    std::string answer;  // answer of a pair with the other file
    TemporaryFile copy;
  };
  const File& file(bool of_text) const { return of_text ? text_ : vision_; }
  void apply(const Moment& moment, Random& random) const;
  bool is_expected(const Moment& moment, const RunEnd& end) const;

  File text_, vision_;
  std::string answer_;
  int64_t engine_us_ = 0;  // from the start of a run until it has its engine
};

}  // namespace ocellus::test
