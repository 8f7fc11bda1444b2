// The change of a linked image's rows in place, applied to its other slots in every layer.
#include <algorithm>
#include <new>

#include "kernels/cache/carry_change.h"
#include "kernels/rows/rope.h"
#include "runtime/branches/reuse/reuse.h"
#include "runtime/forward/prefill.h"

namespace ocellus {

template <>
struct TypeName<CarriedImage> {
  static constexpr const char* value = "image";
};

namespace {

class Carry final : public LinkChange {
 public:
  Status lay_out(const TextConfig& config, const LinkLimits& limits, RowSink& sink, ExtraSteps* steps) override;
  void plan(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache, int64_t first_copied,
            const PrefillScratch& scratch, Queue& queue) override;
  void plan_none(Queue& queue) override {
    clear();
    upload(queue);
  }

 private:
  static const Carry& of(const LayerPass& pass) { return static_cast<const Carry&>(*pass.scratch.links.change); }
  static void find_slot_angles(const LayerPass& pass, Queue& queue);
  // Both apply the change of the rows in place to the other slots of their images, before any row attends to them: a
  // chunk of several blocks ahead of the first, once all are projected, one of a single block in it.
  static void ahead_of_blocks(const LayerPass& pass, DeviceView<float> hidden, Queue& queue);
  static void in_block(const LayerPass& pass, const RowBlock& block, Queue& queue);

  /// Number of an image's positions.
  int64_t places() const { return slot_angles_.rows / images_.host.cols; }
  /// Number of images to carry in a layer: on CUDA, where the op may be recorded, always all.
  int64_t count(const Queue& queue) const { return queue.traits().is_cuda() ? images_.device.cols : count_; }
  void clear();
  void upload(Queue& queue) const;
  void run(const LayerPass& pass, Queue& queue) const;

  friend class CarriedSlots;
  int64_t count_ = 0;                  // linked images of the chunk
  StagedRows<CarriedImage> images_;    // [1, images]
  StagedRows<int32_t> rows_in_place_;  // [images, in place]
  RowPositions positions_;         // [images * (slots + 1)] of an image's slots, then the distance that it has moved
  DeviceView<float> slot_angles_;  // [images * (slots + 1), rotated]
  // The same in layers with a window.
  StagedRows<CarriedImage> local_images_;
  DeviceView<float> local_angles_;
};

/// The rows of a linked image that are computed in place, and the position where each of its slots was computed. Images
/// in order.
class CarriedSlots {
 public:
  CarriedSlots(const PromptChunk& chunk, int64_t first_position, const RowPositions& rows, const Carry& carry)
      : chunk_(chunk), first_position_(first_position), rows_(rows), carry_(carry) {}

  void list(int64_t number, const LinkedImage& image, int32_t* rows_in_place) {
    const RowPositions& positions = carry_.positions_;
    const int64_t first = number * carry_.places();
    for (int32_t i = 0; i < image.in_place; ++i, ++row_) {
      while (chunk_.is_text(row_)) ++row_;
      rows_in_place[i] = static_cast<int32_t>(row_);
      const int32_t* const place = rows_.host_row(row_);
      for (int32_t c = 0; c < positions.coordinates; ++c)
        positions.host_row(first + i)[c] = place[c] - image.position_shift;
    }
    for (; link_ < chunk_.link_count && chunk_.links.data[link_].image == number; ++link_) {
      const LinkedRun& run = chunk_.links.data[link_];
      for (int32_t i = 0; i < run.slots; ++i)
        run.span.write(i, first_position_ - image.position_shift, positions.coordinates,
                       positions.host_row(first + run.first_slot + i));
    }
  }

