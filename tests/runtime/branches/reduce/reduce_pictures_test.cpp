// Pictures of which not all rows are read: the rows that stay and their positions against the double-precision model,
// in every family, with every other thing that a cache does, and what is planned of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/branches/reduce/picture_reduction.h"
#include "runtime/branches/roll/roll.h"
#include "tests/support/cache_texts.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::bound_on;
using test::error_of;
using test::family_limits;
using test::Matrix;
using test::Pair;
using test::Parts;
using test::ReferenceText;
using test::TestPicture;
using test::VisionRecipe;

constexpr const char* kRules[] = {"cover-rows", "cover-rows:weigh=0", "divprune",   "visionzip:contextual=0",
                                  "cdpruner",   "even-rows",          "random-rows"};

constexpr const char* kMergingRules[] = {"visionzip", "pool-rows"};

ocellus_limits reducing(ocellus_limits limits, const std::string& rule, float keep) {
  test::set_text(limits.reduce, rule);
  limits.reduce_keep = keep;
  return limits;
}

const Pair& tiled_pair() {
  static const Pair pair(VisionRecipe{.longest_edge = 96});
  return pair;
}

/// The rows of `all` with these numbers.
Matrix rows_of(const Matrix& all, const std::vector<int32_t>& kept) {
  Matrix rows(std::ssize(kept), all.cols);
  for (int64_t i = 0; i < rows.rows; ++i) std::copy_n(all.row(kept[static_cast<size_t>(i)]), all.cols, rows.row(i));
  return rows;
}

/// Number of rows of pictures among these rows of a prompt.
int64_t count_image_rows(const std::vector<int32_t>& rows, const std::vector<int>& picture_of, int picture) {
  return std::count_if(rows.begin(), rows.end(),
                       [&](int32_t row) { return picture_of[static_cast<size_t>(row)] == picture; });
}

/// Of every row of the prompt its picture; -1: text.
std::vector<int> pictures_by_row(const Parts& parts, int64_t rows_per_view) {
  std::vector<int> pictures;
  for (const test::Part& part : parts)
    pictures.insert(pictures.end(), static_cast<size_t>(part.view < 0 ? 1 : rows_per_view), part.picture);
  return pictures;
}

/// The first row of every view becomes the mean of all.
void average_views(const std::vector<int>& picture_of, int64_t view_rows, Matrix* rows) {
  for (int64_t row = 0; row < rows->rows; row += picture_of[static_cast<size_t>(row)] < 0 ? 1 : view_rows)
    for (int64_t i = 0; i < rows->cols && picture_of[static_cast<size_t>(row)] >= 0; ++i) {
      double sum = 0;
      for (int64_t other = row; other < row + view_rows; ++other) sum += rows->row(other)[i];
      rows->row(row)[i] = sum / static_cast<double>(view_rows);
    }
}

void check_against_reference(const char* rule, float keep) {
  CAPTURE(std::string(rule));
  CAPTURE(keep);
  const Pair& pair = tiled_pair();
  const auto engine = test::make_engine(pair.model, reducing(test::picture_limits(2, 60), rule, keep));
  Session& session = test::open_session(*engine);
  const std::vector<TestPicture> pictures = {{96, 64}, {33, 200}};
  test::add_words(session, "Compare ");
  for (const TestPicture& picture : pictures) test::add_picture(session, picture);
  test::add_words(session, "now");
  const std::vector<float> logits = test::first_logits(session);
  const int64_t rows_before = session.cache().rows(), next_before = session.next_position();
  const auto& [picks, weights, weighs] = std::tuple(
      reduction_of(*engine).picks.host.data, engine->memory().chunk.weights.data, engine->shape().pictures.weighs_rows);
  std::vector<int32_t> counts(weights, weights + (weighs ? rows_before : 0));
  std::vector<int32_t> kept(picks, picks + rows_before);
  test::add_words(session, "then");
  const std::vector<float> later_logits = test::first_logits(session);

  Parts parts;
  test::append_text(parts, "Compare ");
  test::append_picture(parts, 0, 2, 3);
  test::append_picture(parts, 1, 3, 1);
  test::append_text(parts, "now");
  const int64_t all_rows = std::ssize(pictures_by_row(parts, pair.model.vision().tokens_per_view()));
  test::append_text(parts, "then");
  const std::vector<int> picture_of = pictures_by_row(parts, pair.model.vision().tokens_per_view());
  const int64_t all[] = {7 * 4, 4 * 4};
  int64_t count = std::count(picture_of.begin(), picture_of.begin() + all_rows, -1);
  for (const int64_t rows : all) count += std::llround(keep * static_cast<float>(rows));
  CHECK(rows_before == count);
  CHECK(next_before == all_rows);
  CHECK(std::is_sorted(kept.begin(), kept.end()));
  for (int i = 0; i < 2; ++i)
    CHECK(count_image_rows(kept, picture_of, i) == std::llround(keep * static_cast<float>(all[i])));
  Matrix rows = test::reference_rows(pair.model, engine->shape().pictures.preprocess, parts, pictures);
  for (auto row = static_cast<int32_t>(all_rows); row < std::ssize(picture_of); ++row) kept.push_back(row);
  if (weighs) counts.resize(kept.size(), 1);
  const std::vector<int64_t> positions(kept.begin(), kept.end());
  if (std::string(rule) == "pool-rows") average_views(picture_of, pair.model.vision().tokens_per_view(), &rows);
  const ReferenceText text(pair.model.text_file());
  const Matrix expected = text.logits(text.read(rows_of(rows, kept), positions, {.counts = counts}));
  const double bound = bound_on(*engine, 3e-4, 1e-2);
  CHECK(test::relative_error(logits.data(), expected.row(count - 1), expected.cols) < bound);
  CHECK(test::relative_error(later_logits.data(), expected.row(expected.rows - 1), expected.cols) < bound);
}

