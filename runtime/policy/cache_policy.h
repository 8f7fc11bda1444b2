// CachePolicy: the share of the read rows that stays in the cache, and their bits.
//
// The order is fixed: score in full precision, evict, pack the survivors, decode over the rest. A policy is part of an
// engine's limits, so the plan is exact before anything runs.
#pragma once

#include <algorithm>

#include "kernels/base/kv_run.h"
#include "platform/status.h"
#include "runtime/cache/kv_formats.h"
#include "runtime/ocellus.h"
#include "runtime/policy/method_text.h"

namespace ocellus {

class RowRule;

/// Time of compressing images: later tokens read the compressed cache.
enum class CompressAt : uint8_t {
  kPromptEnd,     // after the last prompt token: the first answer token comes from exact attention
  kBeforeSuffix,  // before the text after which the model answers ("Assistant:"), so that one-word answers show the
                  // loss
  kImageEnd       // after each image, before any question: for rolling contexts
};

/// Minimum of competing rows in text without images, if it competes at all: fewer would leave next to nothing.
inline constexpr int64_t kLeastCompetingText = 128;

/// Rows that are read together, before their first layer.
struct ChunkFacts {
  int64_t rows = 0;
  int64_t visual_rows = 0;
  int64_t image_end = 0;  // rows up to the end of the last image
  int64_t text_rows() const { return rows - visual_rows; }
};

/// Rows of a chunk that a policy keeps, per layer and key/value head.
struct Survivors {
  int64_t window = 0;   // last rows, all kept
  int64_t budget = 0;   // number of other rows kept
  int64_t centres = 0;  // part of the budget for clusters of dropped rows, beyond the share
  int64_t text = 0;     // maximum of slots that stay f16
  int64_t visual = 0;   // maximum of slots that are packed: visual ones, with pack_text all; 0 if all stay f16
  int64_t slots() const { return window + budget; }
};

/// Slots that a rule drops during answers, and keeps of prompts for them.
struct AnswerRule {
  bool drops_slots = false;   // one for every new token
  bool required = false;      // the method is not what its name says without it
  bool by_attention = false;  // drops the slot with least attention, not among the newest half; else the oldest
  bool grows = false;         // keeps `keep` of all tokens; else as many slots as at the start of the answer
  bool moves_sinks = false;   // kept first slots are read as if they stood right before the others
  int64_t first_slots = 0;    // minimum of a prompt's first slots that are kept
  int64_t last_slots = -1;    // -1: off; n: all are kept but the last n

  /// Number of first slots that are kept of the `kept` slots of a prompt.
  int64_t stay(int64_t kept) const {
    return last_slots < 0 ? first_slots : std::max<int64_t>(first_slots, kept - last_slots);
  }
};

/// A rule's properties, beyond listing the rows of a layer that stay.
struct RuleFacts {
  bool thins_frames = false;  // it drops nothing of a chunk: it thins the images of rolling sessions
  bool keeps_text = false;    // all text is kept, even beyond the share, and images get the rest
  /// The slots of a layer are known only after all layers. Until then all rows stand in f16 pages; or, if the cache
  /// packs, a prompt goes through the layers twice, and nothing is stored the first time.
  bool is_late = false;
  bool ranks_layers_together = false;  // all layers keep the same rows: a prompt goes through them twice
  bool watches_ncar = false;           // NCAR is tracked from layer to layer: see NcarState
  int64_t clusters = 0;                // number of clusters of dropped rows that take slots beyond the share
  AnswerRule answers = {};
};

/// Thinning of the images of a rolling session.
struct ThinPolicy {
  const char* method = "";
  float keep = 1;      // images' slots that stay, as a share of those that the session may hold; 1: it does not thin
  float novel = 0;     // share of these that TaR chooses
  float recent = 0;    // share of the images that are recent
  bool pools = false;  // norms of values are pooled

