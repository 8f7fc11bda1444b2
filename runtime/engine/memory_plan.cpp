#include "runtime/engine/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "runtime/engine/check_limits.h"
#include "runtime/engine/phase_scratch.h"
#include "runtime/models/clip.h"

namespace ocellus {
namespace {

/// Lays out an engine with these limits, without taking memory.
Status record(const Model& model, const ocellus_limits& limits, EngineShape* shape, PlanRecorder* recorder) {
  OCELLUS_TRY(resolve_shape(model, limits, shape));
  *recorder = PlanRecorder(shape->device);
  EngineMemory memory;
  OCELLUS_TRY(memory.lay_out(model, *shape, *recorder));
  return PhaseScratch(model, *shape, memory, *recorder).take_all();
}

/// Total for changed limits; INT64_MAX if they make no plan.
int64_t total_for(const Model& model, const ocellus_limits& limits) {
  EngineShape shape;
  PlanRecorder recorder;
  return record(model, limits, &shape, &recorder).ok() ? recorder.total_bytes() : INT64_MAX;
}

/// Returns the largest value in [least, most] that fits the budget when `set` puts it into the limits, or least - 1.
/// Totals grow with the value.
template <class Set>
int64_t largest_set(const Model& model, ocellus_limits limits, int64_t least, int64_t most, Set set) {
  int64_t fits = least - 1;
  while (fits < most) {
    const int64_t middle = fits + (most - fits + 1) / 2;
    set(middle, &limits);
    if (total_for(model, limits) <= limits.budget_bytes)
      fits = middle;
    else
      most = middle - 1;
  }
  return fits;
}

/// Returns the largest value of one limit in [least, most] that fits the budget, or least - 1.
template <class Limit>
int64_t largest_that_fits(const Model& model, const ocellus_limits& limits, Limit ocellus_limits::*field, int64_t least,
                          int64_t most) {
  return largest_set(model, limits, least, most,
                     [field](int64_t value, ocellus_limits* out) { out->*field = static_cast<Limit>(value); });
}

void set_keep(int64_t percent, ocellus_limits* limits) { limits->cache.keep = static_cast<float>(percent) / 100.0f; }

/// Returns the maximum of images per session that fit the budget, within the limits; 0 if nothing fits. If only clips
/// were planned, the maximum of their frames.
int32_t images_in_budget(const Model& model, const ocellus_limits& limits) {
  const bool clips_alone = limits.max_images == 0 && limits.max_clip_frames > 0;
  const int64_t fits = clips_alone
                           ? largest_that_fits(model, limits, &ocellus_limits::max_clip_frames, 0, kMaxClipFrames)
                           : largest_that_fits(model, limits, &ocellus_limits::max_images, 0, kMaxImages);
  return static_cast<int32_t>(std::max<int64_t>(fits, 0));
}

/// Bounds of the views of one image; the model has a vision part.
ViewBounds image_bounds(const Model& model, const ocellus_limits& limits) {
  const PreprocessConfig config = preprocess_config(model.vision(), limits);
  return view_bounds(config, image_limits(limits));
}

/// Positions of one image with the most views, with the tokens around it.
int32_t positions_per_image(const Model& model, const ocellus_limits& limits) {
  if (!model.has_vision()) return 0;
  const ViewBounds bounds = image_bounds(model, limits);
  const int64_t positions = bounds.positions > 0 ? bounds.positions : bounds.rows;
  return static_cast<int32_t>(positions + model.delimiter_tokens(bounds));
}

/// Selects DAVID if no method is named. False if one is.
bool choose_rule(ocellus_cache_policy* policy) {
  if (policy->evict[0] != '\0' && std::strcmp(policy->evict, "none") != 0) return false;
  std::snprintf(policy->evict, sizeof policy->evict, "david");
  return true;
}

/// Returns the greatest share of the cache, in whole percent below `now`, that fits the budget; 0 if none does. Uses
/// DAVID if no method is named.
int32_t keep_in_budget(const Model& model, ocellus_limits limits, int32_t now) {
  choose_rule(&limits.cache);
  return static_cast<int32_t>(largest_set(model, limits, 1, now - 1, set_keep));
}

class Advisor {
 public:
  Advisor(const Model& model, const ocellus_limits& limits, ocellus_plan* plan)
      : model_(model), limits_(limits), plan_(plan) {}