/// A conversation about two pictures.
struct Talk {
  Talk(const Model& model, const ocellus_limits& limits) : engine(test::make_engine(model, limits)) {
    session = &test::open_session(*engine);
    test::add_two_pictures(*session);
    REQUIRE_MESSAGE(session->prompt().read().ok(), last_failure().sentence);
    image_rows = session->conversation().stats().image_rows;
    logits = test::first_logits(*session);
    ocellus_generate_params params = test::default_params(8);
    params.ignore_end = 1;
    answer = test::answer_of(*session, params);
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
  }
  std::unique_ptr<Engine> engine;
  Session* session = nullptr;
  int32_t image_rows = 0;
  std::vector<float> logits;
  test::Answer answer;
};

}  // namespace

TEST_CASE("the rows that a rule keeps are read at their own positions, between all of the text") {
  for (const char* const rule : kRules)
    for (const float keep : {0.5f, 0.25f, 0.1f}) check_against_reference(rule, keep);
  check_against_reference("pool-rows", 0.25f);
}

TEST_CASE("every family reads half of its pictures' rows, or all of them bit for bit") {
  test::for_each_tiny_family([](const Model& model) {
    const Talk all(model, family_limits());
    std::vector<const char*> rules(std::begin(kRules), std::end(kRules));
    rules.insert(rules.end(), std::begin(kMergingRules), std::end(kMergingRules));
    for (const char* const rule : rules) {
      CAPTURE(std::string(rule));
      const Talk whole(model, reducing(family_limits(), rule, 1));
      CHECK(whole.logits == all.logits);
      const Talk half(model, reducing(family_limits(), rule, 0.5f));
      CHECK(half.image_rows >= all.image_rows / 2);
      CHECK(half.image_rows <= all.image_rows / 2 + 1);  // of two pictures
      CHECK(half.session->next_position() == all.session->next_position());
      CHECK(half.logits != all.logits);
      CHECK(std::all_of(half.logits.begin(), half.logits.end(), [](float x) { return std::isfinite(x); }));
      const Talk again(model, reducing(family_limits(), rule, 0.5f));
      CHECK(again.logits == half.logits);
    }
  });
}

TEST_CASE("pictures that are read together keep the rows that each keeps alone") {
  const Model& model = test::any_model();
  const auto logits_of = [&](const char* rule, int32_t prompt_rows) {
    ocellus_limits limits = reducing(test::picture_limits(6, 60), rule, 0.5f);
    limits.max_prompt_rows = prompt_rows;
    const auto engine = test::make_engine(model, limits);
    Session& session = test::open_session(*engine);
    for (int i = 0; i < 6; ++i) test::add_picture(session, TestPicture(200 + 9 * i, 180, i));
    test::add_words(session, "now");
    // Inputs of the bundled model's weights are rounded to 8 bits: what is summed in another order may round apart.
    return std::pair(test::first_logits(session), bound_on(*engine, 5e-3, 1e-2));
  };
  for (const char* const rule :
       {"cover-rows", "cover-rows:weigh=0", "divprune", "visionzip", "pool-rows", "even-rows"}) {
    CAPTURE(std::string(rule));
    const auto [together, bound] = logits_of(rule, 4096);
    CHECK(test::error_of(logits_of(rule, 1).first, together) < bound);
  }
}

TEST_CASE("pictures that are reduced are packed, evicted, known by their views and rolled on like others") {
  const Model& model = tiled_pair().model;
  ocellus_limits limits = reducing(test::picture_limits(2, 80), "cover-rows", 0.5f);
  const Talk plain(model, limits);
  limits.kept_views = 20;
  const Talk kept(model, limits);
  CHECK(kept.logits == plain.logits);
  for (const char* const evict : {"", "snapkv", "value-window", "elastic"}) {
    CAPTURE(std::string(evict));
    for (const int32_t bits : {16, 4}) {
      if (bits < 16 && !test::can_pack(model)) continue;
      ocellus_limits both = limits;
      test::set_text(both.cache.evict, evict);
      both.cache.kv_bits = bits;
      if (evict[0] != '\0') both.cache.keep = 0.5f;
      const Talk talk(model, both);
      if (evict[0] == '\0') CHECK(talk.session->cache().rows() == plain.session->cache().rows());
    }
  }
  const auto engine = test::make_engine(model, limits);
  Session& session = test::open_session(*engine);
  REQUIRE(set_rolling(session, 2, 4).ok());
  for (int turn = 0; turn < 6; ++turn) {
    test::add_words(session, "Look");
    test::add_picture(session, turn % 2 == 0 ? test::wide_picture() : test::tall_picture());
    REQUIRE_MESSAGE(test::answer_of(session, test::default_params(3)).status.ok(), last_failure().sentence);
  }
  CHECK(session.cache().image_count() == 2);
}

