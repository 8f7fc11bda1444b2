// Every buffer of an engine, written once: the planner records what these functions ask for, the engine takes it.
#pragma once

#include "mm/vision_tower.h"
#include "platform/arena.h"
#include "runtime/decode_step.h"
#include "runtime/kv_cache.h"
#include "runtime/model.h"
#include "runtime/prefill.h"
#include "runtime/sampler.h"

namespace ocellus {

/// Upper ends of what limits may ask for: more than any use we can think of, and small enough to keep every product of
/// limits far from overflow.
inline constexpr int32_t kMaxSessions = 512;
inline constexpr int32_t kMaxImages = 65536;  // per session

/// The limits resolved against a model: every count that sizes a buffer.
struct EngineShape {
  int32_t thread_count = 1;
  int32_t sessions = 1;
  int32_t images_per_session = 0;
  int32_t views_per_image = 0;
  int64_t text_tokens_per_session = 0;  // tokens around images included
  int64_t pages_per_session = 0;
  int64_t prompt_rows = 0;  // rows of one prefill chunk
  int64_t text_bytes = 0;   // of one add_text call
  KvShape kv;
  ImageLimits image_limits;
  PreprocessConfig preprocess;

  int64_t runs_per_session() const { return pages_per_session + images_per_session; }
  int64_t slots_per_session() const {
    return pages_per_session * kPageSlots + int64_t{images_per_session} * kv.image_slots;
  }
};

/// kBadArgument names the limit that is out of range; kUnsupported if the model's vision part cannot be planned.
Status resolve_shape(const Model& model, const ocellus_limits& limits, EngineShape* out);

/// Tokens remembered for the repetition penalty.
inline constexpr int64_t kRecentTokens = 64;

/// Rows that live as long as the engine.
struct EngineMemory {
  DeviceView<std::byte> text_weights;  // the tensor section of the file, as it is
  DeviceView<std::byte> vision_weights;
  Tokenizer tokenizer;
  KvPools pools;
  Buffer<SessionCache> caches;        // one per session
  DeviceView<int32_t> recent_tokens;  // [sessions, kRecentTokens] ring
  DeviceView<float> last_hidden;      // [sessions, D] output of the last layer for the newest prompt row
  PromptChunk chunk;
  DeviceView<TokenId> token_ids;  // [1, text tokens] of the text being added
  DeviceView<float> token_times;  // [1, text tokens] ms per generated token, for medians

  Status lay_out(const Model& model, const EngineShape& shape, RowSink& sink);
};

/// Tokenising one text.
struct TextScratch {
  DeviceView<std::byte> workspace;
  Status lay_out(const EngineShape& shape, RowSink& sink);
};

/// From encoded bytes or a frame to rows of the language model.
struct ImageScratch {
  DeviceView<std::byte> picture;  // decoded picture, then what its views need
  VisionScratch vision;
  Status lay_out(const Model& model, const EngineShape& shape, RowSink& sink);
};

/// Decoding one token for every session, and choosing it.
struct GenerateScratch {
  DecodeScratch step;
  SamplerWorkspace sampler;
  Status lay_out(const Model& model, const EngineShape& shape, RowSink& sink);
};

/// The scratch of every phase, for the planner.
Status lay_out_phases(const Model& model, const EngineShape& shape, RowSink& sink);

}  // namespace ocellus
