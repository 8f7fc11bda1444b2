// Threads that use an image library, and models, without any engine.
#pragma once

#include <string>
#include <vector>

#include "runtime/ocellus.hpp"
#include "tests/stress/race_tally.h"

namespace ocellus::test {

/// Lists, describes, relabels, removes and checks entries of several owners until a time.
void keep_library(const Library& library, uint64_t seed, Clock::time_point end, Tally* tally);

/// Asks models for tokens, plans and sizes, opens shapes, decodes pictures and makes mistakes until a time.
void question_models(const std::vector<const Model*>& models, uint64_t seed, Clock::time_point end, Tally* tally);

}  // namespace ocellus::test
