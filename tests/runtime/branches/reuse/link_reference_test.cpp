// Linked images against a double-precision reference that links: for any choice of rows computed in place, and any
// treatment of the others.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tests/support/tiled_pictures.h"

namespace ocellus {
namespace {

using test::append_picture;
using test::append_text;
using test::bound_on;
using test::LinkedRows;
using test::Matrix;
using test::Pair;
using test::Part;
using test::Parts;
using test::picture_limits;
using test::reference_rows;
using test::ReferenceText;
using test::TestPicture;
using test::TextRecipe;
using test::VisionRecipe;

/// A picture of six tiles and an overview between two texts.
class LinkedPicture {
 public:
  LinkedPicture(const TextRecipe& recipe, const std::string& before, ocellus_reuse reuse, int64_t in_place)
      : before_(before), pair_(recipe, VisionRecipe{.longest_edge = 96}) {
    ocellus_limits limits = picture_limits(1, 40);
    limits.reuse = reuse;
    limits.reuse_rows = static_cast<int32_t>(in_place);
    engine_ = test::make_engine(pair_.model, limits);
    const VocabularyFacts& facts = engine_->tokenizer().facts();
    if (facts.add_bos) alone_.push_back({.token = facts.bos});
    parts_ = alone_;
    append_text(parts_, before);
    append_picture(alone_, 0, 2, 3);
    append_picture(parts_, 0, 2, 3);
    append_text(parts_, "?");
    text_.read(rows_of(alone_), {}, {.ends = ends_of(alone_)}, &source_);
  }

  int64_t slots() const { return 7 * tokens(); }
  Engine& engine() { return *engine_; }
  Matrix rows() const { return rows_of(parts_); }
  /// Continues with more text after the question.
  void go_on(const std::string& text) { append_text(parts_, text); }

  Session& ask() {
    Session& session = test::open_session(*engine_);
    REQUIRE(session.add_text(before_, false).ok());
    REQUIRE_MESSAGE(session.add_frame(pictures_[0].frame()).ok(), last_failure().sentence);
    const PromptChunk& alone = engine_->memory().linked.chunk;
    picks_ = std::set<int64_t>(alone.picks.data, alone.picks.data + alone.pick_count);
    REQUIRE(session.add_text("?", false).ok());
    return session;
  }
  /// Rows of the image that were read in place when it was asked.
  const std::set<int64_t>& picks() const { return picks_; }
  /// CacheBlend: those whose values in the second layer have changed most.
  void pick_changed(int64_t percent) {
    test::KeysAndValues now;
    text_.read(rows(), {}, {.ends = ends_of(parts_)}, &now);
    std::vector<std::pair<double, int64_t>> changes;
    visit_rows([&](int64_t row, int64_t image_row) {
      if (image_row < 0) return;
      const double *value = now.values[1].row(row), *stored = source_.values[1].row(row - std::ssize(before_));
      double change = 0;
      for (int64_t i = 0; i < now.values[1].cols; ++i) change += (value[i] - stored[i]) * (value[i] - stored[i]);
      changes.push_back({-change, image_row});
    });
    std::sort(changes.begin(), changes.end());
    picks_.clear();
    for (int64_t i = 0; i < slots() * percent / 100; ++i) picks_.insert(changes[static_cast<size_t>(i)].second);
  }

  /// Logits of the last row.
  std::vector<double> expected(bool linked, bool carries = false, bool text_alone = false) const {
    const Matrix all = rows();
    LinkedRows links;
    if (linked) links = text_alone ? links_seen_by_the_last_row() : links_of_picture(carries);
    links.ends = ends_of(parts_);
    const Matrix logits = text_.logits(text_.read(all, {}, links));
    return {logits.row(all.rows - 1), logits.row(all.rows - 1) + logits.cols};
  }

