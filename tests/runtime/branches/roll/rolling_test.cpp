// Rolling contexts: what stays and what goes, against a reference that attends to exactly that; and conversations far
// beyond the model's context.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/rows/gather_rows.h"
#include "runtime/branches/roll/roll.h"
#include "tests/support/cache_texts.h"
#include "tests/support/packed_sessions.h"
#include "tests/support/pictures.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/reference_model.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_of;
using test::default_params;
using test::Matrix;
using test::ReferenceText;

constexpr int32_t kContext = 160;

/// A random language model of one layer or more, and a small vision tower: a picture is 4 rows and some text.
struct Pair {
  explicit Pair(int layers, int context_length = kContext, const char* architecture = "llama")
      : text(test::TextRecipe{.architecture = architecture,
                              .layers = layers,
                              .kv_heads = 2,
                              .head_dim = 32,
                              .context_length = context_length},
             5),
        vision(test::VisionRecipe{}, 6) {
    const Status status = model.open(text.path().c_str(), vision.path().c_str());
    REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  }
  test::TemporaryModel text, vision;
  Model model;
};

struct SmallPicture {
  explicit SmallPicture(uint64_t seed) : pixels(static_cast<size_t>(32 * 32 * 3)) {
    test::Random random(seed);
    for (uint8_t& value : pixels) value = static_cast<uint8_t>(random.bits());
  }
  Frame frame() const {
    Frame frame;
    frame.width = frame.height = 32;
    frame.planes[0] = pixels.data();
    frame.stride_bytes[0] = int64_t{3} * 32;
    return frame;
  }
  std::vector<uint8_t> pixels;
};

/// A row of a conversation: a token, or a row of a picture.
struct Row {
  TokenId token = kSkippedRow;
  std::vector<float> hidden = {};
  int64_t image = -1;  // number of the picture
};

/// A session and what it should hold of what it was told. With one layer a row's keys and values depend on nothing but
/// the row and its position, so that a reference over the rows that are left gives the logits.
class Talk {
 public:
  Talk(const Pair& pair, ocellus_limits limits) : reference_(pair.model.text_file()) {
    limits.max_sessions = 2;
    limits.max_encode_views = 1;  // so that the rows can be looked at
    engine_ = test::make_engine(pair.model, limits);
    session_ = &test::open_session(*engine_);
    probe_ = &test::open_session(*engine_);
  }

  Session& session() { return *session_; }
  Engine& engine() { return *engine_; }
  int64_t row_count() const { return static_cast<int64_t>(rows_.size()); }
  int64_t released() const { return released_; }

  void set_rolling(int32_t images, int32_t sink_pages) {
    REQUIRE_MESSAGE(ocellus::set_rolling(*session_, images, sink_pages * kPageSlots).ok(), last_failure().sentence);
    sink_pages_ = sink_pages;
  }