  void advise() {
    make_lean();
    if (planned_images(model_, limits_) > 0 || limits_.synthetic_tokens > 0) {
      reduce_bits();
      reduce_keep();
    }
    const bool has_images = planned_images(model_, limits_) > 0;
    if (has_images) {
      const int64_t tiles = image_bounds(model_, limits_).tiles;
      reduce(&ocellus_limits::max_tiles, "max_tiles", tiles, 1, "tiles per picture");
    }
    if (has_images && model_.vision().any_size)
      reduce(&ocellus_limits::max_image_rows, "max_image_rows", plan_->rows_per_image, 1, "rows per picture");
    reduce(&ocellus_limits::max_images, "max_images", limits_.max_images, 1, "images per session");
    reduce(&ocellus_limits::max_clip_frames, "max_clip_frames", limits_.max_clip_frames, 1,
           "frames of clips per session");
    reduce(&ocellus_limits::shared_images, "shared_images", limits_.shared_images, 1, "shared images");
    reduce(&ocellus_limits::max_sessions, "max_sessions", limits_.max_sessions, 1, "sessions");
    reduce(&ocellus_limits::max_text_tokens, "max_text_tokens", limits_.max_text_tokens, 16, "text tokens per session");
    const int64_t view_pixels = int64_t{model_.vision().image_size} * model_.vision().image_size;
    if (has_images) {
      reduce(&ocellus_limits::max_image_pixels, "max_image_pixels", limits_.max_image_pixels, view_pixels,
             "pixels per picture");
      const int64_t whole = limits_.max_whole_pixels > 0 ? limits_.max_whole_pixels : kWholePixels;
      reduce(&ocellus_limits::max_whole_pixels, "max_whole_pixels", whole, 1, "pixels per picture decoded as a whole");
    }
    reduce_prompt_rows();
    ocellus_limits text_only = limits_;
    text_only.max_images = text_only.max_clip_frames = 0;
    if (has_images) add(text_only, "no images: leave the vision part out");
    if (plan_->advice_count == 0) describe_remainder();
  }

 private:
  void make_lean() {
    if (limits_.lean != 0) return;
    ocellus_limits changed = limits_;
    changed.lean = 1;
    add(changed, "less scratch (lean), which is slower");
  }

  /// Advises the largest value of one limit, from `least` up to less than `now`, with which the plan fits.
  template <class Limit>
  void reduce(Limit ocellus_limits::*field, const char* name, int64_t now, int64_t least, const char* what) {
    if (now <= least) return;
    const int64_t fits = largest_that_fits(model_, limits_, field, least, now - 1);
    if (fits < least) return;
    ocellus_limits changed = limits_;
    changed.*field = static_cast<Limit>(fits);
    add(changed, "at most %lld %s instead of %lld (%s)", static_cast<long long>(fits), what,
        static_cast<long long>(now), name);
  }

  /// Advises the packing with the most bits that fits.
  void reduce_bits() {
    if (limits_.cache.layer_bits_count > 0) return;  // chosen by layer
    const int32_t count_before = plan_->advice_count;
    for (const int32_t bits : {8, 4, 2, 1}) {
      if (bits >= limits_.cache.kv_bits || plan_->advice_count > count_before) continue;
      ocellus_limits changed = limits_;
      changed.cache.kv_bits = bits;
      changed.cache.kv_value_bits = 0;
      add(changed, "visual keys and values in %d bit%s (kv_bits) instead of %d", bits, bits == 1 ? "" : "s",
          limits_.cache.kv_bits);
    }
  }

