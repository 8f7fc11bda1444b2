// All buffers of an engine, described once: the planner records the rows of these functions, the engine takes them.
#pragma once

#include "mm/pictures/image_decode.h"
#include "mm/tower/vision_tower.h"
#include "mm/tower/waiting_views.h"
#include "platform/arena.h"
#include "runtime/cache/kv_cache.h"
#include "runtime/forward/decode_step.h"
#include "runtime/forward/prefill.h"
#include "runtime/forward/sampler.h"
#include "runtime/library/library_traffic.h"
#include "runtime/models/model.h"

namespace ocellus {

/// Maximums of limits: beyond any realistic use, and small enough to keep every product of limits far from overflow.
inline constexpr int32_t kMaxSessions = 512;
inline constexpr int32_t kMaxImages = 65536;  // per session

/// Rows of a linked image that are computed in place.
enum class PickRule : uint8_t { kFirst, kSpread, kFirstOfTiles, kMostChanged };

/// The limits resolved against a model: every count that sizes a buffer.
struct EngineShape {
  DeviceTraits device;
  int32_t device_index = 0;
  int32_t sessions = 1;
  int32_t images_per_session = 0;  // frames of clips included
  int32_t clip_frames = 0;         // frames of a session's clips
  int32_t synthetic_tokens = 0;    // tokens of the one made-up image of a session; no other images then
  int32_t views_per_image = 0;
  int32_t view_batch = 1;               // views encoded together
  int64_t text_tokens_per_session = 0;  // tokens around images included
  int64_t pages_per_session = 0;
  int64_t blocks_per_session = 0;
  int64_t evictions_per_session = 0;
  int64_t prompt_rows = 0;            // rows of one prefill chunk
  int64_t text_bytes = 0;             // maximum of one add_text call
  bool links = false;                 // images are linked into prompts: read alone, or
  bool in_context = false;            // as they were read in a prompt with the same beginning
  int64_t linked_rows = 0;            // rows of an image of most views that are read once more, in place
  int64_t input_rows = 0;             // rows whose embeddings are kept, since some of them may be
  PickRule picks = PickRule::kFirst;  // rule of that choice
  int32_t blend_percent = 0;          // share of all linked rows, if those that change most are chosen
  bool carries = false;               // the change of the rows in place is applied to the others
  bool text_alone = false;            // only a prompt's last row sees linked images
  int64_t image_rows = 0;             // rows of one image, with the tokens around its views
  bool has_library = false;
  int64_t library_entry_bytes = 0;    // maximum bytes of an image's library entry
  int64_t library_cache_entries = 0;  // entries in the memory tier
  KvShape kv;
  CachePolicy policy;
  ImageLimits image_limits;
  ImageLimits device_image_limits;  // limits of resizing on a GPU; the host makes views of larger ones, by rows
  PreprocessConfig preprocess;

