// Compressing a chunk of prompt rows, layer by layer: which rows stay, and how they are stored. A layer's keys and
// values are there in full precision when its attention is done; then
//
//   list the rows that stay (eviction_rule.h) -> gather what stays f16 -> pack what is packed
//
// and the next layer may write over them. Without eviction only the last part is left.
#pragma once

#include "kernels/cache/pack_kv.h"
#include "kernels/cache/select_slots.h"
#include "platform/arena.h"
#include "runtime/cache/kv_cache.h"
#include "runtime/models/text_model.h"
#include "runtime/policy/cache_policy.h"

namespace ocellus {

template <>
struct TypeName<PackJob> {
  static constexpr const char* value = "job";
};
template <>
struct TypeName<NcarState> {
  static constexpr const char* value = "state";
};

struct PromptChunk;

/// Sizes of a chunk, for the plan.
struct CompressLimits {
  int64_t rows = 0;    // of a chunk
  int64_t blocks = 0;  // image blocks it may fill
  int64_t pages = 0;   // pages of survivors it may fill
  CachePolicy policy;
  int64_t least_text = INT64_MAX;  // rows without images from which on they compete
};

/// How the chunk at hand is compressed. The lists it speaks of are in the scratch.
struct CompressPlan {
  bool active = false;      // there are rows in the chunk that the policy is for
  bool lists_rows = false;  // by number: those that stay
  bool one_image = false;   // only an image's rows compete: text rows stay in their pages
  bool is_late = false;     // all rows stand in the pages until all layers have run
  int32_t job_count = 0;    // blocks to pack
  int32_t page_count = 0;   // f16 runs to fill with survivors
  int32_t first_position = 0;
  ChunkFacts facts;
  Survivors survivors;
  int64_t observed = 0;      // last rows whose queries the rule reads
  int64_t image_budget = 0;  // one_image: visual slots before the window that stay, and text rows there
  int64_t text_before_window = 0;
  SlotLedger ledger;               // where slots go while the session answers
  int32_t stay = 0;                // entries of the kept rows that never go
  int32_t* text_counts = nullptr;  // [layers, heads]; where live slots are counted
  int32_t* visual_counts = nullptr;
};

struct CompressScratch {
  CachePolicy policy;
  int64_t least_text = INT64_MAX;
  StagedRows<PackJob> jobs;        // [1, blocks]
  StagedRows<int32_t> image_rows;  // [1, T] rows of images, one image after the other
  StagedRows<uint8_t> is_visual;   // [1, T]
  StagedRows<KvRun> pages;         // [1, pages]
  ActivationView last_queries;     // [most observed, H * E] CPU: copied from their blocks
  ActivationView all_queries;      // [T, H * E] lean CUDA: of all rows, as recordings do not know which will be last
  DeviceView<float> scores;        // [G, T]; late [layers * G, T]
  StagedRows<float> layer_facts;   // [1, layers] late: what the rule has seen in each
  HostView<int32_t> layer_slots;   // [1, layers] late: what each has kept
  StagedRows<KvRun> whole_pages;   // [1, pages] late: all rows, whatever the counts
  DeviceView<int32_t> kept_text;   // [G, T]
  DeviceView<int32_t> kept_visual;
  DeviceView<int32_t> counts;  // [2, G] where nobody asks for them
  DeviceView<NcarState> ncar;
  DeviceView<std::byte> rule;
  DeviceView<std::byte> selection;

  Status lay_out(const TextConfig& config, const CompressLimits& limits, const DeviceTraits& device, RowSink& sink);

 private:
  Status lay_out_late(const TextConfig& config, const CompressLimits& limits, RowSink& sink);
};

/// Fills the scratch's lists for the chunk, whose blocks and pages `cache` has reserved, and uploads them.
CompressPlan plan_compression(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache,
                              const CompressScratch& scratch, Queue& queue);

struct LayerToCompress;
/// Chooses and stores what stays of a layer; where the plan is late, only looks at it.
void compress_layer(const LayerToCompress& layer, Queue& queue);
/// Late: waits for the last layer, shares the slots out, then chooses and stores what stays of all layers. `last`: that
/// layer, whose rows are written over. Fills scratch.layer_slots.
void compress_all_layers(const LayerToCompress& last, Queue& queue);

}  // namespace ocellus