  Status add_text(test::Random& random, int64_t count) {
    std::vector<TokenId> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random.integer(0, 255)));
    OCELLUS_TRY(session_->add_tokens(tokens.data(), count));
    for (const TokenId token : tokens) push(Row{.token = token});
    remembered_ += count;
    settle();
    return {};
  }

  Status add_picture(uint64_t seed) {
    const std::vector<Row> picture = rows_of(seed);
    OCELLUS_TRY(session_->add_frame(SmallPicture(seed).frame()));
    for (const Row& row : picture) push(row);
    ++pictures_;
    settle();
    return {};
  }

  /// Reads what waits, and compares the logits after it with the reference's.
  double error() {
    const std::vector<float> got = test::first_logits(*session_);
    settle();
    set_mark();
    const Matrix expected = reference_logits(row_count());
    return test::relative_error(got.data(), expected.row(expected.rows - 1), expected.cols);
  }

  /// Greedy; whether every token that is clear is the reference's.
  void check_answer(int32_t count) {
    ocellus_generate_params params = default_params(count);
    params.ignore_end = 1;
    const Answer answer = answer_of(*session_, params);
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    const int32_t* ring = engine_->memory().recent_tokens.row(session_->index());
    const int64_t before = row_count();
    for (int32_t i = 0; i < answer.stats.generated_tokens; ++i) push(Row{.token = ring[remembered_++ % kRecentTokens]});
    unread_ = answer.stats.generated_tokens > 0 ? 1 : 0;
    settle();
    set_mark();
    // The first token was chosen when the prompt was read, perhaps before something was released.
    for (int64_t i = before + 1; i < row_count(); ++i) {
      const Matrix logits = reference_logits(i);
      const double* last = logits.row(logits.rows - 1);
      const double best = *std::max_element(last, last + logits.cols);
      CHECK(last[rows_[static_cast<size_t>(i)].token] > best - 0.05);
    }
  }

  /// Text added since the last answer is not read, and dropped.
  void cancel() {
    session_->stop_signal().cancel();
    CHECK(answer_of(*session_, default_params(1)).status.code() == Code::kCancelled);
    rows_.resize(static_cast<size_t>(mark_));
    text_.erase(std::find_if(text_.begin(), text_.end(), [&](int64_t row) { return row >= mark_; }), text_.end());
    pictures_ = 0;
    for (const Row& row : rows_) pictures_ = std::max(pictures_, row.image + 1);
    remembered_ = mark_remembered_;
    unread_ = mark_unread_;
    // A generated token that the dropped prompt read waits again, though its page may be released.
    if (unread_ > 0 && (text_.empty() || text_.back() != mark_ - 1)) text_.push_back(mark_ - 1);
    settle();
  }

  /// No two positions lie farther apart than the model can tell.
  void check_span() const {
    int64_t oldest = row_count();
    for (const auto& [row, position] : live(row_count())) oldest = std::min(oldest, position);
    CHECK(row_count() - oldest <= kContext);
  }

 private:
  std::vector<Row> rows_of(uint64_t seed) {
    probe_->reset();
    const TokenId first = 1;
    REQUIRE(probe_->add_tokens(&first, 1).ok());
    REQUIRE_MESSAGE(probe_->add_frame(SmallPicture(seed).frame()).ok(), last_failure().sentence);
    const PromptChunk& chunk = engine_->memory().chunk;
    std::vector<Row> rows;
    // The token before it may have been read to make place.
    for (int64_t i = probe_->next_position() > 0 ? 0 : 1; i < chunk.row_count; ++i) {
      rows.push_back(Row{.token = chunk.token_ids.host.data[i]});
      if (rows.back().token != kSkippedRow) continue;
      rows.back().image = pictures_;
      rows.back().hidden = test::download<float>(chunk.hidden.row(i), chunk.hidden.cols, engine_->queue());
    }
    probe_->reset();
    return rows;
  }

  void push(const Row& row) {
    if (row.image < 0) text_.push_back(row_count());
    rows_.push_back(row);
  }

  /// Text is released by the page, after the sinks.
  void settle() {
    const PromptChunk& chunk = engine_->memory().chunk;
    const bool ours = session_->prompt().holds_chunk();
    const int64_t held = session_->cache().text_slots() + (ours ? chunk.text_count : 0);
    const int64_t unread = session_->cache().rows() + (ours ? chunk.row_count : 0) == 0 ? 0 : unread_rows();
    const int64_t gone = static_cast<int64_t>(text_.size()) - unread - held;
    REQUIRE(gone >= 0);
    REQUIRE(gone % kPageSlots == 0);
    if (gone > 0) {
      const auto first = text_.begin() + int64_t{sink_pages_} * kPageSlots;
      text_.erase(first, first + gone);
    }
    released_ += gone;
  }
  /// A generated token that nothing has read yet.
  int64_t unread_rows() {
    const bool ours = session_->prompt().holds_chunk();
    const int64_t waiting = ours ? engine_->memory().chunk.row_count : 0;
    if (session_->next_position() + waiting == row_count()) unread_ = 0;
    return unread_;
  }
  void set_mark() {
    mark_ = row_count();
    mark_remembered_ = remembered_;
    mark_unread_ = unread_;
  }

  /// The rows before `end` that are left, by their numbers, and where they stand.
  std::map<int64_t, int64_t> live(int64_t end) const {
    std::map<int64_t, int64_t> rows;
    for (size_t i = 0; i < text_.size() && text_[i] < end; ++i) {
      int32_t slot = 0, shift = 0;
      if (static_cast<int64_t>(i) < session_->cache().text_slots())
        shift = session_->cache().text_place(static_cast<int64_t>(i), &slot).position_shift;
      rows[text_[i]] = text_[i] + shift;
    }
    const int64_t oldest_image = pictures_ - session_->cache().image_count();
    for (int64_t i = 0; i < end; ++i)
      if (rows_[static_cast<size_t>(i)].image >= oldest_image) rows[i] = i;
    return rows;
  }

  Matrix reference_logits(int64_t end) const {
    Matrix rows;
    std::vector<int64_t> positions;
    for (const auto& [number, position] : live(end)) {
      const Row& row = rows_[static_cast<size_t>(number)];
      const Matrix one = row.image < 0 ? reference_.embed({row.token}) : Matrix();
      rows.values.insert(rows.values.end(), one.values.begin(), one.values.end());
      rows.values.insert(rows.values.end(), row.hidden.begin(), row.hidden.end());
      positions.push_back(position);
    }
    rows.rows = static_cast<int64_t>(positions.size());
    rows.cols = static_cast<int64_t>(rows.values.size()) / rows.rows;
    return reference_.logits(reference_.read(rows, positions));
  }

  ReferenceText reference_;
  std::unique_ptr<Engine> engine_;
  Session* session_ = nullptr;
  Session* probe_ = nullptr;
  std::vector<Row> rows_;
  std::vector<int64_t> text_;  // numbers of the text rows that are left
  int64_t pictures_ = 0, released_ = 0, remembered_ = 0, unread_ = 0;
  int64_t mark_ = 0, mark_remembered_ = 0, mark_unread_ = 0;
  int32_t sink_pages_ = 0;
};

