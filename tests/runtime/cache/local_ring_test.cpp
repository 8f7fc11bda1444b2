#include "runtime/cache/local_ring.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "platform/queue.h"
#include "platform/round_up.h"
#include "platform/threads.h"

namespace ocellus {
namespace {

LocalShape shape_of(int32_t window, int64_t prompt_rows) {
  LocalShape shape{.layers = 2, .window = window, .kv_heads = 3, .head_dim = 8};
  shape.slots = LocalShape::slots_for(window, prompt_rows);
  return shape;
}

/// A ring over memory of its own.
struct Ring {
  explicit Ring(const LocalShape& shape_)
      : shape(shape_),
        memory(static_cast<size_t>(shape.ring_bytes())),
        states(static_cast<size_t>(kKeptStates * shape.state_bytes())) {
    ring.attach(shape, memory.data(), states.data());
  }
  LocalShape shape;
  std::vector<std::byte> memory, states;
  LocalRing ring;
};

}  // namespace

TEST_CASE("a ring has room for what the next row sees, and for as much of a prompt that may yet be dropped") {
  for (const int32_t window : {1, 2, 15, 16, 17, 33, 512, 1024}) {
    for (const int64_t rows : {1, 7, 16, 300, 2048}) {
      CAPTURE(window);
      CAPTURE(rows);
      const LocalShape shape = shape_of(window, rows);
      CHECK(shape.slots % kTileSlots == 0);
      CHECK(shape.slots >= window);
      Ring r(shape);
      for (int64_t prompt = 0; prompt < 5; ++prompt) {
        const int64_t stored = shape.stored_of(rows), before = r.ring.rows();
        CHECK(r.ring.seen_rows() + stored <= shape.slots);
        r.ring.reserve(stored);
        CHECK(r.ring.still_has(before));
        r.ring.commit(stored);
      }
    }
  }
}

TEST_CASE("slots of consecutive rows are apart, and lie in the ring's memory") {
  Ring r(shape_of(40, 24));
  const int64_t slots = r.shape.slots;
  CHECK(slots == round_up(int64_t{39 + 24}, int64_t{16}));
  std::set<std::byte*> places;
  for (int64_t row = 5 * slots + 3; row < 6 * slots + 3; ++row) {
    const KvSlot slot = r.ring.slot(row);
    places.insert(slot.key);
    const std::byte* const last = slot.key + slot.layer_stride + 2 * slot.head_stride + slot.value_offset + 15;
    CHECK(slot.key >= r.memory.data());
    CHECK(last < r.memory.data() + r.memory.size());
    CHECK(r.ring.slot(row + slots).key == slot.key);
    const KvRun run = r.ring.run_from(row);
    CHECK(run.slots == kTileSlots - row % kTileSlots);
    if (run.slots > 1) CHECK(run_slot(run, 1, r.shape.head_dim).key == r.ring.slot(row + 1).key);
  }
  CHECK(std::ssize(places) == slots);
}

TEST_CASE("rows of convolutions fill a ring's slots, layer by layer of a tile") {
  LocalShape shape{.layers = 3, .window = 3, .kv_heads = 1, .head_dim = 24};
  shape.slots = LocalShape::slots_for(3, 2048);
  CHECK(shape.slots == 2 * kTileSlots);
  Ring r(shape);
  std::set<float*> places;
  for (int64_t row = 0; row < shape.slots; ++row)
    for (int64_t layer = 0; layer < shape.layers; ++layer)
      places.insert(r.ring.state_row(row) + layer * shape.state_stride());
  CHECK(std::ssize(places) == shape.slots * shape.layers);
  CHECK(reinterpret_cast<std::byte*>(*places.begin()) == r.memory.data());
  CHECK(reinterpret_cast<std::byte*>(*places.rbegin() + shape.head_dim) == r.memory.data() + r.memory.size());
  CHECK(r.ring.state_row(shape.slots + 5) == r.ring.state_row(5));
  for (auto place = places.begin(); std::next(place) != places.end(); ++place)
    CHECK(*std::next(place) - *place == shape.head_dim);
}

TEST_CASE("a ring knows what has been overwritten") {
  Ring r(shape_of(17, 100));  // 32 slots, of which 16 are seen
  r.ring.commit(10);
  for (int i = 0; i < 21; ++i) r.ring.commit_token();
  CHECK(r.ring.still_has(10));
  r.ring.commit_token();  // the one after it may take the slot of the first row
  CHECK_FALSE(r.ring.still_has(10));
  CHECK(r.ring.still_has(17));
  r.ring.rewind(20);
  CHECK(r.ring.rows() == 20);
  CHECK(r.ring.seen_rows() == 16);
  CHECK_FALSE(r.ring.still_has(10));
  r.ring.rewind(0);
  CHECK(r.ring.seen_rows() == 0);
  CHECK(r.ring.still_has(0));
}

TEST_CASE("a ring of convolutions returns to the states that it keeps, and then knows nothing older") {
  ThreadPool pool;
  Queue queue(pool);
  LocalShape shape{.layers = 3, .window = 3, .kv_heads = 1, .head_dim = 8, .convolves = true};
  shape.slots = LocalShape::slots_for(3, 2048);
  Ring r(shape);
  const auto value = [&](int64_t row, int32_t layer) -> float& {
    return r.ring.state_row(row)[layer * shape.state_stride() + 5];
  };
  const auto read_to = [&](int64_t end) {
    while (r.ring.rows() < end) {
      for (int32_t layer = 0; layer < 3; ++layer)
        value(r.ring.rows(), layer) = static_cast<float>(10 * r.ring.rows() + layer);
      r.ring.commit_token();
    }
  };
  const auto check = [&](int64_t rows) {
    CAPTURE(rows);
    CHECK(r.ring.rows() == rows);
    for (int64_t row = std::max<int64_t>(0, rows - 2); row < rows; ++row)
      for (int32_t layer = 0; layer < 3; ++layer) CHECK(value(row, layer) == static_cast<float>(10 * row + layer));
  };
  read_to(1);
  r.ring.keep(KeptState::kScore, queue);
  read_to(40);
  r.ring.keep(KeptState::kMark, queue);
  read_to(47);
  r.ring.keep(KeptState::kCheckpoint, queue);
  read_to(200);
  for (const int64_t rows : {1, 40, 47}) CHECK_FALSE(r.ring.still_has(rows));
  r.ring.bring_back(KeptState::kCheckpoint, 47, queue);
  check(47);
  CHECK(r.ring.still_has(47));
  CHECK_FALSE(r.ring.still_has(46));  // the row before those was overwritten
  read_to(50);
  CHECK(r.ring.still_has(48));
  r.ring.bring_back(KeptState::kMark, 40, queue);
  check(40);
  r.ring.bring_back(KeptState::kScore, 1, queue);
  check(1);
}

}  // namespace ocellus
