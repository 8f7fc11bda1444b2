#include "runtime/branches/measure/synthetic_image.h"

#include <algorithm>
#include <array>

#include "quant/weight_format.h"
#include "runtime/branches/all.h"
#include "runtime/engine/check_limits.h"
#include "runtime/engine/engine.h"

namespace ocellus {
namespace {

constexpr int64_t kPatternBytes = 4096;

/// Bytes that decode to values between -1/2 and 1/2: as f16, or as any codes.
std::array<std::byte, kPatternBytes> make_pattern(KvFormat format) {
  std::array<std::byte, kPatternBytes> pattern;
  uint32_t random = 1;
  const auto next = [&random] { return (random = random * 1664525u + 1013904223u) >> 8; };  // Numerical Recipes
  if (is_packed(format)) {
    for (std::byte& code : pattern) code = static_cast<std::byte>(next() & 255);
    return pattern;
  }
  auto* values = reinterpret_cast<Half*>(pattern.data());
  for (int64_t i = 0; i < kPatternBytes / 2; ++i)
    values[i] = float_to_half(static_cast<float>(next() & 0xFFFF) / 65536.0f - 0.5f);
  return pattern;
}

/// Offsets and steps with which codes decode to values between -1/2 and 1/2.
void make_scales(const KvLayer& layer, int32_t head_dim, int64_t count, Half* scales) {
  const Half offset = float_to_half(-0.5f);
  const auto step_of = [](int32_t bits) { return float_to_half(1.0f / static_cast<float>((1 << bits) - 1)); };
  const Half key_step = step_of(key_bits(layer.format)), value_step = step_of(value_bits(layer.format));
  const auto value = [&](int32_t row) {
    return row == kKeyOffsets || row == kValueOffsets ? offset : row == kKeySteps ? key_step : value_step;
  };
  if (layer.scales != KvScaleForm::k6Bit) {
    // By token, what lies after the keys' rows are pairs of both.
    const int32_t rows = layer.scales == KvScaleForm::kByToken ? kValueOffsets : kKvScaleRows;
    for (int64_t i = rows * head_dim; i < count; ++i) scales[i] = i % 2 == 0 ? offset : value_step;
    for (int32_t row = 0; row < rows; ++row) std::fill_n(scales + row * head_dim, head_dim, value(row));
    return;
  }
  // Sets every row's minimum, and levels of width zero: the codes do not matter.
  for (int32_t row = 0; row < kKvScaleRows; ++row) scales[2 * row] = value(row);
}

/// Repeats the first `done` bytes until there are `bytes`.
void repeat(std::byte* data, int64_t done, int64_t bytes, Queue& queue) {
  for (; done < bytes; done *= 2) queue.copy(data + done, data, std::min(done, bytes - done));
}

/// Fills every head of a layer, whose memory is contiguous. Waits, because the pattern is on the stack.
Status fill_layer(const KvShape& shape, const KvLayer& layer, const KvRun& run, Queue& queue) {
  const auto pattern = make_pattern(layer.format);
  std::array<Half, int64_t{kKvScaleRows}* kMaxHeadDim> scales = {};
  const KvBlockLayout layout = shape.block_layout(layer.index);
  const int64_t codes = layout.padded_bytes - layout.keys;
  std::byte* data = run.data + layer.offset;
  queue.copy(data + layout.keys, pattern.data(), std::min(kPatternBytes, codes));
  repeat(data + layout.keys, kPatternBytes, codes, queue);
  if (is_packed(layer.format)) {
    make_scales(layer, shape.head_dim, layout.keys / 2, scales.data());
    queue.copy(data, scales.data(), layout.keys);
  }
  repeat(data, layout.padded_bytes, layout.padded_bytes * shape.kv_heads, queue);
  return queue.finish();
}

Status fill_block(const KvShape& shape, const KvRun& run, Queue& queue) {
  for (int32_t layer = 0; layer < shape.layer_count; ++layer)
    OCELLUS_TRY(fill_layer(shape, shape.layer(layer), run, queue));
  return {};
}

/// Fills all blocks of a reserved image. Waits for the queue.
Status fill_synthetic_image(const SessionCache& cache, int32_t ordinal, Queue& queue) {
  for (int32_t b = 0; b < cache.blocks_per_image(); ++b)
    OCELLUS_TRY(fill_block(cache.shape(), cache.image_block(ordinal, b), queue));
  return {};
}

Status check(const ocellus_limits& limits) {
  OCELLUS_TRY(check_range("the synthetic tokens", limits.synthetic_tokens, 0, kMaxTextTokens));
  if (limits.synthetic_tokens == 0 || (limits.max_images <= 0 && limits.max_clip_frames <= 0)) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "synthetic tokens replace images: plan no images with them");
}

Status resolve(const ocellus_limits& limits, EngineShape* shape) {
  shape->session.images = limits.synthetic_tokens > 0 ? 1 : 0;
  return {};
}

/// Sizes one image with random slots: those that stay, in blocks of its own.
Status size(const TextConfig&, EngineShape* s) {
  const CachePolicy& policy = s->policy;
  const int64_t tokens = s->limits.synthetic_tokens;
  if (tokens == 0) return {};
  KvShape& kv = s->kv;
  kv.image_slots = static_cast<int32_t>(
      policy.lists_rows() ? policy.survivors({.rows = tokens, .visual_rows = tokens}).slots() : tokens);
  kv.block_slots = policy.slots_of_block(kv.image_slots, kv.image_slots);
  s->session.blocks = kv.blocks_per_image();
  return {};
}

}  // namespace

const Branch kMeasureBranch = {
    .facts = {.name = "measure", .is_built = 1}, .check = check, .resolve = resolve, .size = size};

Status add_synthetic_image(Session& session) {
  const TraceRange range(session.engine().trace(), "add image");
  const EngineShape& shape = session.engine().shape();
  const int32_t tokens = shape.limits.synthetic_tokens;
  if (tokens == 0) return OCELLUS_FAIL(Code::kFull, "no synthetic tokens were planned: plan some");
  OCELLUS_TRY(session.prompt().start());
  OCELLUS_TRY(session.prompt().read());
  OCELLUS_TRY(session.room().check({.images = 1, .positions = tokens}, {}));
  int32_t ordinal = 0;
  OCELLUS_TRY(session.cache().reserve_image(&ordinal));
  const Status status = fill_synthetic_image(session.cache(), ordinal, session.engine().queue());
  if (!status.ok()) {
    session.engine().queue().clear();
    session.cache().drop_uncommitted();
    return status;
  }
  ConversationState& state = session.conversation().state();
  session.cache().note_image_position(ordinal, state.next_position);
  session.cache().commit_image(ordinal, shape.kv.image_slots, tokens);
  state.next_position += tokens;
  state.row_count += tokens;
  state.is_answerable = false;
  session.engine().note_cache_use();
  return {};
}

}  // namespace ocellus
