#include <algorithm>
#include <functional>

#include "kernels/backends.h"
#include "kernels/cache/select_slots-inl.h"
#include "kernels/cache/select_slots.h"
#include "platform/arena.h"

namespace ocellus {
namespace {

/// One thread's scratch.
struct HeadScratch {
  uint64_t* words;  // one per candidate: its rank, and below it the lower rows as the larger numbers
  uint8_t* kept;    // by row

  static int64_t bytes(int64_t rows) { return aligned_bytes(rows * static_cast<int64_t>(sizeof(uint64_t) + 1)); }
  HeadScratch(std::byte* memory, int64_t rows)
      : words(reinterpret_cast<uint64_t*>(memory)), kept(reinterpret_cast<uint8_t*>(words + rows)) {}
};

constexpr uint64_t word_of(uint32_t rank, int64_t row) {
  return uint64_t{rank} << 32 | (0xFFFFFFFFu - static_cast<uint32_t>(row));
}
constexpr int64_t row_in(uint64_t word) { return int64_t{0xFFFFFFFFu} - static_cast<uint32_t>(word); }

void watch_ncar(const SelectSlotsArgs& args) {
  if (!select::is_watching(args)) return;
  if (args.ncar.layer == 0) *args.ncar.state = NcarState();
  double sum = 0;
  for (int64_t head = 0; head < args.scores.rows; ++head) {
    const float* scores = args.scores.row(head);
    for (int64_t row = 0; row < args.rows.count; ++row)
      if (select::is_visual_row(args, row)) sum += static_cast<double>(scores[row]);
  }
  select::note_ncar(args, select::ncar_of(args, sum));
}

/// No two words are equal, so the set of the best ones does not depend on the algorithm.
void keep_best(uint64_t* words, int64_t count, int64_t wanted, uint8_t* kept) {
  if (wanted < count) std::nth_element(words, words + wanted, words + count, std::greater<>());
  for (int64_t i = 0; i < wanted; ++i) kept[row_in(words[i])] = 1;
}

void choose_rows(const SelectSlotsArgs& args, bool decoupled, int64_t head, const HeadScratch& s) {
  const int64_t rows = select::rows_to_choose_from(args);
  std::fill_n(s.kept, rows, uint8_t{0});
  std::fill_n(s.kept + rows, args.rows.count - rows, uint8_t{1});
  if (rows == 0) return;
  // Text, or all rows, from the front; visual rows of the decoupled stage from the back.
  const float* scores = args.scores.row(head);
  int64_t text = 0, visual = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const float score = select::pool_score(scores, rows, row, args.pool.width, args.pool.kind);
    const bool apart = decoupled && select::is_visual_row(args, row);
    (apart ? s.words[rows - ++visual] : s.words[text++]) = word_of(select::rank_of(score), row);
  }
  const select::Shares shares = select::share_budget(args.budget, decoupled ? args.visual_quota : 0, text, visual);
  keep_best(s.words, text, shares.text, s.kept);
  keep_best(s.words + text, visual, shares.visual, s.kept);
}

void list_rows(const SelectSlotsArgs& args, int64_t head, const uint8_t* kept) {
  int32_t text = 0, visual = 0;
  for (int64_t row = 0; row < args.rows.count; ++row) {
    if (kept[row] == 0) continue;
    if (select::goes_to_visual(args, row, select::is_visual_row(args, row), text + visual))
      args.kept.visual.row(head)[visual++] = static_cast<int32_t>(row);
    else
      args.kept.text.row(head)[text++] = static_cast<int32_t>(row);
  }
  args.kept.text_counts[head] = text;
  if (args.kept.is_split) args.kept.visual_counts[head] = visual;
}

}  // namespace

int64_t select_slots_scratch_bytes(int64_t row_count, int32_t kv_heads, const DeviceTraits& device) {
  if (device.is_cuda()) return aligned_bytes(row_count * kv_heads * static_cast<int64_t>(sizeof(uint32_t)));
  return HeadScratch::bytes(row_count) * device.thread_count;
}

void cpu::select_slots(const SelectSlotsArgs& args, Queue& queue) {
  select::check(args, queue);
  if (!queue.ok()) return;
  if (args.stage == SelectStage::kUntilSwitch) watch_ncar(args);
  const bool decoupled = select::is_decoupled(args);
  queue.parallel(args.scores.rows, 1, [&](int64_t begin, int64_t end, int worker) {
    const HeadScratch scratch(args.scratch.data + worker * HeadScratch::bytes(args.rows.count), args.rows.count);
    for (int64_t head = begin; head < end; ++head) {
      choose_rows(args, decoupled, head, scratch);
      list_rows(args, head, scratch.kept);
    }
  });
}

}  // namespace ocellus
