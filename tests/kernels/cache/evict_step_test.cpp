#include "kernels/cache/evict_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"

namespace ocellus {
namespace {

using test::Activations;
using test::Random;

constexpr int32_t kLayers = 3, kLayer = 1;

struct Row {
  std::vector<int32_t> pages;  // live slots of those before the newest
  int32_t new_slot;
  int32_t recent;
  bool settles, active = true;
  bool moves_sinks = false;
};

struct Shape {
  int32_t heads, kv_heads, dim, rotated;
  RopePairing pairing;
  bool sums;
  std::vector<Row> rows;
};

/// Pages of all rows in a shuffled pool, their ledger, and the steps. Positions and sums are random where slots live.
struct Bench {
  Bench(const Shape& shape_, Random& random) : shape(shape_) {
    const int64_t heads = shape.kv_heads, dim = shape.dim;
    int64_t pages = 1;  // one more page, unused
    for (const Row& row : shape.rows) pages += std::ssize(row.pages) + 1;
    page_halves = int64_t{2} * kLayers * heads * kTileSlots * dim;
    cells.assign(static_cast<size_t>(pages * page_halves), test::kHalfNan);
    slots = pages * kTileSlots;
    positions.assign(static_cast<size_t>(kLayers * heads * slots), -7);
    sums.assign(positions.size(), -7.0f);
    latest.assign(positions.size(), -7.0f);
    std::vector<int32_t> order(static_cast<size_t>(pages));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i) - 1))]);
    for (const Row& row : shape.rows) tiles_per_row = std::max(tiles_per_row, std::ssize(row.pages) + 2);
    size_t next = 0;
    for (const Row& row : shape.rows) add_row(row, order, &next, random);
  }

  void add_row(const Row& row, const std::vector<int32_t>& order, size_t* next, Random& random) {
    StepRow step;
    step.active = row.active ? 1 : 0;
    step.new_tile = static_cast<int32_t>(row.pages.size());
    step.new_slot = row.new_slot;
    step.position = 1000 + static_cast<int32_t>(random.integer(0, 300));
    int32_t live = row.new_slot;
    for (const int32_t page : row.pages) live += page;
    step.eviction = {.on = 1,
                     .slots = live,
                     .budget = live,
                     .recent = row.recent,
                     .settles = row.settles ? 1 : 0,
                     .moves_sinks = row.moves_sinks ? 1 : 0};
    steps.push_back(step);
    const size_t first = tiles.size();
    for (size_t i = 0; i <= row.pages.size(); ++i) {
      const bool is_newest = i == row.pages.size();
      tiles.push_back(page_run(order[(*next)++], is_newest ? kTileSlots : row.pages[i]));
    }
    for (int32_t head = 0; head < shape.kv_heads; ++head) fill_head(row, step, first, head, random);
    tiles.resize(first + static_cast<size_t>(tiles_per_row));
  }

  /// Distinct positions below the newest token's, which lies in the new slot if it is to be settled.
  void fill_head(const Row& row, const StepRow& step, size_t first, int32_t head, Random& random) {
    std::vector<int32_t> places(static_cast<size_t>(step.position - 1));
    std::iota(places.begin(), places.end(), 0);
    for (size_t i = places.size(); i > 1; --i)
      std::swap(places[i - 1], places[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i) - 1))]);
    size_t next = 0;
    for (size_t i = 0; i <= row.pages.size(); ++i) {
      const KvRun& run = tiles[first + i];
      const bool is_newest = i == row.pages.size();
      const int32_t live = is_newest ? row.new_slot + (row.settles ? 1 : 0) : row.pages[i];
      for (int32_t s = 0; s < live; ++s) {
        const bool waits = is_newest && s == row.new_slot;
        const size_t at = cell(head, ledger().first_slot(run) + s);
        positions[at] = waits ? step.position - 1 : random.integer(0, 9) == 0 ? kStays : places[next++];
        // Few values, so that some are equal.
        sums[at] = static_cast<float>(random.integer(0, 5)) / 4;
        latest[at] = static_cast<float>(random.integer(0, 2)) / 4;
        for (int32_t e = 0; e < shape.dim; ++e) {
          run_keys(run, kLayer, head)[s * shape.dim + e] = float_to_half(random.normal());
          run_values(run, kLayer, head)[s * shape.dim + e] = float_to_half(random.normal());
        }
      }
    }
  }

  KvRun page_run(int32_t page, int32_t live) {
    const int64_t matrix = int64_t{2} * kTileSlots * shape.dim;
    return {reinterpret_cast<std::byte*>(cells.data() + page * page_halves),
            2 * shape.kv_heads * matrix,
            2 * matrix,
            matrix,
            live,
            kTileSlots};
  }
  size_t cell(int32_t head, int64_t slot) const {
    return static_cast<size_t>((int64_t{kLayer} * shape.kv_heads + head) * slots + slot);
  }
  SlotLedger ledger() {
    const int64_t lines = int64_t{kLayers} * shape.kv_heads;
    SlotLedger ledger{.positions = {positions.data(), lines, slots}};
    if (shape.sums) ledger.sums = {sums.data(), lines, slots};
    if (shape.sums) ledger.latest = {latest.data(), lines, slots};
    ledger.pages = reinterpret_cast<const std::byte*>(cells.data());
    ledger.page_bytes = 2 * page_halves;
    ledger.page_slots = kTileSlots;
    return ledger;
  }
  const KvRun* row_tiles(size_t b) const { return tiles.data() + static_cast<int64_t>(b) * tiles_per_row; }

  const Shape& shape;
  int64_t page_halves = 0, slots = 0, tiles_per_row = 0;
  test::Vector<Half> cells;
  test::Vector<int32_t> positions;
  test::Vector<float> sums, latest;
  test::Vector<KvRun> tiles;
  test::Vector<StepRow> steps;
};