  /// Maximum runs that one session's cache is listed as for attention.
  int64_t tiles_per_session() const {
    const int64_t sinks = policy.evicts_answers() ? 1 : 0;  // a tile of their own
    return kv.tiles_of(pages_per_session, blocks_per_session, TileLimits::of_steps(device, kv.scales)) + sinks +
           most_holes();
  }
  bool resizes_large_on_host() const {
    return device.is_cuda() && image_limits.max_pixels > device_image_limits.max_pixels;
  }
  Phase picture_phase() const { return views_per_image > 1 ? kImagePhase : kPicturePhase; }
  /// Rows that are read together compete for slots if there are images among them. If no images are planned, text alone
  /// competes, from kLeastCompetingText rows on: shorter pieces, such as the suffix after which the model answers, are
  /// kept.
  bool text_competes() const { return policy.lists_chunks() && images_per_session == 0 && synthetic_tokens == 0; }
  bool competes(const ChunkFacts& facts) const {
    if (!policy.lists_chunks()) return false;
    return facts.visual_rows > 0 || (text_competes() && facts.rows >= kLeastCompetingText);
  }
  LinkLimits link_limits() const;
  /// True if the rows in place are chosen, among all, when a prompt is read.
  bool blends() const { return picks == PickRule::kMostChanged; }
  /// Rows of an image that may be read in place.
  int64_t input_rows_of(int64_t views, int64_t rows) const {
    return picks == PickRule::kFirstOfTiles ? input_rows * views / views_per_image : std::min(input_rows, rows);
  }
  /// Runs that begin after rows that are left out of their images' runs.
  int64_t most_holes() const { return blends() ? images_per_session * linked_rows : 0; }
  /// Slots of a prompt that are moved up to the others, if the policy moves any.
  int32_t sink_slots() const;
  int64_t slots_per_session() const { return pages_per_session * kPageSlots + blocks_per_session * kv.block_slots; }
  SessionLimits session_limits() const {
    const int64_t images = images_per_session + (synthetic_tokens > 0 ? 1 : 0);
    return {pages_per_session,
            blocks_per_session,
            images,
            evictions_per_session,
            blends() ? kv.image_slots : 0,
            policy.packs_oldest() ? text_tokens_per_session / kv.block_slots : 0};
  }
  PrefillLimits prefill_limits() const;
  StepLimits step_limits() const;
};

/// kBadArgument names the limit that is out of range; kUnsupported if the model's vision part cannot be planned or the
/// device does not exist.
Status resolve_shape(const Model& model, const ocellus_limits& limits, EngineShape* out);

/// Memory for choosing rows of an image that are far from each other: see spread_rows.
struct SpreadMemory {
  StagedRows<int32_t> picks;
  DeviceView<float> least;
  DeviceView<float> mean;
  Status lay_out(int64_t rows, int64_t width, int64_t most_picks, RowSink& sink);
};

/// Rows that live as long as the engine.
struct EngineMemory {
  ImageDecoder image_decoder;          // no row: opened by the engine
  DeviceView<std::byte> text_weights;  // the tensor section of the file, unchanged
  DeviceView<std::byte> vision_weights;
  Tokenizer tokenizer;
  KvPools pools;
  Buffer<SessionCache> caches;      // one per session
  HostView<int32_t> recent_tokens;  // [sessions, kRecentTokens] ring
  DeviceView<float> last_hidden;    // [sessions, D] output of the last layer for the newest prompt row
  PromptChunk chunk;
  // Linked images only: one that is read alone, in the chunk's memory, and the embeddings of rows that are read in
  // place. Those are f16 where there is a library, as its entries hold them: what is computed and what comes from there
  // are the same.
  PromptChunk image_chunk;
  ActivationView linked_rows;  // [images * rows, D]
  SpreadMemory spread;
  // Library only: an image's rows or an empty block, the mean of the rows, what is on its way to or from
  // the library, and the pictures of a prompt that is added as a whole.
  HostView<std::byte> library_staging;
  HostView<float> library_embedding;  // [1, D]
  TrafficMemory library_traffic;
  HostView<std::byte> pictures_ahead;
  WaitingViews waiting_views;
  // CUDA only: host memory of pictures being uploaded. Not scratch, because other phases would write to it while it is
  // still being read.
  HostView<std::byte> picture_staging;
  HostView<TokenId> token_ids;  // [1, text tokens] of the text being added
  HostView<float> token_times;  // [1, text tokens] ms per generated token, for medians
  HostView<NcarState> ncar;     // [1, sessions] for the newest rows that competed; DAVID only

  Status lay_out(const Model& model, const EngineShape& shape, RowSink& sink);

 private:
  Status lay_out_links(const Model& model, const EngineShape& shape, RowSink& sink);
  Status lay_out_library(const Model& model, const EngineShape& shape, RowSink& sink);
};

/// Scratch of tokenising one text.
struct TextScratch {
  HostView<std::byte> workspace;
  Status lay_out(const EngineShape& shape, RowSink& sink);
};

/// Scratch from encoded bytes or a frame to the pixels of views. A picture of one view is finished when the tower
/// begins, which then reuses its memory: it has a phase of its own, and the tower's is laid out later. A picture with
/// several views may be encoded partly before the other views are made: its scratch is beside the tower's.
struct ImageScratch {
  VisionScratch vision;                // pixels of pictures with one view only
  StagedRows<std::byte> picture;       // the decoded picture or the frame's planes; on the CPU also the scratch of
                                       // views
  DeviceView<std::byte> view_scratch;  // CUDA only: the picture as RGB8 on the device, and the scratch of its views
  Status lay_out(const Model& model, const EngineShape& shape, HostView<std::byte> staging, RowSink& sink);
};

/// Lays out the scratch of every phase, for the planner.
Status lay_out_phases(const Model& model, const EngineShape& shape, RowSink& sink);

}  // namespace ocellus
