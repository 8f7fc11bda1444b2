#include "mm/tower/kept_views.h"

#include <algorithm>
#include <cmath>

#include "kernels/vision/describe_views.h"

namespace ocellus {
namespace {

constexpr int64_t kChannels = 3;

/// Patches of one plane of a view, with those that its edges cut.
int64_t patches_of_plane(Size size, int32_t patch_size) {
  return int64_t{divide_up(size.height, patch_size)} * divide_up(size.width, patch_size);
}

bool are_near(const float* a, const float* b, int64_t count, float most_change) {
  return std::equal(a, a + count, b, [=](float x, float y) { return std::abs(x - y) <= most_change; });
}

/// The same rows of a view of the same kind stay.
bool are_alike(const WaitingView& a, const WaitingView& b) {
  const RowPlace &p = a.place, &q = b.place;
  return a.size == b.size && a.frames == b.frames && p.lines == q.lines && p.cols == q.cols && p.from == q.from &&
         p.from_stride == q.from_stride;
}

/// Calls copy(a line in `hidden`, the same in `kept`, bytes) for the lines of a view's rows.
template <class Row, class Copy>
void for_each_line(const RowPlace& place, DeviceView<Row> hidden, DeviceView<float> kept, Copy copy) {
  const int64_t bytes = place.cols * hidden.cols * static_cast<int64_t>(sizeof(float));
  for (int64_t line = 0; line < place.lines; ++line)
    copy(hidden.row(place.first + line * place.stride), kept.row(line * place.cols), bytes);
}

}  // namespace

Status KeptViews::lay_out(const KeptViewsShape& shape, const VisionConfig& config, const ViewBatch& most,
                          RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  patch_size_ = config.patch_size;
  OCELLUS_TRY(take_rows(sink, "kept views", kLife, Phase::kNone, 1, shape.count, &kept_));
  if (kept_.data != nullptr) clear();  // null while planning
  OCELLUS_TRY(take_rows(sink, "rows of kept views", kLife, Phase::kNone, shape.count * most.tokens_per_view(),
                        config.row_width(), &rows_));
  if (most.noted)
    OCELLUS_TRY(take_rows(sink, "notes of kept views", kLife, Phase::kNone, rows_.rows, config.note_width(), &notes_));
  OCELLUS_TRY(hashes_.lay_out(sink, "hashes of waiting views", kLife, Phase::kNone, 1, most.views));
  if (shape.change == 0) return {};
  for (int i = 0; i < kChannels; ++i) most_change_[i] = shape.change / config.image_std[i];
  const int64_t patches = kChannels * most.frames * patches_of_plane(most.size, patch_size_);
  OCELLUS_TRY(take_rows(sink, "means of kept views", kLife, Phase::kNone, shape.count, patches, &means_));
  return seen_means_.lay_out(sink, "means of waiting views", kLife, Phase::kNone, most.views, patches);
}

void KeptViews::clear() { std::fill_n(kept_.data, kept_.cols, KeptView()); }

Status KeptViews::describe(DeviceView<const float> pixels, const ViewBatch& batch, int64_t first, Queue& queue) {
  const auto copy = [&](auto* to, const auto* from, int64_t values) {
    queue.copy(to, from, values * static_cast<int64_t>(sizeof *to));
  };
  uint64_t* const host = hashes_.host.data + first;
  const DeviceView<uint64_t> hashes = {hashes_.device.data + first, 1, batch.views};
  std::fill_n(host, batch.views, uint64_t{0});
  copy(hashes.data, host, batch.views);
  DeviceView<float> means;
  if (means_.rows > 0) means = seen_means_.device.slice_rows(first, batch.views);
  describe_views(
      {.pixels = pixels, .height = batch.size.height, .square = patch_size_, .hashes = hashes, .means = means}, queue);
  copy(host, hashes.data, batch.views);
  if (means_.rows > 0) copy(seen_means_.host.row(first), means.data, batch.views * means.stride);
  return queue.finish();
}

void KeptViews::renumber(int64_t from, int64_t to) {
  hashes_.host.data[to] = hashes_.host.data[from];
  if (means_.rows > 0) std::copy_n(seen_means_.host.row(from), seen_means_.host.cols, seen_means_.host.row(to));
}

bool KeptViews::is_known(int64_t index, int64_t number, const WaitingView& view) const {
  const KeptView& kept = kept_.data[index];
  if (kept.last_use == 0 || !are_alike(kept.view, view)) return false;
  if (kept.hash == hashes_.host.data[number]) return true;
  if (means_.rows == 0) return false;
  const int64_t patches = patches_of_plane(view.size, patch_size_);
  for (int64_t plane = 0; plane < kChannels * view.frames; ++plane)
    if (!are_near(means_.row(index) + plane * patches, seen_means_.host.row(number) + plane * patches, patches,
                  most_change_[plane % kChannels]))
      return false;
  return true;
}

bool KeptViews::give(int64_t number, const WaitingView& view, DeviceView<float> hidden, DeviceView<float> notes,
                     Queue& queue) {
  const auto give = [&](float* place, const float* kept, int64_t bytes) { queue.copy(place, kept, bytes); };
  for (int64_t index = 0; index < kept_.cols; ++index) {
    if (!is_known(index, number, view)) continue;
    kept_.data[index].last_use = ++uses_;
    const int64_t rows = rows_.rows / kept_.cols;
    for_each_line(view.place, hidden, rows_.slice_rows(index * rows, rows), give);
    if (notes_.rows > 0) for_each_line(view.place, notes, notes_.slice_rows(index * rows, rows), give);
    return true;
  }
  return false;
}

void KeptViews::keep(int64_t number, const WaitingView& view, DeviceView<const float> hidden,
                     DeviceView<const float> notes, Queue& queue) {
  const auto take = [&](const float* place, float* to, int64_t bytes) { queue.copy(to, place, bytes); };
  const auto used_before = [](const KeptView& a, const KeptView& b) { return a.last_use < b.last_use; };
  KeptView* const kept = std::min_element(kept_.data, kept_.data + kept_.cols, used_before);
  const int64_t index = kept - kept_.data, rows = rows_.rows / kept_.cols;
  *kept = {.view = view, .hash = hashes_.host.data[number], .last_use = ++uses_};
  for_each_line(view.place, hidden, rows_.slice_rows(index * rows, rows), take);
  if (notes_.rows > 0) for_each_line(view.place, notes, notes_.slice_rows(index * rows, rows), take);
  if (means_.rows > 0) std::copy_n(seen_means_.host.row(number), means_.cols, means_.row(index));
}

}  // namespace ocellus
