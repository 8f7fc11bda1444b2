// Sessions that read tokens at random, for tests of caches that text alone fills.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/support/loaded_engine.h"
#include "tests/support/random.h"

namespace ocellus::test {

/// Tokens of the bundled model that are words.
std::vector<TokenId> words(int64_t count, uint64_t seed);

void add(Session& session, const std::vector<TokenId>& tokens);

std::vector<float> score_of(Session& session, const std::vector<TokenId>& tokens, ocellus_generate_stats* stats);

/// A conversation of `tokens` tokens, in prompts and answers of any length.
void fill_with_pieces(Session& session, int64_t tokens, Random& random);

}  // namespace ocellus::test
