// Language models of random weights, read and decoded step by step, against the double-precision reference.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/hash_term.h"
#include "kernels/sampling/sample.h"
#include "tests/support/loaded_engine.h"
#include "tests/support/pairs.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/reference_model.h"

namespace ocellus::test {

inline constexpr uint64_t kSeed = 20;
inline constexpr int64_t kPromptRows = 41;  // no multiple of anything that blocks, pages or panels have
inline constexpr int64_t kDecodeSteps = 6;

inline std::vector<TokenId> random_tokens(int64_t count, uint64_t seed = kSeed) {
  Random random(seed);
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random.integer(0, 255)));
  return tokens;
}

inline TokenId most_likely(const std::vector<float>& logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Over the bits, as generating reports it.
inline uint64_t hash_of(const std::vector<float>& logits) {
  uint64_t sum = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    sum += hash_term(static_cast<uint32_t>(i), std::bit_cast<uint32_t>(logits[i]));
  return sum;
}

struct Case {
  std::string name;
  TextRecipe recipe;
  int32_t chunk_rows = 0;  // max_prompt_rows
  int64_t prompt_rows = kPromptRows;
};

struct Loaded {
  explicit Loaded(const Case& c) : file(c.recipe, kSeed) {
    REQUIRE_MESSAGE(model.open(file.path().c_str(), nullptr).ok(), last_failure().sentence);
    ocellus_limits limits = board_limits(0, static_cast<int32_t>(c.prompt_rows + kDecodeSteps + 1));
    limits.max_prompt_rows = c.chunk_rows;
    engine = make_engine(model, limits);
    session = &open_session(*engine);
  }
  void begin(const std::vector<TokenId>& tokens) const {
    session->reset();
    const Status status = session->add_tokens(tokens.data(), static_cast<int64_t>(tokens.size()));
    REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  }

  TemporaryModel file;
  Model model;
  std::unique_ptr<Engine> engine;
  Session* session = nullptr;
};

/// Reads one token at `position` by a decode step, as generation does, without the session; returns the logits of the
/// next one.
inline std::vector<float> decode(Session& session, TokenId token, int64_t position) {
  Engine& engine = session.engine();
  const ArenaScope scope(engine.arena());
  StepScratch step;
  REQUIRE(engine.take_scratch(&step).ok());
  SessionCache& cache = session.cache();
  Queue& queue = engine.queue();
  REQUIRE(cache.reserve_text(1).ok());
  int32_t first_page = 0;
  const int64_t tiles =
      cache.list_for_steps(TileLimits::of(engine.shape().device), step.runs.all.host.data, &first_page);
  StepRow& row = step.steps.host.data[0];
  row = StepRow();
  row.active = 1;
  row.token = token;
  row.position = static_cast<int32_t>(position);
  row.new_tile = first_page + static_cast<int32_t>(cache.text_slots() / kPageSlots);
  row.new_slot = static_cast<int32_t>(cache.text_slots() % kPageSlots);
  if (step.runs.has_rings()) list_ring(cache.ring(), 0, step);
  queue.upload(step.steps, 1);
  step.runs.upload(1, queue);
  if (queue.on_cuda()) REQUIRE(queue.cuda()->fill(step.attend_scratch.data, 0, step.attend_scratch.cols).ok());
  REQUIRE_MESSAGE(engine.run_forward({1, tiles}, step, nullptr).ok(), last_failure().sentence);
  REQUIRE(sample_step(1, step, queue).ok());
  const std::vector<float> logits = download(step.sampling.logits.slice_rows(0, 1), queue);
  cache.commit_text(1);
  if (cache.shape().local.window > 0) cache.ring().commit_token();
  return logits;
}

/// Trace of a greedy answer: the tokens with the prompt before them, and logits after the prompt and after every step.
struct Run {
  std::vector<TokenId> tokens;
  std::vector<std::vector<float>> logits;
};

inline Run run(const Loaded& loaded, const std::vector<TokenId>& prompt, int64_t steps) {
  loaded.begin(prompt);
  Run out{prompt, {first_logits(*loaded.session)}};
  CHECK(loaded.session->next_position() == static_cast<int64_t>(prompt.size()));
  for (int64_t i = 0; i < steps; ++i) {
    const auto position = static_cast<int64_t>(out.tokens.size());
    out.tokens.push_back(most_likely(out.logits.back()));
    out.logits.push_back(decode(*loaded.session, out.tokens.back(), position));
  }
  return out;
}

/// Relative errors. Which bounds are right depends on what is rounded on the way; see below.
struct Errors {
  double hidden = 0;  // output of the last layer, rows of the last chunk, all together
  double first = 0;   // logits after the prompt
  double decode = 0;  // the worst of the decode steps' logits
};

/// Reads the prompt, then decodes greedily, and compares every step with the reference on the same tokens.
inline Errors measure(const Case& c, const Loaded& loaded) {
  const std::vector<TokenId> prompt = random_tokens(c.prompt_rows);
  const Run got = run(loaded, prompt, kDecodeSteps);
  const ReferenceText reference(loaded.model.text_file());
  const Matrix rows = reference.read(reference.embed(got.tokens));
  const Matrix expected = reference.logits(rows);
  const int64_t chunk_rows = loaded.engine->shape().prompt_rows;
  const int64_t last_rows = (c.prompt_rows - 1) % chunk_rows + 1;
  const DeviceView<float> chunk = loaded.engine->memory().chunk.hidden;
  const std::vector<float> hidden = download({chunk.data, 1, last_rows * rows.cols}, loaded.engine->queue());
  Errors errors;
  errors.hidden = relative_error(hidden.data(), rows.row(c.prompt_rows - last_rows), last_rows * rows.cols);
  errors.first = relative_error(got.logits[0].data(), expected.row(c.prompt_rows - 1), expected.cols);
  for (int64_t i = 1; i <= kDecodeSteps; ++i) {
    const float* logits = got.logits[static_cast<size_t>(i)].data();
    errors.decode = std::max(errors.decode, relative_error(logits, expected.row(c.prompt_rows - 1 + i), expected.cols));
  }
  return errors;
}

/// Checks that generate() is bit-equal to the steps above.
inline void check_generate(const Case& c, const Loaded& loaded) {
  const std::vector<TokenId> prompt = random_tokens(c.prompt_rows);
  const Run stepped = run(loaded, prompt, kDecodeSteps);
  loaded.begin(prompt);
  ocellus_generate_params params = default_params(kDecodeSteps + 1);
  params.ignore_end = 1;
  const Answer answer = answer_of(*loaded.session, params);
  REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
  CHECK(answer.stats.generated_tokens == kDecodeSteps + 1);
  CHECK(answer.stats.logits_hash == hash_of(stepped.logits.back()));
}

/// On CUDA activations are rounded to f16 between the ops, 5e-4 each time.
inline constexpr double kCudaFactor = 20;
inline constexpr double kBlockTileError = 2e-2, kPartsTileError = 1e-3;

/// What products on a CPU with tiles of bf16 differ by from those of other CPUs, which the reference follows: inputs of
/// block formats are not rounded to 127 steps, those of half formats are two parts.
inline double tile_error(const Queue& queue, const TextRecipe& recipe) {
  if (queue.on_cuda() || !takes_pairs(WeightFormat::kQ8_0, 8)) return 0;
  const bool has_blocks = recipe.mixed || !(is_half_format(recipe.format) || recipe.format == WeightFormat::kF32);
  return has_blocks ? kBlockTileError : kPartsTileError;
}

inline void compare(const Case& c, const Errors& bounds) {
  CAPTURE(c.name);
  const Loaded loaded(c);
  const Errors errors = measure(c, loaded);
  const bool on_cuda = loaded.engine->queue().on_cuda();
  const double factor = on_cuda ? kCudaFactor : 1.0, more = tile_error(loaded.engine->queue(), c.recipe);
  INFO("hidden rows " << errors.hidden << ", first logits " << errors.first << ", decoding " << errors.decode);
  CHECK(errors.hidden < factor * bounds.hidden + more);
  CHECK(errors.first < factor * bounds.first + more);
  CHECK(errors.decode < factor * bounds.decode + more);
  check_generate(c, loaded);
}

// Float arithmetic alone gives 1e-7 to 1e-6. Where a key or value lies near the middle of two half floats it may be
// rounded to the other one: one such step is 5e-4 of one channel, and leads to errors of up to 1e-4 in what follows.
inline constexpr Errors kFloatBounds = {3e-4, 3e-4, 3e-4};

// With block formats the inputs of matrices are rounded to 127 steps, and a value that falls on the other side of a
// middle moves by 1/127 of its group's largest. One such move makes others fall, so that after a few layers the runtime
// and the reference have two different roundings of the same thing, each about 1e-2 away from no rounding at all.
inline constexpr Errors kBlockBounds = {2e-2, 3e-2, 4e-2};

}  // namespace ocellus::test