  void reduce_keep() {
    const auto now = static_cast<int32_t>(std::ceil(limits_.cache.keep * 100.0f - 1e-3f));
    const int32_t fits = keep_in_budget(model_, limits_, now);
    if (fits == 0) return;
    ocellus_limits changed = limits_;
    set_keep(fits, &changed);
    if (!choose_rule(&changed.cache)) {
      add(changed, "%d %% of the cache kept (keep) instead of %d %%", fits, now);
      return;
    }
    add(changed, "%d %% of the cache kept by david (evict, keep) instead of %d %%", fits, now);
  }

  void reduce_prompt_rows() {
    EngineShape shape;
    if (!resolve_shape(model_, limits_, &shape).ok()) return;
    ocellus_limits changed = limits_;
    changed.max_prompt_rows = static_cast<int32_t>(shape.rows_at_once);
    const int64_t fits =
        largest_that_fits(model_, changed, &ocellus_limits::max_prompt_rows, 1, shape.rows_at_once - 1);
    if (fits < 1) return;
    changed.max_prompt_rows = static_cast<int32_t>(fits);
    add(changed, "prompts read in chunks of %lld rows instead of %lld (max_prompt_rows)", static_cast<long long>(fits),
        static_cast<long long>(shape.rows_at_once));
  }

  /// Advises on the remainder if no single change is enough.
  void describe_remainder() {
    const int64_t weights = plan_->weights_bytes;
    if (weights >= plan_->budget_bytes)
      add_text(0, "smaller weights: the weights alone take %lld bytes", static_cast<long long>(weights));
    else
      add_text(0, "no single change is enough: reduce several limits, or raise the budget to %lld bytes",
               static_cast<long long>(plan_->total_bytes));
  }

  /// Advises a change if the plan then fits.
  void add(const ocellus_limits& changed, const char* format, ...) __attribute__((format(printf, 3, 4))) {
    const int64_t total = total_for(model_, changed);
    if (total > limits_.budget_bytes) return;
    va_list arguments;
    va_start(arguments, format);
    append(total, format, arguments);
    va_end(arguments);
  }
  void add_text(int64_t total, const char* format, ...) __attribute__((format(printf, 3, 4))) {
    va_list arguments;
    va_start(arguments, format);
    append(total, format, arguments);
    va_end(arguments);
  }
  void append(int64_t total, const char* format, va_list arguments) {
    if (plan_->advice_count == OCELLUS_PLAN_MAX_ADVICE) return;
    ocellus_advice& advice = plan_->advice[plan_->advice_count++];
    std::vsnprintf(advice.text, sizeof advice.text, format, arguments);
    advice.total_bytes = total;
  }

