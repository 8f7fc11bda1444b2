// Sessions of a decode step, and their cache, for the tests of attend_step.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/attention/attend_step.h"
#include "kernels/attention/step/plan.h"
#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"
#include "tests/support/visible_memory.h"

namespace ocellus::step_test {

inline constexpr int32_t kLayers = 2, kLayer = 1;

/// One session: images with their slots, pages with their live slots, then the page with the new slot.
struct Session {
  std::vector<int32_t> images;
  std::vector<int32_t> pages;
  int32_t new_slot = 0;
  bool active = true;
};

/// Zeros, as the op wants it before the first call, where it says so; NaN where it does not.
class Scratch {
 public:
  Scratch(int64_t bytes, int64_t groups, Queue& queue)
      : bytes_(1, bytes), counters_(queue.on_cuda() ? AttendStepScratch::counters_bytes(groups) : 0) {
    std::memset(bytes_.data(), 0xFF, static_cast<size_t>(bytes));
    std::memset(bytes_.data() + bytes - counters_, 0, static_cast<size_t>(counters_));
  }
  DeviceView<std::byte> view() { return bytes_.view(); }
  bool intact() const {
    const std::byte* counters = &bytes_.at(0, bytes_count() - counters_);
    for (int64_t i = 0; i < counters_; ++i)
      if (counters[i] != std::byte{0}) return false;
    return bytes_.intact();
  }

 private:
  int64_t bytes_count() const { return const_cast<test::Guarded<std::byte>&>(bytes_).view().cols; }

  test::Guarded<std::byte> bytes_;
  int64_t counters_;
};

struct Shape {
  int32_t heads, kv_heads, dim, rotated;
  RopePairing pairing;
  std::vector<Session> sessions;
  int32_t window = 0;  // sessions then have full pages only
};

/// All runs of all sessions in one piece of memory. Whatever is not a live slot of kLayer holds NaN.
class Cache {
 public:
  Cache(const Shape& shape, test::Random& random) : shape_(shape) {
    int64_t halves = 0;
    for (const Session& session : shape.sessions) {
      for (const int32_t slots : session.images) halves += run_halves(slots);
      halves += static_cast<int64_t>(session.pages.size() + 2) * run_halves(kTileSlots);
    }
    cells.assign(static_cast<size_t>(halves), test::kHalfNan);
    for (const Session& session : shape.sessions) {
      std::vector<KvRun> row;
      for (const int32_t slots : session.images) {
        const KvRun run = take(slots, slots, random);
        for (int32_t first = 0; first < slots; first += kTileSlots)
          row.push_back(slice_run(run, first, std::min(kTileSlots, slots - first), shape.dim));
      }
      for (const int32_t live : session.pages) row.push_back(take(kTileSlots, live, random));
      new_tiles.push_back(static_cast<int32_t>(row.size()));
      row.push_back(take(kTileSlots, session.new_slot, random));
      row.back().slots = static_cast<int32_t>(random.integer(0, kTileSlots));  // not looked at
      row.push_back(take(kTileSlots, 0, random));                              // reserved, not live
      row.back().slots = kTileSlots;
      most_tiles = std::max<int64_t>(most_tiles, new_tiles.back() + 1);
      rows_.push_back(row);
    }
    tiles_per_row = most_tiles + 3;
    for (size_t b = 0; b < rows_.size(); ++b) {
      rows_[b].resize(static_cast<size_t>(tiles_per_row));
      std::vector<KvRun> ring = rows_[b];
      std::rotate(ring.rbegin(), ring.rbegin() + ring_turn(b) % tiles_per_row, ring.rend());
      tiles.insert(tiles.end(), ring.begin(), ring.end());
    }
    at_first = cells;
  }

  const KvRun& new_tile(int64_t b) const {
    return rows_[static_cast<size_t>(b)][static_cast<size_t>(new_tiles[static_cast<size_t>(b)])];
  }
  /// Number of the row's first tile in a ring: after some rounds if its beginning is not seen any more.
  int32_t ring_turn(size_t b) const {
    const int32_t slots = new_tiles[b] * kTileSlots + shape_.sessions[b].new_slot + 1;
    return shape_.window > 0 && slots >= shape_.window ? static_cast<int32_t>(3 * tiles_per_row + 2) : 0;
  }
  /// Returns the slots that row b attends to.
  std::vector<test::Slot> live(int64_t b, int32_t kv_head) const {
    const auto row = rows_[static_cast<size_t>(b)].begin();
    std::vector<KvRun> runs(row, row + new_tiles[static_cast<size_t>(b)] + 1);
    runs.back().slots = shape_.sessions[static_cast<size_t>(b)].new_slot + 1;
    std::vector<test::Slot> slots =
        test::live_slots(runs.data(), static_cast<int64_t>(runs.size()), kLayer, kv_head, shape_.dim);
    if (shape_.window > 0 && std::ssize(slots) > shape_.window) slots.erase(slots.begin(), slots.end() - shape_.window);
    return slots;
  }
  /// True if `stored` differs from what was there at first in the active rows' new slots only.
  bool untouched_elsewhere() const {
    test::Vector<Half> expected = at_first;
    for (int64_t b = 0; b < static_cast<int64_t>(rows_.size()); ++b) {
      const Session& session = shape_.sessions[static_cast<size_t>(b)];
      for (int32_t head = 0; session.active && head < shape_.kv_heads; ++head) {
        for (Half* place : {run_keys(new_tile(b), kLayer, head), run_values(new_tile(b), kLayer, head)}) {
          place += session.new_slot * shape_.dim;
          std::memcpy(expected.data() + (place - cells.data()), place, static_cast<size_t>(shape_.dim) * 2);
        }
      }
    }
    return std::memcmp(expected.data(), cells.data(), cells.size() * sizeof(Half)) == 0;
  }

  test::Vector<Half> cells, at_first;
  test::Vector<KvRun> tiles;
  std::vector<int32_t> new_tiles;
  int64_t tiles_per_row = 0, most_tiles = 0;

 private:
  int64_t run_halves(int32_t capacity) const { return int64_t{2} * kLayers * shape_.kv_heads * capacity * shape_.dim; }
  KvRun take(int32_t capacity, int32_t live, test::Random& random) {
    const int64_t matrix = int64_t{2} * capacity * shape_.dim;  // bytes of one head's keys
    KvRun run{reinterpret_cast<std::byte*>(cells.data() + taken_),
              2 * shape_.kv_heads * matrix,
              2 * matrix,
              matrix,
              live,
              capacity};
    taken_ += run_halves(capacity);
    for (int32_t head = 0; head < shape_.kv_heads; ++head) {
      for (int64_t i = 0; i < int64_t{live} * shape_.dim; ++i) {
        run_keys(run, kLayer, head)[i] = float_to_half(random.normal());
        run_values(run, kLayer, head)[i] = float_to_half(random.normal());
      }
    }
    return run;
  }

  const Shape& shape_;
  int64_t taken_ = 0;
  std::vector<std::vector<KvRun>> rows_;
};

}  // namespace ocellus::step_test