std::vector<double> rotated(std::vector<double> x, const Shape& shape, int32_t position) {
  for (int32_t pair = 0; pair < shape.rotated / 2; ++pair) {
    const bool adjacent = shape.pairing == RopePairing::kAdjacent;
    const auto first = static_cast<size_t>(adjacent ? 2 * pair : pair);
    const auto second = static_cast<size_t>(adjacent ? 2 * pair + 1 : pair + shape.rotated / 2);
    const double angle = position * std::pow(10000.0, -2.0 * pair / shape.rotated);
    const double a = x[first], b = x[second];
    x[first] = a * std::cos(angle) - b * std::sin(angle);
    x[second] = a * std::sin(angle) + b * std::cos(angle);
  }
  return x;
}

/// The expected result of the op, in double precision, on copies of its inputs.
struct Expected {
  explicit Expected(Bench& bench_)
      : bench(bench_),
        cells(bench_.cells.begin(), bench_.cells.end()),
        positions(bench_.positions.begin(), bench_.positions.end()),
        sums(bench_.sums.begin(), bench_.sums.end()) {}

  struct Place {
    size_t entry;        // in the ledger
    int64_t key, value;  // halves in the pool
  };
  /// Live slots of a row, the new one last.
  std::vector<Place> places(size_t b, int32_t head) {
    const StepRow& step = bench.steps[b];
    std::vector<Place> list;
    for (int32_t i = 0; i <= step.new_tile; ++i) {
      const KvRun& run = bench.row_tiles(b)[i];
      const int32_t live = i == step.new_tile ? step.new_slot + 1 : run.slots;
      for (int32_t s = 0; s < live; ++s)
        list.push_back({bench.cell(head, bench.ledger().first_slot(run) + s),
                        run_keys(run, kLayer, head) - bench.cells.data() + s * bench.shape.dim,
                        run_values(run, kLayer, head) - bench.cells.data() + s * bench.shape.dim});
    }
    return list;
  }

  void settle(size_t b, int32_t head) {
    const StepRow& step = bench.steps[b];
    std::vector<Place> list = places(b, head);
    if (bench.shape.sums)
      for (const Place& place : list) sums[place.entry] += bench.latest[place.entry];
    const Place newest = list.back();
    list.pop_back();
    const auto goes_before = [&](const Place& x, const Place& y) {
      if (bench.shape.sums && sums[x.entry] != sums[y.entry]) return sums[x.entry] < sums[y.entry];
      return bench.shape.sums ? positions[x.entry] > positions[y.entry] : positions[x.entry] < positions[y.entry];
    };
    const Place* victim = nullptr;
    for (const Place& place : list) {
      const int32_t position = positions[place.entry];
      if (position == kStays || (bench.shape.sums && position > step.position - 1 - step.eviction.recent)) continue;
      if (victim == nullptr || goes_before(place, *victim)) victim = &place;
    }
    if (victim == nullptr) return;
    const auto dim = static_cast<size_t>(bench.shape.dim);
    std::copy_n(cells.begin() + newest.key, dim, cells.begin() + victim->key);
    std::copy_n(cells.begin() + newest.value, dim, cells.begin() + victim->value);
    positions[victim->entry] = positions[newest.entry];
    if (bench.shape.sums) sums[victim->entry] = sums[newest.entry];
  }