/// The bundled text model with another context length written into its file.
test::GgufBuilder shortened_model(uint32_t context_length) {
  GgufFile file;
  REQUIRE_MESSAGE(file.open(test::bundled_pair().model.c_str()).ok(), last_failure().sentence);
  test::GgufBuilder builder(file);
  builder.remove("llama.context_length");
  builder.add_u32("llama.context_length", context_length);
  return builder;
}

bool failure_says(const std::string& words) {
  return std::string(last_failure().sentence).find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("what a rolling context cannot be is refused") {
  const std::unique_ptr<Engine> engine = test::make_engine(test::board_limits(4, 100));
  Session& session = test::open_session(*engine);
  CHECK(set_rolling(session, 4, 64).ok());
  CHECK(set_rolling(session, 0, 0).ok());
  CHECK(set_rolling(session, 5, 0).code() == Code::kBadArgument);
  CHECK(failure_says("can keep 1 to 4 images here, not 5"));
  CHECK(set_rolling(session, -1, 0).code() == Code::kBadArgument);
  CHECK(set_rolling(session, 2, -1).code() == Code::kBadArgument);
  CHECK(set_rolling(session, 2, 65).code() == Code::kBadArgument);
  CHECK(failure_says("0 to 64 tokens"));
  const std::unique_ptr<Engine> narrow = test::make_engine(test::board_limits(1, 40));
  CHECK(set_rolling(test::open_session(*narrow), 1, 33).code() == Code::kBadArgument);
  CHECK(failure_says("leave no room"));
  CHECK(set_rolling(test::open_session(*test::make_engine(test::evicting_limits(2, 100, "h2o", 0.5f))), 1, 0).code() ==
        Code::kBadArgument);
  CHECK(
      failure_says("h2o (evict) drops tokens of later answers, which stand among those of the oldest prompt that a "
                   "rolling context releases together: plan another eviction method"));
  ocellus_limits limits = test::board_limits(2, 100);
  limits.reuse = OCELLUS_REUSE_PREFIX;
  CHECK(set_rolling(test::open_session(*test::make_engine(limits)), 1, 0).code() == Code::kBadArgument);
  CHECK(failure_says("prefix caching"));
}

TEST_CASE("what is left answers as if nothing else had ever been there" * doctest::test_suite("long")) {
  const Pair pair(1);
  for (const int32_t sink_pages : {0, 1, 2}) {
    for (const int32_t chunk_rows : {0, 1}) {
      CAPTURE(sink_pages);
      CAPTURE(chunk_rows);
      ocellus_limits limits = test::board_limits(3, 80);
      limits.max_prompt_rows = chunk_rows;
      Talk talk(pair, limits);
      talk.set_rolling(2, sink_pages);
      test::Random random(static_cast<uint64_t>(sink_pages + 1));
      double worst = 0;
      for (int turn = 0; turn < 60; ++turn) {
        CAPTURE(turn);
        for (int64_t piece = random.integer(1, 3); piece > 0; --piece) {
          const Status status = random.integer(0, 1) == 0 ? talk.add_picture(static_cast<uint64_t>(turn))
                                                          : talk.add_text(random, random.integer(1, 14));
          REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
        }
        worst = std::max(worst, talk.error());
        if (turn % 3 == 0) talk.check_answer(static_cast<int32_t>(random.integer(2, 6)));
        talk.check_span();
        CHECK(talk.session().cache().image_count() <= 2);
      }
      MESSAGE(talk.row_count() << " rows, " << talk.released() << " of text released, worst error " << worst);
      CHECK(talk.row_count() > 3 * kContext);
      CHECK(talk.released() > 100);
      CHECK(worst < (talk.engine().queue().on_cuda() ? 2e-2 : 2e-3));
    }
  }
}

TEST_CASE("the same when prompts are cancelled and the rules change on the way" * doctest::test_suite("long")) {
  const Pair pair(1);
  for (const uint64_t seed : {1, 2, 3, 4}) {
    CAPTURE(seed);
    ocellus_limits limits = test::board_limits(3, 96);
    limits.max_prompt_rows = seed % 2 == 0 ? 1 : 0;
    Talk talk(pair, limits);
    const test::FreeBlocks all(talk.engine());
    talk.set_rolling(2, 1);
    test::Random random(seed);
    double worst = 0;
    for (int turn = 0; turn < 80; ++turn) {
      CAPTURE(turn);
      if (turn % 7 == 6)
        talk.set_rolling(static_cast<int32_t>(random.integer(1, 3)), static_cast<int32_t>(random.integer(0, 3)));
      for (int64_t piece = random.integer(1, 6); piece > 0; --piece) {
        const Status status = random.integer(0, 1) == 0 ? talk.add_picture(static_cast<uint64_t>(turn))
                                                        : talk.add_text(random, random.integer(1, 20));
        REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
      }
      if (random.integer(0, 2) == 0) {
        talk.cancel();
        REQUIRE(talk.add_text(random, 1).ok());
      }
      worst = std::max(worst, talk.error());
      if (random.integer(0, 2) == 0) talk.check_answer(static_cast<int32_t>(random.integer(2, 6)));
      talk.check_span();
    }
    MESSAGE(talk.row_count() << " rows, " << talk.released() << " of text released, worst error " << worst);
    CHECK(worst < (talk.engine().queue().on_cuda() ? 2e-2 : 2e-3));
    talk.session().reset();
    CHECK(test::FreeBlocks(talk.engine()) == all);
  }
}

TEST_CASE("a prompt so long that it pushed out its own beginning can be forgotten") {
  const Pair llama(1), qwen3(1, kContext, "qwen3");
  for (const int64_t first : {1, 10, 20, 30, 40}) {
    CAPTURE(first);
    Talk talk(first % 20 == 0 ? qwen3 : llama, test::board_limits(3, 80));
    talk.set_rolling(1, 2);
    test::Random random(7);
    REQUIRE(talk.add_text(random, first).ok());
    CHECK(talk.error() < 2e-2);
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 9; ++i) {
        REQUIRE(talk.add_picture(1).ok());
        REQUIRE_MESSAGE(talk.add_text(random, 14).ok(), last_failure().sentence);
      }
      talk.cancel();
      CHECK(talk.session().cache().text_slots() <= talk.row_count());
      for (int i = 0; i < 4; ++i) {
        REQUIRE(talk.add_text(random, 3).ok());
        REQUIRE(talk.add_picture(2).ok());
        CHECK(talk.error() < (talk.engine().queue().on_cuda() ? 2e-2 : 2e-3));
        talk.check_span();
      }
      talk.check_answer(3);
    }
  }
}

