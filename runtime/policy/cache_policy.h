// CachePolicy: how much of what was read stays in the cache, and in how many bits.
//
// The order is fixed: score in full precision, evict, pack the survivors, decode over what is left. A policy is part of
// an engine's limits, so the plan is exact before anything runs.
#pragma once

#include "kernels/base/kv_run.h"
#include "platform/status.h"
#include "runtime/cache/kv_formats.h"
#include "runtime/ocellus.h"
#include "runtime/policy/method_text.h"

namespace ocellus {

class RowRule;
class EvictionRule;
struct PackingScheme;

/// When images are compressed: what follows reads the compressed cache.
enum class CompressAt : uint8_t {
  kPromptEnd,     // after the last prompt token: the first answer token comes from exact attention
  kBeforeSuffix,  // before the text that makes the model answer ("Assistant:"), so that one-word answers show the loss
  kImageEnd       // as soon as an image is in, before any question: for rolling contexts
};

/// KIVI: rows whose keys share an offset and a step.
inline constexpr int32_t kKiviGroup = 32;

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
  bool pack_window = true;              // visual slots of the window are packed, too
  bool pack_text = false;               // ours; KIVI: of all rows that are listed, text is packed, too
  const EvictionRule* evict = nullptr;  // null: nothing is dropped
  MethodValues options;                 // what the eviction method is told
  float keep = 1.0f;   // fraction of the rows read together; of an image's where images are compressed one by one
  int32_t window = 0;  // recent rows that stay, or that stay f16; 0: as many as the method says
  CompressAt when = CompressAt::kPromptEnd;

  bool packs() const { return is_packed(format); }
  bool evicts() const { return evict != nullptr; }
  /// Chooses among each image's rows, else among all rows of a chunk.
  bool evicts_images() const { return evicts() && when == CompressAt::kImageEnd; }
  bool watches_ncar() const;
  /// Slots go while a session answers, too. Packed ones cannot be taken by a new token, so not where images are packed.
  bool evicts_answers() const;
  /// KIVI's way: nothing is dropped; whole blocks are packed, from the oldest row on.
  bool packs_oldest() const { return scales == KvScaleForm::kByToken; }
  /// What lists the rows that stay, and where: the eviction method or KIVI. Null where rows keep the order they came
  /// in.
  const RowRule* row_rule() const;
  bool lists_rows() const { return evicts() || packs_oldest(); }
  /// All rows of a chunk are listed together.
  bool lists_chunks() const { return lists_rows() && when != CompressAt::kImageEnd; }
  bool packs_text() const { return pack_text && packs() && lists_chunks(); }
  bool compresses() const { return packs() || evicts(); }
  /// Nothing is packed.
  void leave_f16() {
    if (packs_oldest()) scales = KvScaleForm::kF16;
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
  /// Where all rows compete, by the policy's rule: what a chunk leaves at most.
  Survivors survivors(const ChunkFacts& facts) const;
  /// The same of several chunks whose sum is `facts`: visual slots that stay, for every chunk one more where its share
  /// is less than that; with pack_text all slots.
  int64_t most_visual(const ChunkFacts& facts) const;
};

/// What a text of ocellus_cache_policy.evict names; null for "none" and for nothing. kBadArgument as
/// ocellus_method_check.
Status parse_eviction(const char (&text)[OCELLUS_METHOD_TEXT], const EvictionRule** rule, MethodValues* options);
/// The same of ocellus_cache_policy.kv_scheme.
Status parse_packing(const char (&text)[OCELLUS_METHOD_TEXT], const PackingScheme** scheme, MethodValues* options);

/// kBadArgument names the part of the policy that is out of range. What stays as it is (keep 1, 16 bits) turns what
/// depends on it off.
Status resolve_cache_policy(const ocellus_cache_policy& policy, CachePolicy* out);

}  // namespace ocellus