  /// Returns the attention of the coming token to each live slot.
  std::vector<double> attention(size_t b, int32_t head, const Activations& query, const Activations& key) {
    const Shape& shape = bench.shape;
    const std::vector<Place> list = places(b, head);
    std::vector<double> mean(list.size(), 0.0);
    const int32_t group = shape.heads / shape.kv_heads;
    const auto row = static_cast<int64_t>(b);
    const auto turned = [&](const Activations& from, int64_t first) {
      std::vector<double> values;
      for (int32_t e = 0; e < shape.dim; ++e) values.push_back(static_cast<double>(from.get(row, first + e)));
      return rotated(values, shape, bench.steps[b].position);
    };
    const std::vector<double> new_key = turned(key, int64_t{head} * shape.dim);
    for (int32_t h = 0; h < group; ++h) {
      const std::vector<double> q = turned(query, (int64_t{head} * group + h) * shape.dim);
      std::vector<double> weights;
      for (size_t i = 0; i < list.size(); ++i) {
        double sum = 0;
        for (int32_t e = 0; e < shape.dim; ++e) {
          const auto at = static_cast<size_t>(list[i].key + e);
          sum += q[static_cast<size_t>(e)] * (i + 1 == list.size() ? new_key[static_cast<size_t>(e)]
                                                                   : static_cast<double>(half_to_float(cells[at])));
        }
        weights.push_back(std::exp(sum / std::sqrt(static_cast<double>(shape.dim))));
      }
      const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (size_t i = 0; i < list.size(); ++i) mean[i] += weights[i] / total / group;
    }
    return mean;
  }

  Bench& bench;
  std::vector<Half> cells;
  std::vector<int32_t> positions;
  std::vector<float> sums;
};

/// The steps of a bench, taken once through the op.
struct Run {
  Run(Bench& bench, Queue& queue, Random& random, bool settle_only)
      : query(queue, std::ssize(bench.steps), int64_t{bench.shape.heads} * bench.shape.dim),
        key(queue, std::ssize(bench.steps), int64_t{bench.shape.kv_heads} * bench.shape.dim),
        angles(std::ssize(bench.steps), bench.shape.rotated) {
    const Shape& shape = bench.shape;
    const int64_t rows = std::ssize(bench.steps);
    const RopeParams rope{.pairing = shape.pairing, .rotated = shape.rotated};
    for (int64_t b = 0; b < rows; ++b) {
      for (int32_t e = 0; e < shape.heads * shape.dim; ++e) query.set(b, e, random.normal());
      for (int32_t e = 0; e < shape.kv_heads * shape.dim; ++e) key.set(b, e, random.normal());
    }
    rope_angles({.positions = &bench.steps[0].position,
                 .position_stride = sizeof(StepRow) / sizeof(int32_t),
                 .count = rows,
                 .params = rope,
                 .angles = angles.view()},
                queue);
    const int64_t bytes =
        evict_step_scratch_bytes(rows, bench.tiles_per_row * kTileSlots, bench.tiles_per_row, shape.heads,
                                 shape.kv_heads, shape.dim, KvFormat::kF16, queue.traits());
    test::Guarded<std::byte> scratch(1, bytes);
    EvictStepArgs args{.query = query.view(), .key = key.view()};
    args.heads.query = shape.heads;
    args.heads.kv = shape.kv_heads;
    args.heads.dim = shape.dim;
    args.rope = rope;
    args.angles = angles.view();
    args.tiles.steps = bench.steps.data();
    args.tiles.runs = bench.tiles.data();
    args.tiles.per_row = args.tiles.most = bench.tiles_per_row;
    args.rows = rows;
    args.layer.index = kLayer;
    args.settle_only = settle_only;
    args.ledger = bench.ledger();
    args.scratch = scratch.view();
    evict_step(args, queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    CHECK(scratch.intact());
  }
  Activations query, key;
  test::Guarded<float> angles;
};

/// The ledger's entries of the coming tokens.
void enter_new(Bench& bench, Expected* expected) {
  for (size_t b = 0; b < bench.steps.size(); ++b)
    for (int32_t head = 0; bench.steps[b].active != 0 && head < bench.shape.kv_heads; ++head) {
      const size_t entry = expected->places(b, head).back().entry;
      expected->positions[entry] = bench.steps[b].position;
      if (bench.shape.sums) expected->sums[entry] = 0;
    }
}

bool equal_bits(const std::vector<Half>& a, const test::Vector<Half>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](Half x, Half y) { return x.bits == y.bits; });
}

