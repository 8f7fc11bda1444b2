// Products by the tiles of AMX (Sapphire Rapids and later), whose unit multiplies 16 input rows by 16 weight rows at
// once.
#pragma once

#include <cstdint>

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
  TileUse();
  ~TileUse();
  TileUse(const TileUse&) = delete;
  TileUse& operator=(const TileUse&) = delete;
};

/// Maximum input rows that are multiplied together.
inline constexpr int64_t kMostTileInputs = 4 * kTileInputRows;
/// Multiplies a panel [pairs][16] of pairs of bf16 by `count` input rows, a multiple of 16, in tiles [pairs /
/// 16][16][16]; sums [count][16]. Wants a TileUse.
void multiply_tiles(const uint32_t* panel, const uint32_t* tiles, int64_t count, int64_t pairs, float* sums);

}  // namespace ocellus
