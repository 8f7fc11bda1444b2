// Operands of products with half-precision weights by the tiles of AMX, as parts in bf16: a value is the sum of a first
// part, which has its upper 8 bits, and of a second one. Included once per CPU target.
//
// Pairs are of values 16 columns apart, so that no value changes its lane.
#if defined(OCELLUS_KERNELS_MATMUL_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_MATMUL_PARTS_INL_H_
#undef OCELLUS_KERNELS_MATMUL_PARTS_INL_H_
#else
#define OCELLUS_KERNELS_MATMUL_PARTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/linear/interleave-inl.h"
#include "kernels/linear/matmul_floats-inl.h"
#include "kernels/linear/matmul_tiles.h"
#include "platform/device.h"
#include "platform/round_up.h"
#include "platform/views.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rounds to bf16 in the upper half of each lane: to nearest even, or where a second part follows, which has what is
// lost, also ties and not-a-numbers away from zero.
template <int kParts, class V>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<hn::DFromV<V>>> round_first(V value) {
  const hn::RebindToUnsigned<hn::DFromV<V>> du;
  const auto bits = hn::BitCast(du, value);
  if constexpr (kParts > 1) return hn::Add(bits, hn::Set(du, 0x8000u));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFu)), odd);
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), hn::Or(bits, hn::Set(du, 0x400000u)), rounded);
}

// Writes 32 values as one row of a tile for each part. A second part is cut off, which for F16 loses nothing.
template <class Reader, int kParts>
HWY_INLINE void write_parts(const uint8_t* from, uint32_t* out) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto upper = hn::Set(du, 0xFFFF0000u);
  for (int64_t i = 0; i < 16; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto a = Reader::read(d, from, i), b = Reader::read(d, from, i + 16);
    const auto first_a = round_first<kParts>(a), first_b = hn::And(round_first<kParts>(b), upper);
    hn::StoreU(hn::Or(hn::ShiftRight<16>(first_a), first_b), du, out + i);
    if constexpr (kParts > 1) {
      const auto rest_a = hn::Sub(a, hn::BitCast(d, hn::And(first_a, upper)));
      const auto rest_b = hn::Sub(b, hn::BitCast(d, first_b));
      hn::StoreU(hn::Or(hn::ShiftRight<16>(hn::BitCast(du, rest_a)), hn::And(hn::BitCast(du, rest_b), upper)), du,
                 out + kTileUnits + i);
    }
  }
}

// The same for columns begin.. of a row of `cols`, with zeros after its end.
template <class Reader, int kParts>
HWY_INLINE void write_columns(const uint8_t* row, int64_t begin, int64_t cols, uint32_t* out) {
  if (begin + kTileCols <= cols) return write_parts<Reader, kParts>(row + Reader::kBytes * begin, out);
  float tail[kTileCols] = {};
  if (begin < cols) decode_row(Reader::kFormat, row + Reader::kBytes * begin, cols - begin, tail);
  write_parts<ReadF32, kParts>(reinterpret_cast<const uint8_t*>(tail), out);
}

// Columns begin.. of sixteen weight rows as tiles [tiles][kParts][16 rows][16 pairs].
template <class Reader, int kParts>
HWY_ATTR void fill_weight_tiles(const uint8_t* const* rows, int64_t begin, int64_t tiles, int64_t cols, uint32_t* out) {
  for (int64_t r = 0; r < kPanelRows; ++r) {
    fetch_weights(rows[r] + Reader::kBytes * (begin + tiles * kTileCols), Reader::kBytes * tiles * kTileCols);
    for (int64_t i = 0; i < tiles; ++i)
      write_columns<Reader, kParts>(rows[r], begin + i * kTileCols, cols, out + (i * kParts * 16 + r) * 16);
  }
}

// Columns begin.. of `count` input rows, at most sixteen, as tiles [tiles][kParts][16 pairs][16 rows]; other rows are
// zero.
template <int kParts>
HWY_ATTR void fill_input_tiles(const float* x, int64_t stride, int64_t count, int64_t begin, int64_t tiles,
                               int64_t cols, uint32_t* out) {
  HWY_ALIGN uint32_t rows[kParts * kTileUnits] = {};
  for (int64_t i = 0; i < tiles; ++i) {
    for (int64_t t = 0; t < count; ++t)
      write_columns<ReadF32, kParts>(reinterpret_cast<const uint8_t*>(x + t * stride), begin + i * kTileCols, cols,
                                     rows + 16 * t);
    for (int64_t part = 0; part < kParts; ++part)
      interleave_sixteen(rows + part * kTileUnits, 16, 16, out + (i * kParts + part) * kTileUnits);
  }
}

