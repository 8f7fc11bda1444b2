// Model files that are cut short, overwritten, replaced or removed while they are in use: an answer of one of the
// models that there were, or one sentence, and never a signal.
#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/branches/library/library_session.h"
#include "runtime/engine/engine.h"
#include "runtime/models/model.h"
#include "tests/support/model_changes.h"
#include "tests/support/short_talk.h"
#include "tests/support/small_run.h"

namespace ocellus {
namespace {

using test::Change;
using test::ChangingPair;
using test::Moment;
using test::RunEnd;
using test::Stage;

const ChangingPair& changing_pair() {
  static const ChangingPair pair;
  return pair;
}

void check_answered(const RunEnd& end, const std::string& answer) {
  CHECK(end.signal == 0);
  CHECK_MESSAGE(end.status == OCELLUS_OK, end.text);
  CHECK(end.text == answer);
}

void check_refused(const RunEnd& end, const std::string& path, const char* reason) {
  CHECK(end.signal == 0);
  CHECK(end.status == OCELLUS_BAD_FILE);
  CHECK_MESSAGE(end.text.find(path) != std::string::npos, end.text);
  CHECK_MESSAGE(end.text.find(reason) != std::string::npos, end.text);
}

/// True if the bytes of the open file change, and not only the file under its name.
bool is_in_place(Change change) { return change != Change::kRemoved && change != Change::kRenamedOver; }

template <class Check>
void change_at(Stage stage, const Check& check) {
  test::Random random(40);
  for (const bool of_text : {true, false}) {
    for (const Change change : test::kChanges) {
      CAPTURE(of_text);
      CAPTURE(test::change_name(change));
      check(changing_pair().run({.change = change, .of_text = of_text, .stage = stage}, random), of_text, change);
    }
  }
}

}  // namespace

TEST_CASE("the models of the changing pair can be told from each other") {
  const ChangingPair& pair = changing_pair();
  CHECK(pair.answer() != pair.other_answer(true));
  CHECK(pair.answer() != pair.other_answer(false));
}

TEST_CASE("a model file that changes before it is opened is what it has become") {
  const ChangingPair& pair = changing_pair();
  change_at(Stage::kBeforeOpening, [&](const RunEnd& end, bool of_text, Change change) {
    if (change == Change::kGrown) return check_answered(end, pair.answer());
    if (change == Change::kOverwrittenByModel || change == Change::kRenamedOver)
      return check_answered(end, pair.other_answer(of_text));
    check_refused(end, pair.path(of_text), "");
  });
}

TEST_CASE("a model file that changes between opening and making the engine is refused, one that is replaced is not") {
  const ChangingPair& pair = changing_pair();
  change_at(Stage::kOpened, [&](const RunEnd& end, bool of_text, Change change) {
    if (!is_in_place(change)) return check_answered(end, pair.answer());
    check_refused(end, pair.path(of_text), "the file changed while it was in use");
  });
}

TEST_CASE("an engine needs its model's files no more") {
  change_at(Stage::kEngineMade,
            [&](const RunEnd& end, bool, Change) { check_answered(end, changing_pair().answer()); });
}

TEST_CASE("a model file that changes at any moment ends in an answer or in one sentence") {
  test::ChangeTally tally;
  const int64_t moments = test::is_slow_run() ? 100 : 400;  // AddressSanitizer's processes take long to fork
  changing_pair().run_many(moments, 41, &tally);
  MESSAGE(tally.answered << " answered, " << tally.refused << " refused, " << tally.killed << " killed, " << tally.wrong
                         << " wrong");
  CHECK(tally.moments == moments);
  CHECK(tally.answered > 0);  // how many of each depends on what else the machine does
  CHECK(tally.refused > 0);
  CHECK(tally.killed == 0);
  CHECK(tally.wrong == 0);
  CHECK_MESSAGE(tally.first_wrong.empty(), tally.first_wrong);
}

TEST_CASE("an image library is not given the name of a model whose file has changed") {
  const test::TemporaryFile text(test::small_model());
  Model model;
  REQUIRE_MESSAGE(model.open(text.c_str(), nullptr).ok(), last_failure().sentence);
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits = test::talk_limits(model);
  std::unique_ptr<Engine> engine;
  REQUIRE_MESSAGE(Engine::create(model, config, &engine).ok(), last_failure().sentence);
  std::filesystem::resize_file(text.path(), std::filesystem::file_size(text.path()) + 1);
  CHECK(fingerprint_model(*engine).code() == Code::kBadFile);
  const std::string sentence = last_failure().sentence;
  CHECK_MESSAGE(sentence.find(text.path() + ": the file changed") != std::string::npos, sentence);
}

}  // namespace ocellus