TEST_CASE("nothing is released for what can never fit, and no question for its answer") {
  const Pair pair(1, 1000);
  Talk talk(pair, test::board_limits(2, 96));
  talk.set_rolling(2, 1);
  test::Random random(9);
  REQUIRE(talk.add_picture(1).ok());
  for (int i = 0; i < 8; ++i) REQUIRE(talk.add_text(random, 12).ok());
  CHECK(talk.error() < 2e-2);
  const test::FreeBlocks before(talk.engine());
  const int64_t text = talk.session().cache().text_slots();
  CHECK(talk.add_text(random, 95).code() == Code::kFull);
  CHECK(failure_says("plan more text tokens"));
  CHECK(test::FreeBlocks(talk.engine()) == before);
  CHECK(talk.session().cache().text_slots() == text);
  CHECK(talk.session().cache().image_count() == 1);
  // An answer of any length: at most half of the planned text is released, and the answer can be continued.
  REQUIRE(talk.add_picture(2).ok());
  REQUIRE(talk.add_text(random, 40).ok());
  ocellus_generate_params params = default_params(1 << 20);
  params.ignore_end = 1;
  const Answer answer = answer_of(talk.session(), params);
  CHECK(answer.status.ok());
  CHECK(answer.stats.stop == OCELLUS_STOP_FULL);
  CHECK(answer.stats.generated_tokens >= 30);
  CHECK(talk.session().cache().image_count() == 2);
  CHECK(answer_of(talk.session(), params).stats.generated_tokens >= 30);
}

