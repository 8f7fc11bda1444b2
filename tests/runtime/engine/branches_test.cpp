// Branches: in every build each does its work, or is refused with its name.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ocellus.h"
#include "tests/support/bundled_model.h"
#include "tests/support/c_handles.h"
#include "tests/support/cache_texts.h"
#include "tests/support/failure.h"
#include "tests/support/goldens.h"

namespace ocellus {
namespace {

using test::last_error_says;

/// Half of a picture's rows.
void ask_for_half(ocellus_limits& limits) {
  test::set_text(limits.reduce, "cover-rows");
  limits.reduce_keep = 0.5f;
}

bool has(std::string_view name) {
  for (int32_t i = 0; const ocellus_branch* branch = ocellus_branch_get(i); ++i)
    if (branch->name == name) return branch->is_built != 0;
  FAIL("no such branch");
  return false;
}

/// What no branch is needed for.
ocellus_limits plain_limits() {
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.max_image_pixels = 65536;
  limits.max_text_tokens = 128;
  return limits;
}

/// With what every branch that this build has can plan.
ocellus_limits full_limits() {
  ocellus_limits limits = plain_limits();
  limits.max_constraints = has("constrain") ? 1 : 0;
  limits.draft_rows = has("draft") ? 4 : 0;
  if (has("reduce")) ask_for_half(limits);
  return limits;
}

struct Handles : test::CHandles {
  explicit Handles(const ocellus_limits& limits) : CHandles(test::bundled_pair(), limits) {}
  /// Adds a text and generates; returns the number of tokens.
  int32_t answer() const {
    REQUIRE(ocellus_session_begin_turn(session) == OCELLUS_OK);
    REQUIRE(ocellus_session_add_text(session, "Describe this.", 14, 0) == OCELLUS_OK);
    REQUIRE(ocellus_session_end_turn(session) == OCELLUS_OK);
    ocellus_generate_params params;
    ocellus_generate_params_init(&params);
    params.max_tokens = 8;
    ocellus_generate_stats stats;
    REQUIRE(ocellus_session_generate(session, &params, &stats) == OCELLUS_OK);
    return stats.generated_tokens;
  }
};

/// A call does its work in builds with the branch; in others it is refused with the branch's name.
void check_works_or_is_refused(ocellus_status status, const char* branch) {
  CAPTURE(branch);
  if (has(branch)) {
    CHECK_MESSAGE(status == OCELLUS_OK, ocellus_last_error()->sentence);
  } else {
    CHECK(status == OCELLUS_UNSUPPORTED);
    CHECK_MESSAGE(last_error_says(OCELLUS_UNSUPPORTED, branch), ocellus_last_error()->sentence);
  }
}

TEST_CASE("branches have names, in order, and their list ends") {
  std::string names;
  for (int32_t i = 0; const ocellus_branch* branch = ocellus_branch_get(i); ++i)
    names += std::string(branch->name) + " ";
  CHECK(names == "constrain draft evict library measure pack reduce reuse roll ");
  CHECK(ocellus_branch_get(-1) == nullptr);
  CHECK(ocellus_branch_get(9) == nullptr);
}

TEST_CASE("a limit of a branch is planned, or refused with its name") {
  const Handles handles(plain_limits());
  const struct {
    const char* branch;
    void (*ask)(ocellus_limits& limits);
  } cases[] = {{"constrain", [](ocellus_limits& limits) { limits.max_constraints = 1; }},
               {"draft", [](ocellus_limits& limits) { limits.draft_rows = 4; }},
               {"evict",
                [](ocellus_limits& limits) {
                  test::set_text(limits.cache.evict, "snapkv");
                  limits.cache.keep = 0.5f;
                }},
               {"library",
                [](ocellus_limits& limits) {
                  limits.reuse = OCELLUS_REUSE_MPIC;  // it needs it
                  limits.library = 1;
                }},
               {"measure", [](ocellus_limits& limits) { limits.synthetic_tokens = 64; }},
               {"pack",
                [](ocellus_limits& limits) {
                  test::set_text(limits.cache.kv_scheme, "kivi");
                  limits.cache.kv_bits = 2;
                }},
               {"reduce", ask_for_half},
               {"reuse", [](ocellus_limits& limits) { limits.reuse = OCELLUS_REUSE_MPIC; }},
               {has("evict") ? "roll" : "evict", [](ocellus_limits& limits) {
                  test::set_text(limits.cache.evict, "infinipot-v");
                  limits.cache.keep = 0.75f;
                }}};
  for (const auto& [branch, ask] : cases) {
    ocellus_limits limits = plain_limits();
    limits.max_images = 0;
    ask(limits);
    ocellus_plan plan;
    check_works_or_is_refused(ocellus_plan_memory(handles.model, &limits, &plan), branch);
  }
}

TEST_CASE("methods of a branch are listed, and their options known, in every build") {
  CHECK(std::string(ocellus_method_get(OCELLUS_METHOD_REDUCE, 0)->name) == "cover-rows");
  CHECK(ocellus_method_check(OCELLUS_METHOD_REDUCE, "cover-rows:place=1") == OCELLUS_OK);
  CHECK(ocellus_method_check(OCELLUS_METHOD_REDUCE, "cover-rows:place=-1") == OCELLUS_BAD_ARGUMENT);
}

TEST_CASE("a function of a branch works, or is refused with its name") {
  const Handles handles(full_limits());
  ocellus_constraint_params params;
  ocellus_constraint_params_init(&params);
  params.text = "{}";
  params.text_bytes = 2;
  ocellus_constraint* constraint = nullptr;
  check_works_or_is_refused(ocellus_constraint_create(handles.engine, &params, &constraint), "constrain");
  CHECK((constraint != nullptr) == has("constrain"));
  ocellus_constraint_destroy(constraint);

  check_works_or_is_refused(ocellus_session_set_rolling(handles.session, 1, 16), "roll");

  check_works_or_is_refused(ocellus_session_set_linking(handles.session, 0), "reuse");
  CHECK(handles.answer() > 0);  // what was planned or not
  REQUIRE(ocellus_session_reset(handles.session) == OCELLUS_OK);
  REQUIRE(ocellus_session_begin_turn(handles.session) == OCELLUS_OK);
  REQUIRE(ocellus_session_end_turn(handles.session) == OCELLUS_OK);
  ocellus_choice choice = {};
  choice.text = "a";
  choice.text_bytes = 1;
  check_works_or_is_refused(ocellus_session_score_choices(handles.session, &choice, 1), "measure");
  const int32_t token = 65;
  float value = 0;
  check_works_or_is_refused(ocellus_session_score(handles.session, &token, 1, &value, nullptr), "measure");
  REQUIRE(ocellus_session_reset(handles.session) == OCELLUS_OK);
  std::vector<float> values(4096);
  int32_t width = 0;
  const std::vector<uint8_t> board = test::read_bytes(test::kShapeboardDir + "images/004.png");
  check_works_or_is_refused(
      ocellus_session_embed_image(handles.session, board.data(), std::ssize(board), values.data(), 4096, &width),
      "measure");
}

TEST_CASE("a library is opened, or refused with its name, and owners have shared images without one") {
  const Handles handles(plain_limits());
  std::string folder = (std::filesystem::temp_directory_path() / "ocellus-branches-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  ocellus_library* library = nullptr;
  check_works_or_is_refused(ocellus_library_open(folder.c_str(), 0, &library), "library");
  CHECK((library != nullptr) == has("library"));
  ocellus_library_close(library);
  std::filesystem::remove_all(folder);
  CHECK(ocellus_session_set_library(handles.session, nullptr, "ann") == OCELLUS_OK);
  CHECK(ocellus_session_set_library(handles.session, nullptr, "../ann") == OCELLUS_BAD_ARGUMENT);
  const ocellus_part entry = {OCELLUS_PART_ENTRY, 0, "0123456789abcdef0123456789abcdef", 32, nullptr, nullptr};
  CHECK(ocellus_session_add_parts(handles.session, &entry, 1, nullptr) != OCELLUS_OK);
  CHECK(last_error_says(has("library") ? OCELLUS_BAD_ARGUMENT : OCELLUS_UNSUPPORTED, "library"));
}

}  // namespace
}  // namespace ocellus