 private:
  const PromptChunk& chunk_;
  int64_t first_position_;
  const RowPositions& rows_;
  const Carry& carry_;
  int64_t row_ = 0, link_ = 0;
};

Status Carry::lay_out(const TextConfig& c, const LinkLimits& limits, RowSink& sink, ExtraSteps* steps) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  steps->after_angles = find_slot_angles;
  steps->ahead_of_blocks = ahead_of_blocks;
  steps->in_block = in_block;
  OCELLUS_TRY(images_.lay_out(sink, "carried images", kLife, kPhase, 1, limits.images));
  OCELLUS_TRY(rows_in_place_.lay_out(sink, "rows in place", kLife, kPhase, limits.images, limits.in_place));
  const int64_t places = limits.images * (limits.slots + 1);
  OCELLUS_TRY(positions_.lay_out(c.rope, places, "slot positions", sink));
  OCELLUS_TRY(take_rows(sink, "slot angles", kLife, kPhase, places, c.rope.rotated, &slot_angles_));
  if (!c.has_windows()) return {};
  OCELLUS_TRY(local_images_.lay_out(sink, "carried local images", kLife, kPhase, 1, limits.images));
  return take_rows(sink, "local slot angles", kLife, kPhase, places, c.local.rope.rotated, &local_angles_);
}

void Carry::clear() {
  count_ = 0;
  std::fill_n(images_.host.data, images_.host.cols, CarriedImage());
  std::fill_n(local_images_.host.data, local_images_.host.cols, CarriedImage());
}

/// Uploads all of the lists: recordings do not know how many images there are.
void Carry::upload(Queue& queue) const {
  queue.upload(images_, images_.host.cols);
  queue.upload(local_images_, local_images_.host.cols);
  queue.upload(rows_in_place_, rows_in_place_.host.rows * rows_in_place_.host.stride);
  positions_.upload(slot_angles_.rows, queue);
}

void Carry::plan(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache, int64_t first_copied,
                 const PrefillScratch& s, Queue& queue) {
  clear();
  CarriedSlots slots(chunk, first_position, s.rows.positions, *this);
  for (int64_t i = 0; i < chunk.linked_image_count; ++i) {
    const LinkedImage& linked = chunk.linked_images.data[i];
    CarriedImage& image = images_.host.data[count_++];
    image.block = cache.image_block(linked.ordinal, 0);
    image.in_place = linked.in_place;
    image.slots = linked.slots;
    image.first_row = static_cast<int32_t>(i * rows_in_place_.host.cols);
    image.first_angle = static_cast<int32_t>(i * places());
    image.shift_angle = static_cast<int32_t>(image.first_angle + places() - 1);
    slots.list(i, linked, rows_in_place_.host.row(i));
    std::fill_n(positions_.host_row(image.shift_angle), positions_.coordinates, linked.position_shift);
    if (local_images_.host.cols > 0) {
      local_images_.host.data[i] = image;
      local_images_.host.data[i].block = cache.local_image_block(linked.ordinal, 0);
    }
    if (!s.past.copies.on() || linked.position_shift == 0) continue;
    image.first_copy = static_cast<int32_t>(first_copied * kPackedTileSlots);
    first_copied += blocks_of(linked.slots - linked.in_place, kPackedTileSlots);
  }
  upload(queue);
}

void Carry::run(const LayerPass& pass, Queue& q) const {
  const PrefillScratch& s = pass.scratch;
  const bool local = pass.is_local(), copies = !local && s.past.copies.on();
  carry_change({.rows = pass.own_rows(),
                .images = (local ? local_images_ : images_).device.data,
                .image_count = static_cast<int32_t>(count(q)),
                .rows_in_place = rows_in_place_.device.data,
                .places = local ? s.window.places_from(0) : nullptr,
                .layer = pass.cache_layer(),
                .rope = pass.config().rope_of(pass.layer),
                .angles = local ? s.window.angles : s.rows.angles,
                .slot_angles = local ? local_angles_ : slot_angles_,
                .copies = copies ? s.past.copies.kv.of(pass.config().kv_heads) : KvLayerRows()},
               q);
  if (local) copy_window(pass, q);  // the slots have changed
}

void Carry::find_slot_angles(const LayerPass& pass, Queue& q) {
  const Carry& carry = of(pass);
  carry.positions_.find_angles(pass.config().rope, carry.slot_angles_, q);
  if (carry.local_images_.host.cols > 0) carry.positions_.find_angles(pass.config().local.rope, carry.local_angles_, q);
}

void Carry::ahead_of_blocks(const LayerPass& pass, DeviceView<float> hidden, Queue& q) {
  if (of(pass).count(q) == 0 || pass.scratch.limits.block_rows >= hidden.rows) return;
  prepare_blocks(pass, hidden, q);
  of(pass).run(pass, q);
}

void Carry::in_block(const LayerPass& pass, const RowBlock& block, Queue& q) {
  if (of(pass).count(q) > 0 && block.hidden.rows == block.chunk_rows) of(pass).run(pass, q);
}

}  // namespace

std::unique_ptr<LinkChange> make_carry() { return std::unique_ptr<LinkChange>(new (std::nothrow) Carry); }

}  // namespace ocellus
