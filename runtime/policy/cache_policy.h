// CachePolicy: how much of what was read stays in the cache, and in how many bits.
//
// The order is fixed: score in full precision, evict, pack the survivors, decode over what is left. A policy is part of
// an engine's limits, so the plan is exact before anything runs.
#pragma once

#include "kernels/base/kv_run.h"
#include "kernels/cache/select_slots.h"
#include "platform/status.h"
#include "runtime/cache/kv_formats.h"
#include "runtime/ocellus.h"

namespace ocellus {

/// As ocellus_evict, which says what they are.
enum class EvictMethod : uint8_t {
  kNone,
  kSnapKv,
  kDavid,
  kH2oPrefill,
  kDavidH2o,
  kSinkRecent,
  kElasticPrefill,
  kValueWindow,
  kLookM,
  kH2o,
  kStreamingLlm,
  kElastic,
  kLookMAllText = 12,
  kElasticRepo,
  kElasticDeropePrefill,
  kCsp,
  kVlCache,
  kMeda,
  kPackOldest = 255  // no ocellus_evict: nothing goes, all but the window is packed (KIVI)
};

/// When images are compressed: what follows reads the compressed cache.
enum class CompressAt : uint8_t {
  kPromptEnd,     // after the last prompt token: the first answer token comes from exact attention
  kBeforeSuffix,  // before the text that makes the model answer ("Assistant:"), so that one-word answers show the loss
  kImageEnd       // as soon as an image is in, before any question: for rolling contexts
};

/// KIVI: rows whose keys share an offset and a step, and rows of a prompt's end that stay f16, unless the user says.
inline constexpr int32_t kKiviGroup = 32;
inline constexpr int32_t kKiviWindow = 128;

/// Of text without images so many rows at least compete, where they compete at all: fewer would leave next to nothing.
inline constexpr int64_t kLeastCompetingText = 128;

/// Rows that are read together, before their first layer.
struct ChunkFacts {
  int64_t rows = 0;
  int64_t visual_rows = 0;
  int64_t image_end = 0;  // rows up to the end of the last image
  int64_t text_rows() const { return rows - visual_rows; }
};

/// What a policy leaves of a chunk, per layer and key/value head.
struct Survivors {
  int64_t window = 0;  // last rows, which are kept
  int64_t budget = 0;  // others that are kept
  int64_t text = 0;    // most slots that stay f16
  int64_t visual = 0;  // most slots that are packed: visual ones, with pack_text all; 0 where all stay f16
  int64_t slots() const { return window + budget; }
};

struct CachePolicy {
  KvFormat format = KvFormat::kF16;  // of visual slots; where layers differ, the one of most bits
  KvFormatList layer_formats;
  KvScaleForm scales = KvScaleForm::kF16;
  int32_t block_slots = 0;  // slots that share offsets and steps; 0: what an image leaves, at least 16
  bool one_range = false;   // offsets and steps of all images read together, as the CalibQuant paper has it
  float key_range = 1.0f;   // see KvScale
  float value_range = 1.0f;
  KvCalibration calibration;
  EvictMethod evict = EvictMethod::kNone;
  float keep = 1.0f;   // fraction of the rows read together; of an image's where images are compressed one by one
  int32_t window = 0;  // recent rows that stay, or that stay f16; 0: as many as the method says
  int32_t pool = 5;
  ScorePooling pooling = ScorePooling::kMax;
  float rho = 2.0f;        // DAVID: visual slots per text slot in the decoupled stage
  bool rho_alg28 = false;  // DAVID, Alg. 1 line 28: the visual share is 1 / (1 + rho)
  NcarSwitch ncar = NcarSwitch::kSmallDrop;
  float threshold = 0.3f;   // theta_T; the layer for NcarSwitch::kAtLayer
  bool pack_window = true;  // visual slots of the window are packed, too
  bool pack_text = false;   // ours: of all rows that compete, text is packed, too
  CompressAt when = CompressAt::kPromptEnd;
  float csp_cross = 0.5f;  // CSP: share of the budget chosen by attention between modalities

  bool packs() const { return is_packed(format); }
  bool evicts() const { return evict != EvictMethod::kNone; }
  /// Chooses among all rows of a chunk; else among each image's.
  bool evicts_chunks() const { return evicts() && when != CompressAt::kImageEnd; }
  bool evicts_images() const { return evicts() && when == CompressAt::kImageEnd; }
  bool watches_ncar() const {
    return (evict == EvictMethod::kDavid || evict == EvictMethod::kDavidH2o) && evicts_chunks();
  }
  /// Slots go while a session answers, too. Packed ones cannot be taken by a new token, so not where images are packed.
  bool evicts_answers() const;
  /// KIVI's way: whole blocks, from the oldest row on.
  bool packs_oldest() const { return evict == EvictMethod::kPackOldest; }
  bool packs_text() const { return pack_text && packs() && evicts_chunks(); }
  bool compresses() const { return packs() || evicts(); }
  /// Nothing is packed.
  void leave_f16() {
    if (packs_oldest()) evict = EvictMethod::kNone;
    format = KvFormat::kF16;
    layer_formats = KvFormatList();
    calibration = KvCalibration();
  }

  /// All text stays, be it more than the share to keep.
  bool keeps_text() const;
  /// Rows are dropped only when all layers have run: until then all stand in the cache.
  bool is_late() const;

  /// Rows that stay of `rows` that compete.
  int64_t kept_rows(int64_t rows) const;
  /// Where all rows compete, by the policy's rule (eviction_rule.h): what a chunk leaves at most.
  Survivors survivors(const ChunkFacts& facts) const;
  /// The same of several chunks whose sum is `facts`: visual slots that stay, for every chunk one more where its share
  /// is less than that; with pack_text all slots.
  int64_t most_visual(const ChunkFacts& facts) const;
  /// Visual slots that the decoupled stage takes of the budget.
  int64_t visual_quota(int64_t budget) const;
};

/// kBadArgument names the part of the policy that is out of range. What stays as it is (keep 1, 16 bits) turns what
/// depends on it off.
Status resolve_cache_policy(const ocellus_cache_policy& policy, CachePolicy* out);

}  // namespace ocellus
