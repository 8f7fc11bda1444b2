// Rows to sample in one call, with guards around everything it writes.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/base/hash_term.h"
#include "kernels/sampling/sample.h"
#include "tests/support/device.h"

namespace ocellus::test {

/// Every row starts active, greedy, at step 0.
struct SampleBatch {
  SampleBatch(Queue& queue_, int64_t rows_, int64_t vocabulary_, int64_t gap = 0)
      : queue(queue_),
        rows(rows_),
        vocabulary(vocabulary_),
        logits(rows, vocabulary, vocabulary + gap),
        steps(1, rows),
        results(kResultSteps, rows, rows + gap),
        forced(kResultSteps, rows, rows + 2 * gap),
        masks(rows, divide_up(vocabulary, kMaskTokens), divide_up(vocabulary, kMaskTokens) + gap),
        tops(kResultSteps, rows, rows + gap),
        notes(1, rows),
        scratch(1, sample_scratch_bytes(rows, vocabulary, queue.traits())) {
    for (int64_t b = 0; b < rows; ++b) {
      step(b) = StepRow();
      step(b).active = 1;
    }
  }
  StepRow& step(int64_t b) { return steps.at(0, b); }
  TopTokens& top(int64_t step, int64_t b) { return tops.at(step % kResultSteps, b); }
  StepResult& result(int64_t step, int64_t b) { return results.at(step % kResultSteps, b); }
  /// The row reads `token` after its step `step`.
  void force(int64_t b, int64_t at_step, int32_t token) {
    step(b).forced = 1;
    forced.at(at_step % kResultSteps, b) = token;
  }
  /// Only tokens for which `allows` is true; bits beyond the vocabulary are set.
  template <class Allows>
  void mask(int64_t b, Allows allows) {
    step(b).masked = 1;
    const int64_t words = divide_up(vocabulary, kMaskTokens);
    for (int64_t w = 0; w < words; ++w) {
      uint32_t bits = 0;
      for (int64_t k = 0; k < kMaskTokens; ++k) {
        const int64_t token = w * kMaskTokens + k;
        if (token >= vocabulary || allows(token)) bits |= uint32_t{1} << k;
      }
      masks.at(b, w) = bits;
    }
  }
  void set_logits(int64_t b, const std::vector<float>& values) {
    std::copy(values.begin(), values.end(), &logits.at(b, 0));
  }
  std::vector<float> get_logits(int64_t b) { return {&logits.at(b, 0), &logits.at(b, 0) + vocabulary}; }
  SampleTokensArgs args() {
    return {.logits = logits.view(),
            .steps = steps.data(),
            .tiles = tiles.empty() ? nullptr : tiles.data(),
            .tiles_per_row = static_cast<int64_t>(tiles.size()) / rows,
            .results = results.data(),
            .result_stride = results.view().stride,
            .forced = forced.data(),
            .forced_stride = forced.view().stride,
            .masks = masks.data(),
            .mask_stride = masks.view().stride,
            .notes = notes.data(),
            .scratch = scratch.view()};
  }
  TopTokensArgs top_args() {
    return {.logits = logits.view(),
            .steps = steps.data(),
            .tops = tops.data(),
            .top_stride = tops.view().stride,
            .notes = notes.data()};
  }
  void run() {
    list_top_tokens(top_args(), queue);
    sample_tokens(args(), queue);
    REQUIRE(queue.finish().ok());
    REQUIRE(logits.intact());
    REQUIRE(steps.intact());
    REQUIRE(results.intact());
    REQUIRE(forced.intact());
    REQUIRE(masks.intact());
    REQUIRE(tops.intact());
    REQUIRE(notes.intact());
    REQUIRE(scratch.intact());
  }

  Queue& queue;
  int64_t rows, vocabulary;
  Guarded<float> logits;
  Guarded<StepRow> steps;
  Vector<KvRun> tiles;  // none: rows keep their places
  Guarded<StepResult> results;
  Guarded<int32_t> forced;
  Guarded<uint32_t> masks;
  Guarded<TopTokens> tops;
  Guarded<LogitNotes> notes;
  Guarded<std::byte> scratch;
};

inline uint64_t hash_of(const std::vector<float>& logits) {
  uint64_t hash = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &logits[i], sizeof bits);
    hash += hash_term(static_cast<uint32_t>(i), bits);
  }
  return hash;
}

inline void remember(StepRow& row, const std::vector<int32_t>& tokens) {
  for (const int32_t token : tokens) row.recent.push(token);
}

}  // namespace ocellus::test
