#include "runtime/kv_cache.h"

#include <algorithm>

namespace ocellus {

Status BlockPool::lay_out(const char* name, const char* index_name, int64_t block_bytes, int64_t count, RowSink& sink) {
  OCELLUS_TRY(take_rows(sink, name, Lifetime::kSession, Phase::kNone, count, block_bytes, &memory_));
  OCELLUS_TRY(take_rows(sink, index_name, Lifetime::kSession, Phase::kNone, 1, count, &free_));
  free_count_ = count;
  if (free_.data == nullptr) return {};
  // Block 0 is on top, so that a fresh pool is used from its start.
  for (int64_t i = 0; i < count; ++i) free_.data[i] = static_cast<int32_t>(count - 1 - i);
  return {};
}

int32_t BlockPool::take() { return free_count_ == 0 ? -1 : free_.data[--free_count_]; }

void BlockPool::release(int32_t block) { free_.data[free_count_++] = block; }

Status KvPools::lay_out(const KvShape& shape_, RowSink& sink) {
  shape = shape_;
  OCELLUS_TRY(pages.lay_out("kv text pages", "kv free pages", shape.page_bytes(), shape.page_count, sink));
  return images.lay_out("kv image slots", "kv free image slots", shape.image_bytes(), shape.image_count, sink);
}

KvRun KvPools::run_over(std::byte* block, int32_t capacity) const {
  KvRun run;
  run.data = block;
  run.value_offset = int64_t{2} * capacity * shape.head_dim;
  run.head_stride = 2 * run.value_offset;
  run.layer_stride = run.head_stride * shape.kv_heads;
  run.capacity = capacity;
  return run;
}

Status SessionCache::lay_out(int64_t max_pages, int64_t max_images, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(take_rows(sink, "kv runs", kLife, Phase::kNone, 1, max_pages + max_images, &runs_));
  HostView<std::byte> segments;
  OCELLUS_TRY(take_rows(sink, "kv segments", kLife, Phase::kNone, 1,
                        (max_pages + max_images) * static_cast<int64_t>(sizeof(Segment)), &segments));
  segments_ = {reinterpret_cast<Segment*>(segments.data), 1, max_pages + max_images};
  OCELLUS_TRY(take_rows(sink, "kv page index", kLife, Phase::kNone, 1, max_pages, &page_run_));
  return take_rows(sink, "kv image index", kLife, Phase::kNone, 1, max_images, &image_run_);
}

KvRun* SessionCache::add_segment(SegmentKind kind, int32_t block, std::byte* memory, int32_t capacity) {
  segments_.data[run_count_] = {kind, block};
  runs_.data[run_count_] = pools_->run_over(memory, capacity);
  return &runs_.data[run_count_++];
}

Status SessionCache::reserve_text(int64_t count) {
  const int64_t pages_needed = (text_slots_ + count + kPageSlots - 1) / kPageSlots;
  while (page_count_ < pages_needed) {
    const int32_t block = page_count_ < page_run_.cols ? pools_->pages.take() : -1;
    if (block < 0)
      return OCELLUS_FAIL(Code::kFull, "the session has no room for %lld more text tokens: plan more text tokens",
                          static_cast<long long>(count));
    page_run_.data[page_count_++] = run_count_;
    add_segment(SegmentKind::kText, block, pools_->pages.address(block), kPageSlots);
  }
  return {};
}

Status SessionCache::reserve_image(int32_t* ordinal) {
  const int32_t block = reserved_images_ < image_run_.cols ? pools_->images.take() : -1;
  if (block < 0)
    return OCELLUS_FAIL(Code::kFull, "the session holds its planned %lld images already: plan more images",
                        static_cast<long long>(image_run_.cols));
  image_run_.data[reserved_images_] = run_count_;
  add_segment(SegmentKind::kImage, block, pools_->images.address(block), pools_->shape.image_slots);
  *ordinal = reserved_images_++;
  return {};
}

KvRun SessionCache::text_place(int64_t index, int32_t* slot) const {
  *slot = static_cast<int32_t>(index % kPageSlots);
  return runs_.data[page_run_.data[index / kPageSlots]];
}

int64_t SessionCache::list_images(int32_t most_slots, KvRun* out) const {
  const int64_t dim = pools_->shape.head_dim;
  int64_t count = 0;
  for (int32_t i = 0; i < image_count_; ++i) {
    const KvRun& run = runs_.data[image_run_.data[i]];
    for (int32_t slot = 0; slot < run.slots; slot += most_slots)
      out[count++] = slice_run(run, slot, std::min(most_slots, run.slots - slot), dim);
  }
  return count;
}

int64_t SessionCache::list_live(int32_t most_slots, KvRun* out) const {
  int64_t count = list_images(most_slots, out);
  for (int32_t i = 0; i < page_count_; ++i)
    if (const KvRun& run = runs_.data[page_run_.data[i]]; run.slots > 0) out[count++] = run;
  return count;
}

int64_t SessionCache::list_for_steps(int32_t most_slots, KvRun* out, int32_t* first_page) const {
  int64_t count = list_images(most_slots, out);
  *first_page = static_cast<int32_t>(count);
  for (int32_t i = 0; i < page_count_; ++i) {
    out[count] = runs_.data[page_run_.data[i]];
    out[count++].slots = kPageSlots;
  }
  return count;
}

void SessionCache::commit_text(int64_t count) {
  while (count > 0) {
    KvRun& run = runs_.data[page_run_.data[text_slots_ / kPageSlots]];
    const int32_t added = static_cast<int32_t>(std::min<int64_t>(count, kPageSlots - run.slots));
    run.slots += added;
    text_slots_ += added;
    count -= added;
  }
}

void SessionCache::commit_image(int32_t ordinal, int32_t count) {
  runs_.data[image_run_.data[ordinal]].slots += count;
  image_slots_ += count;
  image_count_ = std::max(image_count_, ordinal + 1);
}

void SessionCache::drop_uncommitted() {
  // Uncommitted segments were taken last, so they stand at the end of the list.
  while (run_count_ > 0 && runs_.data[run_count_ - 1].slots == 0) {
    const Segment& segment = segments_.data[--run_count_];
    if (segment.kind == SegmentKind::kText) {
      pools_->pages.release(segment.block);
      --page_count_;
    } else {
      pools_->images.release(segment.block);
      --reserved_images_;
    }
  }
}

void SessionCache::rewind(int64_t text_slots, int32_t image_count) {
  for (int64_t first = text_slots / kPageSlots, i = first; i < page_count_; ++i)
    runs_.data[page_run_.data[i]].slots = i == first ? static_cast<int32_t>(text_slots % kPageSlots) : 0;
  for (int32_t i = image_count; i < reserved_images_; ++i) {
    KvRun& run = runs_.data[image_run_.data[i]];
    image_slots_ -= run.slots;
    run.slots = 0;
  }
  text_slots_ = text_slots;
  image_count_ = image_count;
  drop_uncommitted();
}

}  // namespace ocellus