  const Model& model_;
  const ocellus_limits& limits_;
  ocellus_plan* plan_;
};

void describe_row(const RowSpec& row, Lifetime lifetime, ocellus_plan_row* out) {
  std::snprintf(out->name, sizeof out->name, "%s", row.name);
  std::snprintf(out->lifetime, sizeof out->lifetime, "%s", lifetime_name(lifetime));
  std::snprintf(out->phase, sizeof out->phase, "%s", row.phase.name);
  std::snprintf(out->dtype, sizeof out->dtype, "%s", row.dtype);
  std::copy(row.shape, row.shape + 4, out->shape);
  out->bytes = row.bytes;
}

}  // namespace

Status PlanRecorder::take(const RowSpec& row, std::byte** out) {
  *out = nullptr;
  const int64_t bytes = aligned_bytes(row.bytes);
  const int place = counted_as(row) == Lifetime::kStaging ? 1 : 0;
  if (row.phase == Phase::kNone)
    lifetime_bytes_[static_cast<int>(counted_as(row))] += bytes;
  else
    OCELLUS_TRY(add_to_phase(row.phase, place, bytes));
  for (int i = 0; i < row_count_; ++i) {
    if (std::strcmp(rows_[i].name, row.name) != 0 || rows_[i].phase != row.phase || rows_[i].place != row.place)
      continue;
    rows_[i].bytes += bytes;
    ++rows_[i].shape[2];
    return {};
  }
  if (row_count_ == OCELLUS_PLAN_MAX_ROWS)
    return OCELLUS_FAIL(Code::kInternal, "the plan has more rows than it can show");
  rows_[row_count_] = row;
  rows_[row_count_++].bytes = bytes;
  return {};
}

Status PlanRecorder::add_to_phase(Phase phase, int place, int64_t bytes) {
  int i = 0;
  while (i < phase_count_ && phases_[i].phase != phase) ++i;
  if (i == kMaxPhases) return OCELLUS_FAIL(Code::kInternal, "the plan has more than %d phases", kMaxPhases);
  if (i == phase_count_) phases_[phase_count_++].phase = phase;
  phases_[i].bytes[place] += bytes;
  return {};
}

int64_t PlanRecorder::lifetime_bytes(Lifetime lifetime) const {
  const int64_t lasting = lifetime_bytes_[static_cast<int>(lifetime)];
  if (lifetime == Lifetime::kScratch) return lasting + largest_phase(0);
  return lifetime == Lifetime::kStaging ? lasting + largest_phase(1) : lasting;
}

int64_t PlanRecorder::largest_phase(int place) const {
  int64_t largest = 0;
  for (int i = 0; i < phase_count_; ++i) largest = std::max(largest, phases_[i].bytes[place]);
  return largest;
}

int64_t PlanRecorder::total_bytes() const {
  int64_t total = 0;
  for (int i = 0; i < kLifetimeCount; ++i) total += lifetime_bytes(static_cast<Lifetime>(i));
  return total;
}

Status plan_memory(const Model& model, const ocellus_limits& limits, ocellus_plan* out) {
  EngineShape shape;
  PlanRecorder recorder;
  OCELLUS_TRY(record(model, limits, &shape, &recorder));
  *out = {};
  out->row_count = recorder.row_count();
  for (int i = 0; i < recorder.row_count(); ++i)
    describe_row(recorder.row(i), recorder.counted_as(recorder.row(i)), &out->rows[i]);
  out->weights_bytes = recorder.lifetime_bytes(Lifetime::kWeights);
  out->session_bytes = recorder.lifetime_bytes(Lifetime::kSession);
  out->scratch_bytes = recorder.lifetime_bytes(Lifetime::kScratch);
  out->staging_bytes = recorder.lifetime_bytes(Lifetime::kStaging);
  out->total_bytes = recorder.total_bytes();
  out->kv_bytes_per_image = shape.kv.image_bytes();
  out->kv_bytes_per_token = shape.kv.slot_bytes();
  const int64_t own_blocks = shape.kv.owns_images() ? shape.session.blocks : 0;
  out->kv_bytes_per_session =
      shape.session.pages * shape.kv.page_bytes() + own_blocks * shape.kv.block_bytes() + shape.kv.local.ring_bytes();
  out->kv_bytes_shared = shape.kv.shared_images * shape.kv.image_bytes();
  out->budget_bytes = limits.budget_bytes;
  out->images_in_budget = -1;
  out->rows_per_image = static_cast<int32_t>(shape.pictures.rows);
  out->positions_per_image = positions_per_image(model, limits);
  out->fits = 1;
  if (limits.budget_bytes == 0) return {};
  if (model.has_vision()) out->images_in_budget = images_in_budget(model, limits);
  if (out->total_bytes <= limits.budget_bytes) return {};
  out->fits = 0;
  out->shortfall_bytes = out->total_bytes - limits.budget_bytes;
  Advisor(model, limits, out).advise();
  return {};
}

}  // namespace ocellus