  bool on() const { return keep < 1; }
  /// Number of images' slots that stay of those of `images`, which are at least two.
  int32_t kept(int32_t images) const {
    return std::clamp(static_cast<int32_t>(keep * static_cast<float>(images)), 1, images - 1);
  }
};

struct CachePolicy {
  KvFormat format = KvFormat::kF16;  // format of visual slots; if layers differ, the one with most bits
  KvFormatList layer_formats;
  KvScaleForm scales = KvScaleForm::kF16;
  int32_t block_slots = 0;  // slots that share offsets and steps; 0: all that an image keeps, at least 16
  bool one_range = false;   // all images read together share offsets and steps, as in CalibQuant's paper
  float key_range = 1.0f;   // see KvScale
  float value_range = 1.0f;
  bool global_values = false;  // see PackKvArgs
  KvCalibration calibration;
  bool pack_window = true;        // visual slots of the window are packed, too
  bool pack_text = false;         // ours; KIVI: text is packed, too, among all listed rows
  const RowRule* rule = nullptr;  // lists the rows that stay; null: all do, in their order
  RuleFacts facts;                // the rule's; some are off where it has images one by one
  MethodValues options;           // the rule's
  float keep = 1.0f;   // fraction kept of the rows read together; of each image's rows if images are compressed one by
                       // one
  int32_t window = 0;  // recent rows that are kept; 0: the method's choice
  int32_t residual = 0;  // KIVI: newest kept rows that stay f16, and up to a block more
  CompressAt when = CompressAt::kPromptEnd;
  ThinPolicy thin;

  bool packs() const { return is_packed(format); }
  bool drops_rows() const { return keep < 1; }
  bool lists_rows() const { return rule != nullptr; }
  /// True: drops some of each image's rows, else of all rows of a chunk.
  bool cuts_images() const { return lists_rows() && when == CompressAt::kImageEnd; }
  /// Number of a prompt's first rows that are never packed: those that move.
  int64_t first_f16_rows() const { return packs() && facts.answers.moves_sinks ? facts.answers.first_slots : 0; }
  /// KIVI: of the rows that are kept, whole blocks are packed, from the oldest on.
  bool packs_oldest() const { return scales == KvScaleForm::kByToken; }
  /// KIVI: number of the last of `kept` rows that stay f16.
  int64_t f16_tail(int64_t kept) const {
    return kept - std::max<int64_t>(kept - residual, 0) / block_slots * block_slots;
  }
  /// True if all rows of a chunk are listed together.
  bool lists_chunks() const { return lists_rows() && when != CompressAt::kImageEnd; }
  /// True if a prompt is compressed only once all of its rows are read, however many are read at once.
  bool waits_for_prompt() const { return (drops_rows() && lists_chunks()) || one_range; }
  bool packs_text() const { return pack_text && packs() && lists_chunks(); }
  bool compresses() const { return packs() || drops_rows(); }
  /// Turns packing off, which is not KIVI's.
  void leave_f16() {
    format = KvFormat::kF16;
    layer_formats = KvFormatList();
    calibration = KvCalibration();
    one_range = false;
  }

  bool looks_first() const { return (facts.is_late && packs()) || facts.ranks_layers_together; }
  /// Slots of a block of images that keep `image_slots` each.
  int32_t slots_of_block(int64_t image_slots, int64_t usual) const;

  /// Number of rows kept of `rows` that compete, clusters of the others included.
  int64_t kept_rows(int64_t rows) const;
  /// Maximum that a chunk leaves under the policy's rule if all rows compete.
  Survivors survivors(const ChunkFacts& facts) const;
  /// Maximum of visual slots that `chunks` chunks leave whose sum is `facts`, one more for every chunk whose share is
  /// smaller than that; with pack_text of all slots.
  int64_t most_visual(const ChunkFacts& facts, int64_t chunks) const;

 private:
  int64_t share_of(int64_t rows) const;
};

/// kBadArgument names the part of the policy that is out of range. A setting without effect (keep 1, 16 bits) turns off
/// the options that depend on it.
Status resolve_cache_policy(const ocellus_cache_policy& policy, CachePolicy* out);

}  // namespace ocellus
