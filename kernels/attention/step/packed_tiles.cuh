// The tiles of one warp if they may be packed.
#pragma once

#include "kernels/attention/step/block.cuh"

namespace ocellus::cuda {

/// A tile in one layer and key/value head.
struct alignas(16) StepTile {
  const std::byte* keys;   // keys of its first slot
  const std::byte* block;  // packed: the scales; f16: null
  int64_t value_offset;
  int count;  // slots in the cache, without the new one
  int shift;  // position_shift
};

/// A warp's tiles without empty ones: first the packed ones, then the f16 ones, the new tile last. Their order does not
/// matter to attention, and so the format changes only once.
struct TileCounts {
  int packed = 0;
  int all = 0;
  bool has_new = false;
};
static_assert(kAttendStepMostTiles == int64_t{kWarp} * kStepWarps, "a lane reads one tile at most");

__device__ inline StepTile read_tile(const StepParams& p, const StepPiece& piece, int index) {
  const KvRun& run = p.tiles.at(piece.row, index);
  StepTile tile;
  tile.shift = __ldcg(&run.position_shift);
  tile.count = index == piece.new_tile ? piece.new_slot : live_in(run, p, piece.kv_head);
  if (__ldcg(reinterpret_cast<const unsigned char*>(&run.packed)) == 0) {
    tile.keys = keys_of(run, p.layer.index, piece.kv_head);
    tile.block = nullptr;
    tile.value_offset = __ldcg(&run.value_offset);
    return tile;
  }
  // As in KvBlockLayout.
  const int64_t first = __ldcg(&run.first), capacity = first + __ldcg(&run.capacity);
  const int key_row = p.layer.key_row_bytes, value_row = p.layer.value_row_bytes;
  int64_t key_bytes = capacity * key_row;
  if (key_row != value_row) key_bytes = (key_bytes + 15) / 16 * 16;
  const int64_t block_bytes = (p.layer.scale_bytes + key_bytes + capacity * value_row + 15) / 16 * 16;
  tile.block = load_pointer(run.data) + p.layer.offset + piece.kv_head * block_bytes;
  tile.keys = tile.block + p.layer.scale_bytes + first * key_row;
  tile.value_offset = key_bytes + first * (value_row - key_row);
  return tile;
}

/// f16 tiles being prefetched into the L2 cache while one is processed.
inline constexpr int kPlainAhead = 2;

__device__ inline void fetch_tile(const StepTile& tile, int dim) {
  if (tile.count == 0) return;
  fetch_ahead(tile.keys, 2 * dim * tile.count);
  fetch_ahead(tile.keys + tile.value_offset, 2 * dim * tile.count);
}

/// Lists the tiles of a warp, every kStepWarps-th of the piece, and prefetches what the stages below do not fetch. All
/// lanes call it together.
__device__ inline TileCounts list_tiles(const StepParams& p, const StepPiece& piece, int warp, int lane,
                                        StepTile (&list)[kWarp]) {
  const int index = piece.begin + warp + lane * kStepWarps;
  StepTile tile{};
  if (index < piece.end) tile = read_tile(p, piece, index);
  const bool is_new = index < piece.end && index == piece.new_tile;
  const unsigned packed = __ballot_sync(0xFFFFFFFFu, tile.block != nullptr && tile.count > 0);
  const unsigned plain = __ballot_sync(0xFFFFFFFFu, tile.block == nullptr && (tile.count > 0 || is_new));
  const unsigned own = 1u << lane, before = own - 1;
  TileCounts tiles;
  tiles.packed = __popc(packed);
  tiles.all = tiles.packed + __popc(plain);
  tiles.has_new = __any_sync(0xFFFFFFFFu, is_new);
  if (packed & own) list[__popc(packed & before)] = tile;
  if (plain & own) list[tiles.packed + __popc(plain & before)] = tile;
  const auto block = reinterpret_cast<unsigned long long>(tile.block);
  const bool other_block = __shfl_up_sync(0xFFFFFFFFu, block, 1) != block || lane == 0;
  if ((packed & own) && other_block) fetch_ahead(tile.block, p.layer.scale_bytes);
  if ((plain & own) && __popc(plain & before) < kPlainAhead) fetch_tile(tile, p.heads.dim);
  __syncwarp();
  return tiles;
}

}  // namespace ocellus::cuda
