// Tiles are named in assembly throughout: GCC 12 takes the loading of their shapes for reading 8 bytes, and leaves out
// the stores of the others.
#include "kernels/linear/matmul_tiles.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <type_traits>

namespace ocellus {
namespace {

constexpr int64_t kRowBytes = 64, kLoneInputs = 4, kLoneWeights = 5;

struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};

template <int kTile>
void load_tile(const void* from) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(kRowBytes), "i"(kTile) : "memory");
}

template <int kTile>
void store_tile(float* sums) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(sums), "r"(kRowBytes), "i"(kTile) : "memory");
}

template <int kTile>
void clear_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

// sums[m][n] += products of sixteen pairs, kRows [m][pair] and kColumns [pair][n].
template <int kSums, int kRows, int kColumns>
void add_tile_products() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kColumns));
}

// Inputs as rows, in one tile after the other, with the weights in another.
template <int kTile>
void add_products(const uint32_t* inputs) {
  load_tile<kLoneInputs>(inputs);
  add_tile_products<kTile, kLoneInputs, kLoneWeights>();
}

// Tiles 0 to 3 are sums, [panel][block], 4 and 5 inputs of two blocks, 6 and 7 weights of two panels: four products
// need four loads at most, and none waits for the one before.
template <int kPanels, int kBlocks>
class PartProducts {
 public:
  explicit PartProducts(const TileProduct& p) : p_(p) {}

  void run() const {
    for_sums([this](auto tile, float* sums) {
      if (p_.adds)
        load_tile<tile()>(sums);
      else
        clear_tile<tile()>();
    });
    for (int64_t i = 0; i < p_.tiles; ++i) add(i);
    for_sums([](auto tile, float* sums) { store_tile<tile()>(sums); });
  }

 private:
  template <class Body>
  void for_sums(Body body) const {
    body(std::integral_constant<int, 0>(), p_.sums);
    if constexpr (kPanels > 1) body(std::integral_constant<int, 2>(), p_.sums + kTileUnits);
    if constexpr (kBlocks > 1) {
      body(std::integral_constant<int, 1>(), p_.sums + kPanels * kTileUnits);
      if constexpr (kPanels > 1) body(std::integral_constant<int, 3>(), p_.sums + (kPanels + 1) * kTileUnits);
    }
  }

  // The small products first; each two groups of products share an operand.
  void add(int64_t i) const {
    const uint32_t* weights = p_.weights + i * p_.parts.weights * kTileUnits;
    const uint32_t* inputs = p_.inputs + i * p_.parts.inputs * kTileUnits;
    load_weights(weights);
    if (p_.parts.inputs > 1) {
      load_inputs(inputs + kTileUnits);
      multiply();
    }
    load_inputs(inputs);
    multiply();
    if (p_.parts.weights == 1) return;
    load_weights(weights + kTileUnits);
    multiply();
  }

  void load_weights(const uint32_t* at) const {
    load_tile<6>(at);
    if constexpr (kPanels > 1) load_tile<7>(at + p_.tiles * p_.parts.weights * kTileUnits);
  }
  void load_inputs(const uint32_t* at) const {
    load_tile<4>(at);
    if constexpr (kBlocks > 1) load_tile<5>(at + p_.tiles * p_.parts.inputs * kTileUnits);
  }

  static void multiply() {
    add_tile_products<0, 6, 4>();
    if constexpr (kBlocks > 1) add_tile_products<1, 6, 5>();
    if constexpr (kPanels > 1) add_tile_products<2, 7, 4>();
    if constexpr (kPanels > 1 && kBlocks > 1) add_tile_products<3, 7, 5>();
  }

  const TileProduct& p_;
};

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

TileUse::TileUse() {
  if (!has_tile_products()) return;
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.bytes[i] = kRowBytes;
    shapes.rows[i] = kTileInputRows;
  }
  asm volatile("ldtilecfg %0" : : "m"(shapes) : "memory");
}
TileUse::~TileUse() {
  if (has_tile_products()) asm volatile("tilerelease" : : : "memory");
}

void multiply_parts(const TileProduct& product) {
  if (product.panels > 1)
    product.blocks > 1 ? PartProducts<2, 2>(product).run() : PartProducts<2, 1>(product).run();
  else
    product.blocks > 1 ? PartProducts<1, 2>(product).run() : PartProducts<1, 1>(product).run();
}

void multiply_tiles(const uint32_t* panel, const uint32_t* tiles, int64_t count, int64_t pairs, float* sums) {
  clear_tile<0>();
  clear_tile<1>();
  clear_tile<2>();
  clear_tile<3>();
  const int64_t rows = kTileInputRows * pairs;
  for (int64_t i = 0; i < kTileInputRows * pairs; i += kTileUnits) {
    load_tile<kLoneWeights>(panel + i);
    add_products<0>(tiles + i);
    if (count > kTileInputRows) add_products<1>(tiles + rows + i);
    if (count > 2 * kTileInputRows) add_products<2>(tiles + 2 * rows + i);
    if (count > 3 * kTileInputRows) add_products<3>(tiles + 3 * rows + i);
  }
  store_tile<0>(sums);
  if (count > kTileInputRows) store_tile<1>(sums + kTileUnits);
  if (count > 2 * kTileInputRows) store_tile<2>(sums + 2 * kTileUnits);
  if (count > 3 * kTileInputRows) store_tile<3>(sums + 3 * kTileUnits);
}

}  // namespace ocellus

#endif
