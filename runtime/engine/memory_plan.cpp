#include "runtime/engine/memory_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "runtime/engine/check_limits.h"
#include "runtime/engine/phase_scratch.h"
#include "runtime/models/clip.h"

namespace ocellus {
namespace {

constexpr int64_t kLeastPromptRows = 64;   // fewer at once take much longer
constexpr int64_t kLeastTextTokens = 128;  // a question and a short answer

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

bool fits(const Model& model, const ocellus_limits& limits) { return total_for(model, limits) <= limits.budget_bytes; }

/// Returns the largest value in [least, most] that fits the budget when `set` puts it into the limits, or least - 1.
/// Totals grow with the value.
template <class Set>
int64_t largest_set(const Model& model, ocellus_limits limits, int64_t least, int64_t most, Set set) {
  int64_t fitting = least - 1;
  while (fitting < most) {
    const int64_t middle = fitting + (most - fitting + 1) / 2;
    set(middle, &limits);
    if (fits(model, limits))
      fitting = middle;
    else
      most = middle - 1;
  }
  return fitting;
}

/// Puts a value into one limit.
template <auto field>
void set_limit(int64_t value, ocellus_limits* limits) {
  limits->*field = static_cast<std::remove_reference_t<decltype(limits->*field)>>(value);
}

/// Returns the maximum of images per session that fit the budget, within the limits; 0 if nothing fits. If only clips
/// were planned, the maximum of their frames.
int32_t images_in_budget(const Model& model, const ocellus_limits& limits) {
  const bool clips_alone = limits.max_images == 0 && limits.max_clip_frames > 0;
  const int64_t most = clips_alone
                           ? largest_set(model, limits, 0, kMaxClipFrames, set_limit<&ocellus_limits::max_clip_frames>)
                           : largest_set(model, limits, 0, kMaxImages, set_limit<&ocellus_limits::max_images>);
  return static_cast<int32_t>(std::max<int64_t>(most, 0));
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

bool names_rule(const ocellus_cache_policy& policy) {
  return policy.evict[0] != '\0' && std::strcmp(policy.evict, "none") != 0;
}

void set_lean(int64_t scratch, ocellus_limits* limits) { limits->lean = scratch > 0 ? 0 : 1; }

void set_bits(int64_t exponent, ocellus_limits* limits) {
  limits->cache.kv_bits = 1 << exponent;
  limits->cache.kv_value_bits = 0;
}

/// By DAVID if no method is named.
void set_keep(int64_t percent, ocellus_limits* limits) {
  if (!names_rule(limits->cache)) std::snprintf(limits->cache.evict, sizeof limits->cache.evict, "david");
  limits->cache.keep = static_cast<float>(percent) / 100.0f;
}

void leave_images_out(int64_t, ocellus_limits* limits) { limits->max_images = limits->max_clip_frames = 0; }

/// A way to make a plan smaller.
struct Change {
  const char* format;  // takes the value and that which is planned
  int64_t least, now;  // values, growing with the memory that they take; `now` is what is planned
  void (*set)(int64_t value, ocellus_limits* limits);
  bool keeps_images = true;  // see ocellus_advice
  bool doubles = false;      // values are exponents of two

  struct Words {
    char text[128];
  };
  Words describe(int64_t value) const {
    const auto shown = [this](int64_t number) { return static_cast<long long>(doubles ? 1LL << number : number); };
    Words words;
    std::snprintf(words.text, sizeof words.text, format, shown(value), shown(now));
    return words;
  }
};

/// Lists the changes that make a plan smaller, the mildest first, and advises those that are enough.
class Advisor {
 public:
  Advisor(const Model& model, const ocellus_limits& limits, ocellus_plan* plan)
      : model_(model), limits_(limits), plan_(plan) {}

  void advise() {
    const bool has_images = planned_images(model_, limits_) > 0;
    EngineShape shape;
    const bool is_known = resolve_shape(model_, limits_, &shape).ok();
    offer_mild(has_images, is_known ? shape.rows_at_once : 0);
    if (has_images || shape.session.images > 0) offer_smaller_cache();
    offer_fewer(has_images);
    for (int i = 0; i < count_; ++i) try_change(changes_[i], nullptr);
    const bool takes_two = plan_->advice_count == 0;
    for (int i = 1; i < count_ && takes_two; ++i)
      for (int k = 0; k < i; ++k) try_change(changes_[i], &changes_[k]);
    if (has_images) try_change({"no images: leave the vision part out", 0, 1, leave_images_out, false}, nullptr);
    if (plan_->advice_count == 0) describe_remainder();
  }

 private:
  static constexpr int kMaxChanges = 16;

  void offer(const Change& change) {
    if (change.least < change.now) changes_[count_++] = change;
  }

  /// Changes that cost time or room, and leave images as they are.
  void offer_mild(bool has_images, int64_t rows_at_once) {
    offer({"less scratch (lean), which is slower", 0, limits_.lean != 0 ? 0 : 1, set_lean});
    const int64_t whole = limits_.max_whole_pixels > 0 ? limits_.max_whole_pixels : kWholePixels;
    if (has_images)
      offer({"at most %lld pixels per picture decoded as a whole instead of %lld (max_whole_pixels)", 1, whole,
             set_limit<&ocellus_limits::max_whole_pixels>});
    offer({"prompts read in chunks of %lld rows instead of %lld (max_prompt_rows)", kLeastPromptRows, rows_at_once,
           set_limit<&ocellus_limits::max_prompt_rows>});
    offer({"at most %lld text tokens per session instead of %lld (max_text_tokens)", kLeastTextTokens,
           limits_.max_text_tokens, set_limit<&ocellus_limits::max_text_tokens>});
  }

  void offer_smaller_cache() {
    const ocellus_cache_policy& cache = limits_.cache;
    if (cache.layer_bits_count == 0)  // else bits are chosen by layer
      offer({"visual keys and values in at most %lld bits instead of %lld (kv_bits)", 0,
             std::bit_width(static_cast<uint32_t>(cache.kv_bits)) - 1, set_bits, false, true});
    const auto kept = static_cast<int64_t>(std::ceil(cache.keep * 100.0f - 1e-3f));
    offer({names_rule(cache) ? "%lld %% of the cache kept instead of %lld %% (keep)"
                             : "%lld %% of the cache kept by david instead of %lld %% (evict, keep)",
           1, kept, set_keep, false});
  }

  void offer_fewer(bool has_images) {
    const auto fewer = [this](const char* words, int64_t least, int64_t now, auto set) {
      offer({words, least, now, set, false});
    };
    if (has_images) {
      fewer("at most %lld tiles per picture instead of %lld (max_tiles)", 1, image_bounds(model_, limits_).tiles,
            set_limit<&ocellus_limits::max_tiles>);
      if (model_.vision().any_size)
        fewer("at most %lld rows per picture instead of %lld (max_image_rows)", 1, plan_->rows_per_image,
              set_limit<&ocellus_limits::max_image_rows>);
    }
    fewer("at most %lld images per session instead of %lld (max_images)", 1, limits_.max_images,
          set_limit<&ocellus_limits::max_images>);
    fewer("at most %lld frames of clips per session instead of %lld (max_clip_frames)", 1, limits_.max_clip_frames,
          set_limit<&ocellus_limits::max_clip_frames>);
    fewer("at most %lld shared images instead of %lld (shared_images)", 1, limits_.shared_images,
          set_limit<&ocellus_limits::shared_images>);
    fewer("at most %lld sessions instead of %lld (max_sessions)", 1, limits_.max_sessions,
          set_limit<&ocellus_limits::max_sessions>);
    if (!has_images) return;
    fewer("at most %lld pixels per picture instead of %lld (max_image_pixels)",
          int64_t{model_.vision().image_size} * model_.vision().image_size, limits_.max_image_pixels,
          set_limit<&ocellus_limits::max_image_pixels>);
  }

  /// Advises a change, as small as is enough, if it is; with `other`, if there is one, as far as that goes.
  void try_change(const Change& change, const Change* other) {
    const int32_t room = OCELLUS_PLAN_MAX_ADVICE - plan_->advice_count;
    if (room <= (other != nullptr ? 1 : 0)) return;  // a place is kept for the last single one
    ocellus_limits limits = limits_;
    if (other != nullptr) other->set(other->least, &limits);
    change.set(change.least, &limits);
    if (!fits(model_, limits)) return;
    const int64_t value = largest_set(model_, limits, change.least, change.now - 1, change.set);
    change.set(value, &limits);
    const int64_t total = total_for(model_, limits);
    if (other == nullptr) return append(total, change.keeps_images, "%s", change.describe(value).text);
    append(total, change.keeps_images && other->keeps_images, "%s, and %s", other->describe(other->least).text,
           change.describe(value).text);
  }

  /// Advises on the remainder if no two changes are enough.
  void describe_remainder() {
    const int64_t weights = plan_->weights_bytes;
    if (weights >= plan_->budget_bytes)
      append(0, false, "smaller weights: the weights alone take %lld bytes", static_cast<long long>(weights));
    else
      append(0, false, "no two changes are enough: reduce several limits, or raise the budget to %lld bytes",
             static_cast<long long>(plan_->total_bytes));
  }

  void append(int64_t total, bool keeps_images, const char* format, ...) __attribute__((format(printf, 4, 5))) {
    ocellus_advice& advice = plan_->advice[plan_->advice_count++];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(advice.text, sizeof advice.text, format, arguments);
    va_end(arguments);
    advice.total_bytes = total;
    advice.keeps_images = keeps_images ? 1 : 0;
  }

  const Model& model_;
  const ocellus_limits& limits_;
  ocellus_plan* plan_;
  Change changes_[kMaxChanges];
  int count_ = 0;
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