TEST_CASE("the plan has slots for the rows that are read, and no others") {
  const Model& model = tiled_pair().model;
  const auto plan_of = [&](const ocellus_limits& limits) {
    ocellus_plan plan;
    REQUIRE_MESSAGE(plan_memory(model, limits, &plan).ok(), last_failure().sentence);
    return plan;
  };
  const ocellus_limits limits = test::picture_limits(8, 60);
  const ocellus_plan all = plan_of(limits), half = plan_of(reducing(limits, "divprune", 0.5f));
  CHECK(half.rows_per_image == all.rows_per_image / 2);
  CHECK(half.kv_bytes_per_image == all.kv_bytes_per_image / 2);
  CHECK(half.positions_per_image == all.positions_per_image);
  CHECK(half.total_bytes < all.total_bytes);
}

TEST_CASE("fewer rows are kept where prompts take longer than they are to take") {
  ocellus_limits limits = reducing(test::picture_limits(2, 60), "cover-rows", 0.5f);
  const auto read_twice = [&](float target_ms) {
    limits.reduce_ms = target_ms;
    const auto engine = test::make_engine(tiled_pair().model, limits);
    Session& session = test::open_session(*engine);
    std::vector<int64_t> rows;
    for (int turn = 0; turn < 2; ++turn) {
      session.reset();
      test::add_two_pictures(session);
      (void)test::first_logits(session);
      rows.push_back(session.cache().rows() - session.cache().text_rows());
    }
    return rows;
  };
  const std::vector<int64_t> plain = read_twice(0), hurried = read_twice(1e-6f);
  CHECK(plain[1] == plain[0]);
  CHECK(hurried[0] == plain[0]);  // the time is not known yet
  CHECK(hurried[1] < plain[0] / 4);
  CHECK(hurried[1] >= 2);
  CHECK(read_twice(1e6f) == plain);
}

TEST_CASE("a picture that fails or is cancelled leaves what was read before") {
  const auto engine = test::make_engine(tiled_pair().model, reducing(test::picture_limits(2, 60), "cover-rows", 0.5f));
  Session& session = test::open_session(*engine);
  test::add_words(session, "Look");
  test::add_picture(session, test::wide_picture());
  REQUIRE(test::answer_of(session, test::default_params(2)).status.ok());
  const int64_t rows = session.cache().rows(), position = session.next_position();
  test::add_picture(session, test::tall_picture());
  session.stop_signal().cancel();
  CHECK(test::answer_of(session).status.code() == Code::kCancelled);
  session.stop_signal().acknowledge();
  CHECK(session.cache().rows() <= rows);
  CHECK(session.next_position() <= position);
  test::add_picture(session, test::tall_picture());
  CHECK(test::answer_of(session, test::default_params(2)).status.ok());
}

TEST_CASE("reductions that cannot be are refused in a sentence") {
  const Model& model = tiled_pair().model;
  ocellus_limits linked = reducing(test::picture_limits(2, 60), "divprune", 0.5f);
  linked.reuse = OCELLUS_REUSE_MPIC;
  ocellus_plan plan;
  CHECK(plan_memory(model, linked, &plan).code() == Code::kBadArgument);
  for (const auto& [rule, ms] :
       {std::pair("fastv:layer=1", 5.0f), {"divprune", -1.0f}, {"divprune", NAN}, {"", 5.0f}}) {
    ocellus_limits timed = reducing(test::picture_limits(2, 60), rule, rule[0] == '\0' ? 1 : 0.5f);
    timed.reduce_ms = ms;
    CHECK(plan_memory(model, timed, &plan).code() == Code::kBadArgument);
  }
  const struct {
    const char* rule;
    float keep;
  } wrong[] = {
      {"none", 0.5f},    {"", 0.5f},        {"divprune", 0}, {"divprune", -1},          {"divprune", 1.5f},
      {"divprune", NAN}, {"nothing", 0.5f}, {"evs", 0.5f},   {"divprune:seed=1", 0.5f}, {"random-rows:seed=-1", 0.5f}};
  for (const auto& w : wrong) {
    CAPTURE(std::string(w.rule));
    CHECK(plan_memory(model, reducing(test::picture_limits(2, 60), w.rule, w.keep), &plan).code() ==
          Code::kBadArgument);
  }
}

}  // namespace ocellus
