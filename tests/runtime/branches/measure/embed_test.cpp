// Embeddings of prompts and pictures, and what sessions are like after them.
#include "runtime/branches/measure/embed.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "runtime/engine/picture_source.h"
#include "tests/support/cache_texts.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::answer_of;
using test::board_limits;
using test::make_engine;
using test::open_session;

std::vector<float> read_embedding(Session& session, Status (*embed)(Session&, Embedding*)) {
  std::vector<float> values(8192);
  Embedding out{values.data(), static_cast<int32_t>(values.size())};
  REQUIRE_MESSAGE(embed(session, &out).ok(), last_failure().sentence);
  values.resize(static_cast<size_t>(out.width));
  return values;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

}  // namespace

TEST_CASE("every family embeds a prompt as a vector of length 1, which its text alone decides") {
  test::for_each_tiny_family([](const Model& model) {
    const auto engine = make_engine(model, test::family_limits());
    Session& session = open_session(*engine);
    const auto embed = [&](const char* text) {
      session.reset();
      test::add_words(session, text);
      return read_embedding(session, embed_prompt);
    };
    const std::vector<float> first = embed("Look at this"), other = embed("and say what it is");
    CHECK(first.size() == static_cast<size_t>(model.text().width));
    CHECK(cosine(first, first) == doctest::Approx(1.0));
    CHECK(cosine(first, other) < 0.9999);
    CHECK(embed("Look at this") == first);
    const auto fresh = make_engine(model, test::family_limits());
    Session& alone = open_session(*fresh);
    test::add_words(alone, "Look at this");
    CHECK(read_embedding(alone, embed_prompt) == first);
  });
}

TEST_CASE("every family embeds a picture as the mean of its rows, and forgets it") {
  test::for_each_tiny_family([](const Model& model) {
    for (const ocellus_reuse reuse : {OCELLUS_REUSE_NONE, OCELLUS_REUSE_MPIC}) {
      const auto engine = make_engine(model, test::linking_limits(reuse, reuse == OCELLUS_REUSE_NONE ? 0 : 2));
      Session& session = open_session(*engine);
      const Frame picture = test::wide_picture().frame();
      std::vector<float> values(8192), again(8192);
      Embedding out{values.data(), 8192}, next{again.data(), 8192};
      const Picture shown{.frame = &picture, .width = picture.width, .height = picture.height};
      REQUIRE_MESSAGE(embed_picture(session, shown, &out).ok(), last_failure().sentence);
      CHECK(out.width >= model.text().width);
      double square = 0;
      for (int32_t i = 0; i < out.width; ++i) square += double{values[i]} * double{values[i]};
      CHECK(square == doctest::Approx(1.0));
      CHECK(session.next_position() == 0);
      REQUIRE(embed_picture(session, shown, &next).ok());
      CHECK(values == again);
      test::add_picture(session, test::wide_picture());
      test::add_words(session, "and say what it is");
      CHECK(answer_of(session).status.ok());
    }
  });
}

TEST_CASE("an embedding counts its tokens, and what comes next goes on after them") {
  const auto engine = test::make_bundled_engine(board_limits(0, 100));
  Session& session = open_session(*engine);
  REQUIRE(session.add_text("A large green star", false).ok());
  const std::vector<float> first = read_embedding(session, embed_prompt);
  const int64_t read = session.conversation().state().row_count;
  CHECK(read == session.next_position());
  float value = 0;
  Embedding none{&value, 1};
  CHECK(embed_prompt(session, &none).code() == Code::kBadArgument);  // no room
  CHECK(none.width == static_cast<int32_t>(first.size()));
  std::vector<float> values(first.size());
  Embedding nothing{values.data(), static_cast<int32_t>(values.size())};
  CHECK(embed_prompt(session, &nothing).code() == Code::kBadArgument);  // nothing was added
  REQUIRE(session.add_text(" at the left", false).ok());
  const test::Answer answer = answer_of(session, test::default_params(4));
  CHECK(answer.status.ok());
  // The newest token has not been read yet.
  CHECK(answer.stats.prompt_tokens > read);  // since the last generate
  CHECK(session.conversation().state().row_count == answer.stats.prompt_tokens + 3);
}

}  // namespace ocellus