 private:
  int64_t tokens() const { return pair_.model.vision().tokens_per_view(); }
  Matrix rows_of(const Parts& parts) const {
    return reference_rows(pair_.model, engine_->shape().pictures.preprocess, parts, pictures_);
  }
  /// By row the end of its view if a view's rows see each other.
  std::vector<int64_t> ends_of(const Parts& parts) const {
    std::vector<int64_t> ends;
    for (const Part& part : parts) {
      if (!pair_.model.text().architecture->has_mutual_pictures) return {};
      const int64_t rows = part.view < 0 ? 1 : tokens();
      ends.insert(ends.end(), static_cast<size_t>(rows), std::ssize(ends) + rows);
    }
    return ends;
  }
  /// Calls visit(row, row of the image or -1) for all rows of the prompt.
  template <class Visit>
  void visit_rows(Visit visit) const {
    int64_t row = 0, image_row = 0;
    for (const Part& part : parts_)
      for (int64_t i = 0; i < (part.view < 0 ? 1 : tokens()); ++i) visit(row++, part.view < 0 ? -1 : image_row++);
  }
  LinkedRows links_of_picture(bool carries) const {
    LinkedRows links{.source = source_, .rows = {}};
    visit_rows([&](int64_t row, int64_t image_row) {
      const LinkedRows::Pair pair{row, row - std::ssize(before_)};
      if (image_row >= 0 && !picks_.contains(image_row)) links.rows.push_back(pair);
      if (image_row >= 0 && picks_.contains(image_row) && carries) links.carried.push_back(pair);
    });
    return links;
  }
  /// Full reuse: text is read without the picture, then the last row sees both.
  LinkedRows links_seen_by_the_last_row() const {
    LinkedRows links{.source = source_, .rows = {}};
    const Matrix all = rows();
    Matrix text(0, all.cols);
    std::vector<int64_t> positions;
    const int64_t alone = source_.keys[0].rows;
    visit_rows([&](int64_t row, int64_t image_row) {
      if (image_row >= 0) return links.rows.push_back({row, row - std::ssize(before_)});
      if (row + 1 < all.rows) links.rows.push_back({row, alone + text.rows});
      text.values.insert(text.values.end(), all.row(row), all.row(row) + all.cols);
      ++text.rows;
      positions.push_back(row);
    });
    test::KeysAndValues of_text;
    text_.read(text, positions, {}, &of_text);
    for (size_t layer = 0; layer < of_text.keys.size(); ++layer) {
      append(of_text.keys[layer], &links.source.keys[layer]);
      append(of_text.values[layer], &links.source.values[layer]);
    }
    return links;
  }
  static void append(const Matrix& rows, Matrix* to) {
    to->values.insert(to->values.end(), rows.values.begin(), rows.values.end());
    to->rows += rows.rows;
  }

