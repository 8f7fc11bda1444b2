#include "tests/support/text_sessions.h"

#include "runtime/branches/measure/score.h"

namespace ocellus::test {

std::vector<TokenId> words(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random.integer(280, 500)));
  return tokens;
}

void add(Session& session, const std::vector<TokenId>& tokens) {
  REQUIRE_MESSAGE(session.add_tokens(tokens.data(), std::ssize(tokens)).ok(), last_failure().sentence);
}

std::vector<float> score_of(Session& session, const std::vector<TokenId>& tokens, ocellus_generate_stats* stats) {
  std::vector<float> values(tokens.size());
  const Status status = score(session, {tokens.data(), static_cast<int32_t>(tokens.size()), values.data()}, stats);
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  return values;
}

void fill_with_pieces(Session& session, int64_t tokens, Random& random) {
  int64_t left = tokens - 1;
  while (left > 8) {
    const int64_t prompt = std::min<int64_t>(random.integer(0, 3) == 0 ? 128 : random.integer(1, 450), left - 4);
    add(session, words(prompt, 7));
    const int64_t said = std::min<int64_t>(random.integer(1, 40), left - prompt);
    ocellus_generate_stats stats;
    score_of(session, words(said, 8), &stats);
    left -= prompt + said;
  }
  CHECK(session.next_position() <= tokens);
}

}  // namespace ocellus::test
