// Compression of a chunk of prompt rows, layer by layer: choice and storage of the kept rows. A layer's keys and values
// are available in full precision after its attention; then
//
//   list the kept rows (row_rule.h) -> gather those in f16 -> pack the others
//
// and the next layer may overwrite them. Without eviction only the last part runs.
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
struct TypeName<double> {
  static constexpr const char* value = "f64";
};
template <>
struct TypeName<NcarState> {
  static constexpr const char* value = "state";
};

struct PromptChunk;

/// Sizes of a chunk, for the plan.
struct CompressLimits {
  int64_t rows = 0;        // per chunk, as they are stored
  int64_t read_rows = 0;   // number of computed rows; the same unless images are staged
  bool joins = false;      // images may be staged
  bool in_blocks = false;  // they may go through a layer in several blocks
  int64_t blocks = 0;      // maximum of image blocks it fills
  int64_t pages = 0;       // maximum of survivors' pages and blocks it fills
  CachePolicy policy;
  int64_t least_text = INT64_MAX;  // minimum rows without images that compete
};

/// Compression of the current chunk. Its lists are in the scratch.
struct CompressPlan {
  bool active = false;       // the chunk has rows that the policy applies to
  bool lists_rows = false;   // kept rows are listed by number
  bool one_image = false;    // only an image's rows compete: text rows stay in their pages
  bool is_late = false;      // all rows stand in the pages until all layers have run
  bool looks = false;        // layers are only observed: what they keep is known when all have run
  bool shares = false;       // they have been, and every layer has its share
  int32_t job_count = 0;     // blocks to pack
  int32_t page_count = 0;    // f16 runs to fill with survivors
  int32_t noted_blocks = 0;  // blocks among the jobs that the ledger covers; listed after the pages
  int32_t first_position = 0;
  ChunkFacts facts;
  Survivors survivors;
  int64_t observed = 0;      // last rows whose queries the rule reads
  int64_t observers = 0;     // number of these that have queries: all unless images are staged
  int64_t image_budget = 0;  // one_image: visual slots before the window to keep, and text rows there
  int64_t text_before_window = 0;
  SlotLedger ledger;               // kept where answers drop slots
  int32_t* text_counts = nullptr;  // [layers, heads] counts of live slots
  int32_t* visual_counts = nullptr;
  DeviceView<int32_t> block_counts;  // [noted blocks, layers * heads] counts of live slots by block
};

struct CompressScratch {
  CachePolicy policy;
  int64_t least_text = INT64_MAX;
  StagedRows<PackJob> jobs;        // [1, blocks]
  StagedRows<int32_t> image_rows;  // [1, T] rows of images, one image after the other
  StagedRows<uint8_t> is_visual;   // [1, T]
  StagedRows<KvRun> pages;         // [1, pages] then blocks that the ledger covers
  ActivationView last_queries;     // [most observed, H * E] CPU in blocks, or joined: copied to their rows' places
  ActivationView all_queries;     // [read, H * E] CUDA in blocks: all rows, as the last ones are unknown when recording
  DeviceView<float> scores;       // [G, T]; late, if nothing is packed, [layers * G, T]
  StagedRows<float> layer_facts;  // [1, layers] late: the rule's facts by layer
  HostView<double> layer_shares;  // [1, layers] late
  StagedRows<KvRun> whole_pages;  // [1, pages] late, if nothing is packed: all rows, regardless of the counts
  DeviceView<int32_t> kept_text;  // [G, T]
  DeviceView<int32_t> kept_visual;
  DeviceView<int32_t> counts;  // [2, G] for unused counts
  DeviceView<NcarState> ncar;
  DeviceView<float> inputs;  // [read, D] the rows before layer 0, if a first pass looks
  DeviceView<std::byte> rule;
  DeviceView<std::byte> selection;

  Status lay_out(const TextConfig& config, const CompressLimits& limits, const DeviceTraits& device, RowSink& sink);
};

/// Fills and uploads the scratch's lists for the chunk, whose blocks and pages `cache` has reserved.
CompressPlan plan_compression(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache,
                              const CompressScratch& scratch, Queue& queue);

struct LayerToCompress;
/// Chooses and stores the kept rows of a layer, as its rule says.
void compress_layer(const LayerToCompress& layer, Queue& queue);

}  // namespace ocellus