  std::string before_;
  Pair pair_;
  std::vector<TestPicture> pictures_ = {{100, 37}};
  ReferenceText text_{pair_.model.text_file()};
  std::unique_ptr<Engine> engine_;
  Parts alone_, parts_;
  test::KeysAndValues source_;
  std::set<int64_t> picks_;
};

struct Case {
  ocellus_reuse reuse;
  const char* before;
  int64_t in_place;
  const TextRecipe* recipe = nullptr;  // null: llama's
};
constexpr const char *kFar = "What is on the left of", *kNear = "";  // near: it stands where it was read
const TextRecipe kLlama = {.kv_heads = 2}, kQwen3 = {.architecture = "qwen3", .kv_heads = 2, .head_dim = 32};
// One layer of three sees all rows. The shorter window ends in the picture: few of its rows see the text before.
const TextRecipe kWindow = {.architecture = "gemma3", .layers = 3, .kv_heads = 2, .window = 48, .window_period = 3};
const TextRecipe kShort = {.architecture = "gemma3", .layers = 3, .kv_heads = 2, .window = 14, .window_period = 3};
// All layers see all rows, and a view's rows see each other.
const TextRecipe kMutual = {.architecture = "gemma3", .layers = 3, .kv_heads = 2};

constexpr int64_t kTokens = 4, kSlots = 7 * kTokens;  // of a view, of the picture
const Case kCases[] = {{OCELLUS_REUSE_MPIC, kFar, 0},
                       {OCELLUS_REUSE_MPIC, kFar, 1},
                       {OCELLUS_REUSE_MPIC, kFar, kTokens - 1},
                       {OCELLUS_REUSE_MPIC, kFar, kTokens + 1},
                       {OCELLUS_REUSE_MPIC, kFar, kSlots},
                       {OCELLUS_REUSE_MPIC, kNear, 0},
                       {OCELLUS_REUSE_MPIC, kNear, 5},
                       {OCELLUS_REUSE_SPREAD, kFar, 1},
                       {OCELLUS_REUSE_SPREAD, kFar, 9},
                       {OCELLUS_REUSE_SPREAD, kFar, kSlots - 1},
                       {OCELLUS_REUSE_SPREAD, kFar, kSlots},
                       {OCELLUS_REUSE_SPREAD, kNear, 6},
                       {OCELLUS_REUSE_CARRY, kFar, 0},
                       {OCELLUS_REUSE_CARRY, kFar, 1},
                       {OCELLUS_REUSE_CARRY, kFar, 9},
                       {OCELLUS_REUSE_CARRY, kFar, kSlots},
                       {OCELLUS_REUSE_CARRY, kNear, 6},
                       {OCELLUS_REUSE_TILES, kFar, 2},
                       {OCELLUS_REUSE_TILES, kFar, kTokens},
                       {OCELLUS_REUSE_FULL, kFar, 0},
                       {OCELLUS_REUSE_FULL, kNear, 0},
                       {OCELLUS_REUSE_BLEND, kFar, 0},
                       {OCELLUS_REUSE_BLEND, kFar, 20},
                       {OCELLUS_REUSE_BLEND, kFar, 60},
                       {OCELLUS_REUSE_BLEND, kFar, 100},
                       {OCELLUS_REUSE_BLEND, kNear, 20},
                       {OCELLUS_REUSE_PREFIX, kFar, 0},
                       {OCELLUS_REUSE_PREFIX, kNear, 0},
                       {OCELLUS_REUSE_MPIC, kFar, 0, &kQwen3},
                       {OCELLUS_REUSE_MPIC, kFar, 5, &kQwen3},
                       {OCELLUS_REUSE_SPREAD, kFar, 9, &kQwen3},
                       {OCELLUS_REUSE_CARRY, kFar, 9, &kQwen3},
                       {OCELLUS_REUSE_TILES, kFar, 2, &kQwen3},
                       {OCELLUS_REUSE_FULL, kFar, 0, &kQwen3},
                       {OCELLUS_REUSE_BLEND, kFar, 20, &kQwen3},
                       {OCELLUS_REUSE_BLEND, kFar, 100, &kQwen3},
                       {OCELLUS_REUSE_MPIC, kFar, 0, &kWindow},
                       {OCELLUS_REUSE_MPIC, kFar, 5, &kWindow},
                       {OCELLUS_REUSE_MPIC, kFar, kSlots, &kWindow},
                       {OCELLUS_REUSE_MPIC, kNear, 0, &kWindow},
                       {OCELLUS_REUSE_MPIC, kFar, 5, &kShort},
                       {OCELLUS_REUSE_MPIC, kNear, 5, &kShort},
                       {OCELLUS_REUSE_SPREAD, kFar, 9, &kWindow},
                       {OCELLUS_REUSE_SPREAD, kFar, 9, &kShort},
                       {OCELLUS_REUSE_CARRY, kFar, 9, &kWindow},
                       {OCELLUS_REUSE_CARRY, kFar, 9, &kShort},
                       {OCELLUS_REUSE_TILES, kFar, 2, &kWindow},
                       {OCELLUS_REUSE_BLEND, kFar, 20, &kWindow},
                       {OCELLUS_REUSE_BLEND, kFar, 20, &kShort},
                       {OCELLUS_REUSE_BLEND, kFar, 100, &kWindow},
                       {OCELLUS_REUSE_PREFIX, kFar, 0, &kWindow},
                       {OCELLUS_REUSE_MPIC, kFar, 0, &kMutual},
                       {OCELLUS_REUSE_MPIC, kFar, 5, &kMutual},
                       {OCELLUS_REUSE_CARRY, kFar, 9, &kMutual},
                       {OCELLUS_REUSE_FULL, kFar, 0, &kMutual},
                       {OCELLUS_REUSE_BLEND, kFar, 20, &kMutual},
                       {OCELLUS_REUSE_PREFIX, kFar, 0, &kMutual}};

}  // namespace

TEST_CASE("a tiled picture that was read alone stands in a prompt as the reference links it") {
  for (const Case& c : kCases) {
    CAPTURE(c.reuse);
    CAPTURE(c.before);
    CAPTURE(c.in_place);
    const TextRecipe& recipe = c.recipe == nullptr ? kLlama : *c.recipe;
    CAPTURE(recipe.architecture);
    CAPTURE(recipe.window);
    LinkedPicture picture(recipe, c.before, c.reuse, c.in_place);
    REQUIRE(picture.slots() == kSlots);
    Session& session = picture.ask();
    const std::vector<float> logits = test::first_logits(session);
    CHECK(session.next_position() == picture.rows().rows);
    const bool by_tile = c.reuse == OCELLUS_REUSE_TILES, blends = c.reuse == OCELLUS_REUSE_BLEND;
    const bool in_context = c.reuse == OCELLUS_REUSE_PREFIX;
    if (blends) picture.pick_changed(c.in_place);
    const int64_t picks = blends ? kSlots * c.in_place / 100 : (by_tile ? 7 : 1) * c.in_place;
    REQUIRE(std::ssize(picture.picks()) == picks);
    CHECK(session.cache().text_slots() == session.next_position() - kSlots + picks);
    for (const int64_t row : picture.picks()) CHECK((!by_tile || row % kTokens < c.in_place));
    if (c.reuse == OCELLUS_REUSE_MPIC && c.in_place > 0) CHECK(*picture.picks().rbegin() == c.in_place - 1);
    if (c.reuse != OCELLUS_REUSE_MPIC && !blends && c.in_place > 1 && picks < kSlots / 2)
      CHECK(*picture.picks().rbegin() >= picks);
    const auto error_to = [&](const std::vector<double>& expected) {
      return test::relative_error(logits.data(), expected.data(), std::ssize(expected));
    };
    const bool carries = c.reuse == OCELLUS_REUSE_CARRY && c.in_place > 0, alone = c.reuse == OCELLUS_REUSE_FULL;
    const double error = error_to(picture.expected(!in_context, carries, alone));
    const double bound = bound_on(picture.engine(), 1e-3, 1e-2);
    const double plain_error = error_to(picture.expected(false, false, false));
    CHECK(error < bound);
    const bool as_plain = (c.before == kNear && !alone) || picks == kSlots || in_context;
    const double of_one = picture.engine().queue().on_cuda() ? 2 : 5;  // f16 hides one row more
    const double apart = (kSlots - picks > 1 ? 5 : of_one) * error;
    CHECK((as_plain ? plain_error < bound : plain_error > apart));  // else what is linked would not matter
    if (carries && !as_plain) CHECK(error_to(picture.expected(true)) > apart);
    if (alone) continue;
    // Later text sees the image as the cache holds it.
    REQUIRE(session.add_text("Or?", false).ok());
    picture.go_on("Or?");
    const std::vector<float> next = test::first_logits(session);
    const std::vector<double> expected = picture.expected(!in_context, carries);
    CHECK(test::relative_error(next.data(), expected.data(), std::ssize(expected)) < bound);
  }
}

}  // namespace ocellus