TEST_CASE("hundreds of turns take no more pages and blocks than the first ones" * doctest::test_suite("long")) {
  const Pair pair(2, 400);
  struct Policy {
    std::string_view method;
    float keep;
    int32_t bits;
  };
  for (const Policy& p :
       {Policy{"none", 1, 16}, Policy{"none", 1, 2}, Policy{"snapkv", 0.5f, 16}, Policy{"david", 0.5f, 4}}) {
    CAPTURE(p.bits);
    ocellus_limits limits = test::evicting_limits(4, 100, p.method, p.keep, p.bits, OCELLUS_COMPRESS_IMAGE_END);
    test::add_option(limits.cache.kv_scheme, "tau-low=0");
    const std::unique_ptr<Engine> engine = test::make_engine(pair.model, limits);
    const test::FreeBlocks all(*engine);
    Session& session = test::open_session(*engine);
    REQUIRE(set_rolling(session, 4, 16).ok());
    const SmallPicture picture(3);
    int64_t most = 0, most_early = 0;
    for (int turn = 0; turn < 300; ++turn) {
      REQUIRE(session.begin_turn().ok());
      REQUIRE_MESSAGE(session.add_frame(picture.frame()).ok(), last_failure().sentence);
      REQUIRE_MESSAGE(session.add_text("what is it", false).ok(), last_failure().sentence);
      REQUIRE(session.end_turn().ok());
      const Answer answer = answer_of(session, default_params(4));
      REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
      CHECK(answer.stats.kv_bytes + answer.stats.kv_waste_bytes == engine->memory().pools.used_bytes());
      CHECK(answer.stats.image_count == std::min(turn + 1, 4));
      most = std::max(most, engine->memory().pools.used_bytes());
      if (turn < 40) most_early = most;
    }
    CHECK(most == most_early);
    CHECK(session.next_position() > 10 * 400);
    session.close();
    CHECK(test::FreeBlocks(*engine) == all);
  }
}

TEST_CASE("after a hundred turns the newest picture is answered as well as after four" * doctest::test_suite("long")) {
  const test::TemporaryFile file(shortened_model(700));
  Model model;
  REQUIRE_MESSAGE(model.open(file.c_str(), test::bundled_pair().mmproj.c_str()).ok(), last_failure().sentence);
  constexpr int kQuestions = 7;  // questions about one picture
  const auto question_of = [](int turn) -> const test::Golden& { return test::golden(turn * 5 % kQuestions); };
  // The small model is often wrong about the newest of several pictures, and less often about the only one.
  struct Rolling {
    int32_t bits, images;
    int turns;
  };
  for (const Rolling& r : {Rolling{16, 4, 100}, Rolling{4, 1, 72}}) {
    const std::unique_ptr<Engine> engine = test::make_engine(model, test::packed_limits(4, 200, r.bits));
    Session& session = test::open_session(*engine);
    const auto is_right = [&](int turn) {
      test::add_question(session, question_of(turn));
      const Answer answer = answer_of(session, default_params(32));
      REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
      const std::string& expected = question_of(turn).text;
      return answer.text.size() == expected.size() + 1 && answer.text.ends_with(expected);
    };
    int right_before = 0, right = 0, right_at_end = 0;
    for (int last = 0; last < kQuestions; ++last) {
      session.reset();
      for (int turn = last; turn < last + r.images - 1; ++turn) (void)is_right(turn);
      right_before += is_right(last + r.images - 1);
    }
    session.reset();
    REQUIRE(set_rolling(session, r.images, 16).ok());
    for (int turn = 0; turn < r.turns; ++turn) {
      const bool good = is_right(turn);
      right += good;
      right_at_end += good && turn >= r.turns - 2 * kQuestions;
      CHECK(session.cache().image_count() <= r.images);
    }
    MESSAGE(r.bits << " bits, " << r.images << " images: " << right << " of " << r.turns << " right, " << right_at_end
                   << " of the last " << 2 * kQuestions << "; of conversations of as many images " << right_before
                   << " of " << kQuestions << "; last position " << session.next_position());
    CHECK(right * kQuestions >= right_before * r.turns * 3 / 4);
    CHECK(right_at_end * kQuestions >= right_before * 2 * kQuestions * 3 / 4);
    CHECK(session.next_position() > 6 * 700);
  }
}

}  // namespace ocellus