// Products of at most kPartInputs input rows, whose parts are made once, with all weights. The inputs of each piece of
// the columns lie together: [piece][block][tiles].
class PartTiles {
 public:
  /// `scratch` has part_bytes() for the inputs' parts.
  PartTiles(const DeviceView<const float>& input, CpuMath math, std::byte* scratch)
      : input_(input), input_parts_(math == CpuMath::kBf16 ? 1 : 2), inputs_(reinterpret_cast<uint32_t*>(scratch)) {}

  /// Makes the parts of one block of sixteen rows.
  HWY_ATTR void round_input(int64_t block) const {
    const int64_t t = block * kTileInputRows, count = std::min(kTileInputRows, input_.rows - t);
    const auto fill = input_parts_ == 1 ? fill_input_tiles<1> : fill_input_tiles<2>;
    for (int64_t first = 0; first < tiles_; first += piece_)
      fill(input_.row(t), input_.stride, count, first * kTileCols, piece_tiles(first), input_.cols,
           inputs(first, block));
  }

  /// Multiplies `count` of kPartRows weight rows by all input rows. `scratch` has part_thread_bytes();
  /// multiply(TileProduct); finish(input row, panel, sums [16]).
  template <class Multiply, class Finish>
  HWY_ATTR void multiply(WeightFormat format, const uint8_t* const* rows, int64_t count, std::byte* scratch,
                         const Multiply& multiply, const Finish& finish) const {
    auto* weights = reinterpret_cast<uint32_t*>(scratch);
    auto* sums = reinterpret_cast<float*>(scratch + part_weight_bytes(input_.cols));
    TileProduct p;
    p.panels = static_cast<int>(divide_up(count, kPanelRows));
    p.parts = {format == WeightFormat::kBF16 ? 1 : input_parts_, input_parts_};
    p.weights = weights;
    for (int64_t first = 0; first < tiles_; first += piece_) {
      p.tiles = piece_tiles(first);
      p.adds = first > 0;
      for (int64_t i = 0; i < p.panels; ++i)
        fill_weights(format, rows + i * kPanelRows, first, p.parts.weights,
                     weights + i * p.tiles * p.parts.weights * kTileUnits);
      for (int64_t block = 0; block < blocks_; block += 2) {
        p.blocks = block + 1 < blocks_ ? 2 : 1;
        p.inputs = inputs(first, block);
        p.sums = sums + block * p.panels * kTileUnits;
        multiply(p);
        for (int64_t i = 0; first + p.tiles == tiles_ && i < p.blocks * p.panels; ++i)
          finish_tile(block + i / p.panels, i % p.panels, p.sums + i * kTileUnits, finish);
      }
    }
  }

 private:
  int64_t piece_tiles(int64_t first) const { return std::min(piece_, tiles_ - first); }

  uint32_t* inputs(int64_t first, int64_t block) const {
    return inputs_ + (blocks_ * first + block * piece_tiles(first)) * input_parts_ * kTileUnits;
  }

  HWY_ATTR void fill_weights(WeightFormat format, const uint8_t* const* rows, int64_t first, int parts,
                             uint32_t* out) const {
    const auto fill = format == WeightFormat::kBF16 ? fill_weight_tiles<ReadBF16, 1>
                      : parts == 1                  ? fill_weight_tiles<ReadF16, 1>
                                                    : fill_weight_tiles<ReadF16, 2>;
    fill(rows, first * kTileCols, piece_tiles(first), input_.cols, out);
  }

  // `sums` are [16 weight rows][16 input rows].
  template <class Finish>
  HWY_ATTR void finish_tile(int64_t block, int64_t panel, const float* sums, const Finish& finish) const {
    HWY_ALIGN uint32_t turned[kTileUnits];
    interleave_sixteen(reinterpret_cast<const uint32_t*>(sums), 16, 16, turned);
    const int64_t begin = block * kTileInputRows, count = std::min(kTileInputRows, input_.rows - begin);
    for (int64_t t = 0; t < count; ++t)
      finish(begin + t, panel, reinterpret_cast<const float*>(turned + kPanelRows * t));
  }

  const DeviceView<const float> input_;
  const int input_parts_;
  uint32_t* const inputs_;
  const int64_t piece_ = piece_tiles_of(input_parts_), blocks_ = part_blocks(input_.rows),
                tiles_ = divide_up(input_.cols, kTileCols);
};

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
