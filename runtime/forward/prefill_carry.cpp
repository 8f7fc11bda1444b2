// The change of a linked image's rows in place, applied to its other slots in every layer.
#include <algorithm>

#include "kernels/rows/rope.h"
#include "runtime/forward/prefill.h"

namespace ocellus {
namespace {

/// The rows of a linked image that are computed in place, and the position where each of its slots was computed. Images
/// in order.
class CarriedSlots {
 public:
  CarriedSlots(const PromptChunk& chunk, int64_t first_position, const PrefillScratch& s)
      : chunk_(chunk), first_position_(first_position), scratch_(s) {}

  void list(int64_t number, const LinkedImage& image, int32_t* rows_in_place) {
    const RowPositions& positions = scratch_.links.carry.positions;
    const int64_t first = number * scratch_.links.carry.places();
    for (int32_t i = 0; i < image.in_place; ++i, ++row_) {
      while (chunk_.is_text(row_)) ++row_;
      rows_in_place[i] = static_cast<int32_t>(row_);
      const int32_t* const place = scratch_.rows.positions.host_row(row_);
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
  const PrefillScratch& scratch_;
  int64_t row_ = 0, link_ = 0;
};

void clear_carried(const CarryScratch& carry) {
  std::fill_n(carry.images.host.data, carry.images.host.cols, CarriedImage());
  std::fill_n(carry.local_images.host.data, carry.local_images.host.cols, CarriedImage());
}

/// Uploads all of plan_carry()'s lists: recordings do not know how many images there are.
void upload_carry(const CarryScratch& carry, Queue& queue) {
  queue.upload(carry.images, carry.images.host.cols);
  queue.upload(carry.local_images, carry.local_images.host.cols);
  queue.upload(carry.rows_in_place, carry.rows_in_place.host.rows * carry.rows_in_place.host.stride);
  carry.positions.upload(carry.slot_angles.rows, queue);
}

/// Number of images to carry in a layer: on CUDA, where the op may be recorded, always all.
int64_t carried_images(const LayerPass& pass, const Queue& q) {
  return q.traits().is_cuda() ? pass.scratch.links.carry.images.device.cols : pass.plan.carried_images;
}

void carry_layer(const LayerPass& pass, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  const CarryScratch& carry = s.links.carry;
  const bool local = pass.is_local(), copies = !local && s.past.copies.on();
  carry_change({.rows = pass.own_rows(),
                .images = (local ? carry.local_images : carry.images).device.data,
                .image_count = static_cast<int32_t>(carried_images(pass, q)),
                .rows_in_place = carry.rows_in_place.device.data,
                .places = local ? s.window.places_from(0) : nullptr,
                .layer = pass.cache_layer(),
                .rope = pass.config().rope_of(pass.layer),
                .angles = local ? s.window.angles : s.rows.angles,
                .slot_angles = local ? carry.local_angles : carry.slot_angles,
                .copies = copies ? s.past.copies.kv.of(pass.config().kv_heads) : KvLayerRows()},
               q);
  if (local) copy_window(pass, q);  // the slots have changed
}

}  // namespace

Status CarryScratch::lay_out(const TextConfig& c, const LinkLimits& limits, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  OCELLUS_TRY(images.lay_out(sink, "carried images", kLife, kPhase, 1, limits.images));
  OCELLUS_TRY(rows_in_place.lay_out(sink, "rows in place", kLife, kPhase, limits.images, limits.in_place));
  const int64_t places = limits.images * (limits.slots + 1);
  OCELLUS_TRY(positions.lay_out(c.rope, places, "slot positions", sink));
  OCELLUS_TRY(take_rows(sink, "slot angles", kLife, kPhase, places, c.rope.rotated, &slot_angles));
  if (c.local.window == 0) return {};
  OCELLUS_TRY(local_images.lay_out(sink, "carried local images", kLife, kPhase, 1, limits.images));
  return take_rows(sink, "local slot angles", kLife, kPhase, places, c.local.rope.rotated, &local_angles);
}

void plan_carry(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache, int64_t first_copied,
                const PrefillScratch& s, PrefillPlan* plan, Queue& queue) {
  const CarryScratch& carry = s.links.carry;
  const bool has_local = carry.local_images.host.cols > 0;
  clear_carried(carry);
  const int64_t most_slots = carry.places() - 1;
  CarriedSlots slots(chunk, first_position, s);
  for (int64_t i = 0; i < chunk.linked_image_count; ++i) {
    const LinkedImage& linked = chunk.linked_images.data[i];
    CarriedImage& image = carry.images.host.data[plan->carried_images++];
    image.block = cache.image_block(linked.ordinal, 0);
    image.in_place = linked.in_place;
    image.slots = linked.slots;
    image.first_row = static_cast<int32_t>(i * carry.rows_in_place.host.cols);
    image.first_angle = static_cast<int32_t>(i * carry.places());
    image.shift_angle = static_cast<int32_t>(image.first_angle + most_slots);
    slots.list(i, linked, carry.rows_in_place.host.row(i));
    std::fill_n(carry.positions.host_row(image.shift_angle), carry.positions.coordinates, linked.position_shift);
    if (has_local) carry.local_images.host.data[i] = image;
    if (has_local) carry.local_images.host.data[i].block = cache.local_image_block(linked.ordinal, 0);
    if (!s.past.copies.on() || linked.position_shift == 0) continue;
    image.first_copy = static_cast<int32_t>(first_copied * kPackedTileSlots);
    first_copied += blocks_of(linked.slots - linked.in_place, kPackedTileSlots);
  }
  upload_carry(carry, queue);
}

void carry_no_change(const CarryScratch& carry, Queue& queue) {
  clear_carried(carry);
  upload_carry(carry, queue);
}

void find_slot_angles(const LayerPass& pass, Queue& q) {
  const CarryScratch& carry = pass.scratch.links.carry;
  carry.positions.find_angles(pass.config().rope, carry.slot_angles, q);
  if (carry.local_images.host.cols > 0) carry.positions.find_angles(pass.config().local.rope, carry.local_angles, q);
}

void carry_ahead(const LayerPass& pass, DeviceView<float> hidden, Queue& q) {
  if (carried_images(pass, q) == 0 || pass.scratch.limits.block_rows >= hidden.rows) return;
  prepare_blocks(pass, hidden, q);
  carry_layer(pass, q);
}

void carry_in_block(const LayerPass& pass, const RowBlock& block, Queue& q) {
  if (carried_images(pass, q) > 0 && block.hidden.rows == block.chunk_rows) carry_layer(pass, q);
}

}  // namespace ocellus
