// Products by the tiles of AMX (Sapphire Rapids and later), whose unit multiplies 16 input rows by 16 weight rows at
// once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "platform/round_up.h"

namespace ocellus {

inline constexpr int64_t kTileInputRows = 16;  // input rows of a tile

#if defined(__x86_64__)
/// True if the CPU has tiles for pairs of bf16 and Linux lets this process use them.
bool has_tile_products();
#else
constexpr bool has_tile_products() { return false; }
#endif

/// Shapes the CPU's tiles, if it has any, which must be done in each thread.
class TileUse {
 public:
#if defined(__x86_64__)
  TileUse();
  ~TileUse();
#else
  TileUse() {}
  ~TileUse() {}
#endif
  TileUse(const TileUse&) = delete;
  TileUse& operator=(const TileUse&) = delete;
};

/// 32-bit units of a tile, pairs of bf16 or sums, and columns of a tile of pairs.
inline constexpr int64_t kTileUnits = 16 * kTileInputRows, kTileCols = 32;

/// Bf16 values whose sum stands for a value: one has 8 bits of it, two have 16, of F16 weights all.
struct TileParts {
  int weights = 1, inputs = 1;
};

/// Products of a piece of the columns, of one or two panels of sixteen weight rows with one or two blocks of sixteen
/// input rows. All but the products of both second parts, which are below what inputs lose.
struct TileProduct {
  int panels = 2, blocks = 2;
  int64_t tiles = 0;                  // one for each kTileCols columns
  TileParts parts;                    // {1, 1}, {1, 2} or {2, 2}
  const uint32_t* weights = nullptr;  // [panels][tiles][parts][16 rows][16 pairs]
  const uint32_t* inputs = nullptr;   // [blocks][tiles][parts][16 pairs][16 rows]
  float* sums = nullptr;              // [blocks][panels][16 weight rows][16 input rows]
  bool adds = false;                  // to the sums, which otherwise begin at zero
};
/// Wants a TileUse.
void multiply_parts(const TileProduct& product);

/// Input rows that share the parts made of weights, and weight rows that are multiplied together.
inline constexpr int64_t kPartInputs = 256, kPartRows = 2 * 16;
/// Tiles of a piece of the columns by the parts of an input: the weights of a piece, 16 KB, stay in the half of the
/// first cache that one of two threads of a core has.
constexpr int64_t piece_tiles_of(int input_parts) { return input_parts == 1 ? 8 : 4; }

constexpr int64_t part_blocks(int64_t rows) { return divide_up(std::min(rows, kPartInputs), kTileInputRows); }
/// Scratch of the parts of input rows, and that of each thread: parts of a piece of weights, at most eight tiles by one
/// part or four by two of two panels, then sums.
constexpr int64_t part_bytes(int64_t rows, int64_t cols) {
  return part_blocks(rows) * divide_up(cols, kTileCols) * 2 * 4 * kTileUnits;
}
constexpr int64_t part_weight_bytes(int64_t cols) {
  return 2 * std::min<int64_t>(8, 2 * divide_up(cols, kTileCols)) * 4 * kTileUnits;
}
constexpr int64_t part_thread_bytes(int64_t rows, int64_t cols) {
  return part_weight_bytes(cols) + 2 * part_blocks(rows) * 4 * kTileUnits;
}

/// Maximum input rows that are multiplied together.
inline constexpr int64_t kMostTileInputs = 4 * kTileInputRows;
/// Multiplies a panel [pairs][16] of pairs of bf16 by `count` input rows, a multiple of 16, in tiles [pairs /
/// 16][16][16]; sums [count][16]. Wants a TileUse.
void multiply_tiles(const uint32_t* panel, const uint32_t* tiles, int64_t count, int64_t pairs, float* sums);

}  // namespace ocellus