void check_step(const Shape& shape, Queue& queue, uint64_t seed, bool settle_only) {
  Random random(seed);
  Bench bench(shape, random);
  const std::vector<float> latest_before(bench.latest.begin(), bench.latest.end());
  Expected expected(bench);
  for (size_t b = 0; b < bench.steps.size(); ++b)
    for (int32_t head = 0; head < shape.kv_heads; ++head)
      if (shape.rows[b].active && shape.rows[b].settles) expected.settle(b, head);
  const Run run(bench, queue, random, settle_only);
  if (!settle_only) enter_new(bench, &expected);
  CHECK(equal_bits(expected.cells, bench.cells));
  CHECK(std::equal(expected.positions.begin(), expected.positions.end(), bench.positions.begin()));
  CHECK(std::equal(expected.sums.begin(), expected.sums.end(), bench.sums.begin()));
  std::vector<double> latest(latest_before.begin(), latest_before.end());
  for (size_t b = 0; b < bench.steps.size(); ++b) {
    for (int32_t head = 0; !settle_only && shape.sums && shape.rows[b].active && head < shape.kv_heads; ++head) {
      const std::vector<double> given = expected.attention(b, head, run.query, run.key);
      const std::vector<Expected::Place> places = expected.places(b, head);
      for (size_t i = 0; i < places.size(); ++i) latest[places[i].entry] = given[i];
    }
    const bool moved = !settle_only && shape.rows[b].active && shape.rows[b].moves_sinks;
    CHECK(bench.row_tiles(b)[0].position_shift ==
          (moved ? bench.steps[b].position - bench.steps[b].eviction.slots : 0));
  }
  double worst = 0;
  for (size_t i = 0; i < latest.size(); ++i)
    worst = std::max(worst, std::abs(latest[i] - static_cast<double>(bench.latest[i])) / (std::abs(latest[i]) + 1e-3));
  CHECK(worst < 4e-3);  // keys rounded to f16, one of them by the op
}

std::vector<Shape> shapes(bool sums) {
  using enum RopePairing;
  return {
      {9, 3, 64, 64, kAdjacent, sums, {{{16, 16, 5}, 3, 7, true}}},
      {1, 1, 8, 8, kHalves, sums, {{{}, 1, 1, true}}},
      {4, 2, 72, 40, kHalves, sums, {{{1}, 0, 2, true}, {{16, 4, 16, 16, 16}, 15, 20, false}}},
      {8, 1, 128, 128, kAdjacent, sums, {{{16, 7}, 9, 1, true, false}, {std::vector<int32_t>(40, 16), 2, 300, true}}},
      {2, 2, 512, 64, kAdjacent, sums, {{{4, 16}, 0, 3, true, true, !sums}, {{}, 0, 1, false}}}};
}

TEST_CASE("evict_step gives the newest token the place of what goes first, by sums of attention or by age") {
  test::for_each_backend_and_target([](Queue& queue) {
    uint64_t seed = 0;
    for (const bool sums : {true, false})
      for (const Shape& shape : shapes(sums)) {
        CAPTURE(sums);
        CAPTURE(shape.dim);
        check_step(shape, queue, ++seed, false);
        check_step(shape, queue, ++seed, true);
      }
  });
}

TEST_CASE("where all slots stay, evict_step lets the newest token go") {
  test::for_each_backend([](Queue& queue) {
    const Shape shape{2, 1, 16, 16, RopePairing::kHalves, false, {{{3}, 2, 0, true}}};
    Random random(5);
    Bench bench(shape, random);
    for (int32_t& position : bench.positions) position = kStays;
    const test::Vector<Half> before = bench.cells;
    Run(bench, queue, random, true);
    CHECK(equal_bits({before.begin(), before.end()}, bench.cells));
  });
}

}  // namespace
}  // namespace ocellus
