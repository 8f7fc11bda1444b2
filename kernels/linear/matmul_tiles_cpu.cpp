// Tiles are named in assembly throughout: GCC 12 takes the loading of their shapes for reading 8 bytes, and leaves out
// the stores of the others.
#include "kernels/linear/matmul_tiles.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ocellus {
namespace {

constexpr int64_t kRowBytes = 64, kTileFloats = 16 * kTileInputRows;

struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};

// Adds the products of sixteen pairs of each row: tile 5 holds those of the weights.
template <int kTile>
void add_products(const uint32_t* inputs) {
  asm volatile(
      "tileloadd (%0,%1,1), %%tmm4\n\t"
      "tdpbf16ps %%tmm5, %%tmm4, %%tmm%c2"
      :
      : "r"(inputs), "r"(kRowBytes), "i"(kTile)
      : "memory");
}

template <int kTile>
void store_tile(float* sums) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(sums), "r"(kRowBytes), "i"(kTile) : "memory");
}

}  // namespace

bool has_tile_products() {
  static const bool has = [] {
    constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;
    constexpr long kRequestState = 0x1023, kTileData = 18;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 && (d & kTiles) != 0 &&
           syscall(SYS_arch_prctl, kRequestState, kTileData) == 0;
  }();
  return has;
}

// Tiles 0 to 3 are sums, 4 inputs, 5 weights: all of sixteen rows.
TileUse::TileUse() {
  if (!has_tile_products()) return;
  TileShapes shapes;
  for (int i = 0; i < 6; ++i) {
    shapes.bytes[i] = kRowBytes;
    shapes.rows[i] = kTileInputRows;
  }
  asm volatile("ldtilecfg %0" : : "m"(shapes) : "memory");
}
TileUse::~TileUse() {
  if (has_tile_products()) asm volatile("tilerelease" : : : "memory");
}

void multiply_tiles(const uint32_t* panel, const uint32_t* tiles, int64_t count, int64_t pairs, float* sums) {
  asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" : : : "memory");
  const int64_t rows = kTileInputRows * pairs;
  for (int64_t i = 0; i < kTileInputRows * pairs; i += kTileFloats) {
    asm volatile("tileloadd (%0,%1,1), %%tmm5" : : "r"(panel + i), "r"(kRowBytes) : "memory");
    add_products<0>(tiles + i);
    if (count > kTileInputRows) add_products<1>(tiles + rows + i);
    if (count > 2 * kTileInputRows) add_products<2>(tiles + 2 * rows + i);
    if (count > 3 * kTileInputRows) add_products<3>(tiles + 3 * rows + i);
  }
  store_tile<0>(sums);
  if (count > kTileInputRows) store_tile<1>(sums + kTileFloats);
  if (count > 2 * kTileInputRows) store_tile<2>(sums + 2 * kTileFloats);
  if (count > 3 * kTileInputRows) store_tile<3>(sums + 3 * kTileFloats);
}

}  // namespace ocellus

#endif
