#include <algorithm>
#include <cstring>

#include "kernels/backends.h"
#include "kernels/linear/fill_weights-inl.h"
#include "kernels/linear/fill_weights.h"
#include "platform/round_up.h"

namespace ocellus {
namespace {

constexpr int64_t kWordsPerPiece = 16384;

/// Writes word i as next(random word) while the tensor has room for it; its last word may be cut.
template <class Next>
void write_words(const FillWeightsArgs& args, int64_t bytes, int64_t begin, int64_t end, Next next) {
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t word = next(fill::random_word(args.seed, i));
    const int64_t at = i * fill::kWordBytes;
    std::memcpy(args.data + at, &word, static_cast<size_t>(std::min<int64_t>(fill::kWordBytes, bytes - at)));
  }
}

template <WeightFormat kFormat>
void fill_plain(const FillWeightsArgs& args, int64_t bytes, int64_t begin, int64_t end) {
  const float spread = fill::spread_of(args.deviation);
  write_words(args, bytes, begin, end,
              [&](uint64_t random) { return fill::plain_word<kFormat>(random, args.mean, spread); });
}

void fill_piece(const FillWeightsArgs& args, int64_t bytes, int64_t begin, int64_t end) {
  switch (args.format) {
    case WeightFormat::kF32: return fill_plain<WeightFormat::kF32>(args, bytes, begin, end);
    case WeightFormat::kF16: return fill_plain<WeightFormat::kF16>(args, bytes, begin, end);
    case WeightFormat::kBF16: return fill_plain<WeightFormat::kBF16>(args, bytes, begin, end);
    default: break;
  }
  const fill::ScaleRun run = fill::scale_run(args.format, args.deviation);
  auto at = static_cast<uint32_t>(begin * fill::kWordBytes % run.block_bytes);
  write_words(args, bytes, begin, end, [&](uint64_t random) { return fill::block_word(run, random, &at); });
}

}  // namespace

namespace cpu {

void fill_weights(const FillWeightsArgs& args, Queue& queue) {
  const int64_t bytes = args.rows * row_bytes(args.format, args.cols);
  const int64_t words = divide_up(bytes, fill::kWordBytes);
  queue.parallel(words, kWordsPerPiece, [&](int64_t begin, int64_t end, int) { fill_piece(args, bytes, begin, end); });
}

}  // namespace cpu

uint64_t seed_at_row(const FillWeightsArgs& whole, int64_t row) {
  const int64_t words = row * row_bytes(whole.format, whole.cols) / fill::kWordBytes;
  return whole.seed + static_cast<uint64_t>(words) * fill::kSeedStep;
}

}  // namespace ocellus
