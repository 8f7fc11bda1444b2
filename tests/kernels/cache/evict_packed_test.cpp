// Eviction during answers where packed blocks lie among the slots: which rows live after every step, and their sums.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "kernels/cache/evict_step.h"
#include "tests/support/device.h"
#include "tests/support/packed_cache.h"

namespace ocellus {
namespace {

using test::Activations;
using test::PackedCache;
using test::Random;
using test::RealSlot;

constexpr int32_t kHeads = 6, kKvHeads = 3, kDim = 64, kLayer = PackedCache::kLayer;
constexpr int32_t kPacked = 100, kPages = 48;  // slots; the last page holds text
constexpr int32_t kText = 32, kNewSlot = 5, kRecent = 9;
constexpr RopeParams kRope{.pairing = RopePairing::kHalves, .rotated = kDim};

struct Setting {
  KvFormat format;
  KvScaleForm form;
  bool sums;
  KvCalibration calibration;
};

/// What the ledger and the cache have of a row.
struct LiveRow {
  RealSlot slot;
  float sum, latest;
  bool packed;
};
using LiveRows = std::map<int32_t, LiveRow>;  // by position

/// A packed block, pages of survivors and a page of text.
struct Bench {
  Bench(const Setting& setting_, Queue& queue_, Random& random_)
      : setting(setting_),
        queue(queue_),
        random(random_),
        cache(random, kKvHeads, kDim,
              {{.format = setting.format, .slots = kPacked, .counts = {100, 65, 2}}, {.slots = kPages}}, setting.form),
        page_counts(static_cast<size_t>(PackedCache::kLayers * kKvHeads), 1 << 20),
        positions(static_cast<size_t>(PackedCache::kLayers * kKvHeads * (kPages + kPacked)), -7),
        sums(positions.size(), -7.0f),
        latest(positions.size(), -7.0f) {
    const KvRun &block = cache.runs()[0], &pages = cache.runs()[1];
    for (const int32_t live : {14, 16, 9}) page_counts[static_cast<size_t>(kLayer * kKvHeads + next_head++)] = live;
    for (int32_t first = 0; first < kPacked; first += kPackedTileSlots)
      tiles.push_back(slice_run(block, first, std::min(kPackedTileSlots, kPacked - first), kDim));
    for (int32_t first = 0; first < kPages; first += kTileSlots)
      tiles.push_back(slice_run(pages, first, kTileSlots, kDim));
    for (size_t i = tiles.size() - 3; i + 1 < tiles.size(); ++i) tiles[i].counts = page_counts.data();
    step.resize(1);
    step[0].active = 1;
    step[0].position = 400;
    step[0].new_tile = static_cast<int32_t>(tiles.size()) - 1;
    step[0].new_slot = kNewSlot;
    step[0].eviction = {.on = 1, .recent = kRecent, .settles = 1};
    for (int32_t head = 0; head < kKvHeads; ++head) enter_rows(head);
  }

  void enter_rows(int32_t head) {
    std::vector<int32_t> places(300);
    std::iota(places.begin(), places.end(), 0);
    size_t next = 0;
    const auto enter = [&](int64_t column, int32_t position) {
      positions[cell(head, column)] = position;
      sums[cell(head, column)] = random.uniform(0.0f, 0.5f);
      latest[cell(head, column)] = random.uniform(0.0f, 0.1f);
    };
    for (size_t i = places.size(); i > 1; --i)
      std::swap(places[i - 1], places[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i) - 1))]);
    for (int32_t s = 0; s < packed(head); ++s) enter(kPages + s, places[next++]);
    for (int32_t s = 0; s < paged(head); ++s) enter(s, places[next++]);
    for (int32_t s = 0; s < kNewSlot; ++s) enter(kText + s, 390 + s);
    enter(kText + kNewSlot, step[0].position - 1);
  }

  size_t cell(int32_t head, int64_t column) const {
    return static_cast<size_t>((int64_t{kLayer} * kKvHeads + head) * (kPages + kPacked) + column);
  }
  int32_t packed(int32_t head) const { return cache.runs()[0].counts[kLayer * kKvHeads + head]; }
  int32_t paged(int32_t head) const { return page_counts[static_cast<size_t>(kLayer * kKvHeads + head)]; }

  SlotLedger ledger() {
    const int64_t lines = PackedCache::kLayers * kKvHeads, slots = kPages + kPacked;
    SlotLedger ledger{.positions = {positions.data(), lines, slots}};
    if (setting.sums) ledger.sums = {sums.data(), lines, slots};
    if (setting.sums) ledger.latest = {latest.data(), lines, slots};
    const KvRun &block = cache.runs()[0], &pages = cache.runs()[1];
    ledger.pages = pages.data;
    ledger.page_bytes = PackedCache::kLayers * pages.layer_stride;
    ledger.page_slots = kPages;
    ledger.blocks = block.data;
    ledger.block_bytes = int64_t{1} << 40;
    ledger.block_slots = kPacked;
    ledger.first_block_slot = kPages;
    return ledger;
  }

  /// `text`: live slots of the page of text.
  LiveRows live_rows(int32_t head, int32_t text) const {
    LiveRows rows;
    const auto add = [&](const KvRun& run, int64_t slot, int64_t column) {
      const RealSlot row = test::read_slot(run, cache.layer(), head, slot, kDim);
      const size_t at = cell(head, column);
      const bool is_new = rows.emplace(positions[at], LiveRow{row, sums[at], latest[at], run.packed}).second;
      CHECK(is_new);
    };
    for (int32_t s = 0; s < packed(head); ++s) add(cache.runs()[0], s, kPages + s);
    for (int32_t s = 0; s < paged(head); ++s) add(cache.runs()[1], s, s);
    for (int32_t s = 0; s < text; ++s) add(cache.runs()[1], kText + s, kText + s);
    return rows;
  }

  /// The row that goes, once the latest attention is added.
  LiveRows::const_iterator victim_of(const LiveRows& rows) const {
    auto victim = rows.end();
    for (auto row = rows.begin(); row != rows.end(); ++row) {
      if (row->first > step[0].position - 1 - (setting.sums ? kRecent : 1)) continue;
      if (victim == rows.end() || (setting.sums && row->second.sum <= victim->second.sum)) victim = row;
    }
    return victim;
  }

  Setting setting;
  Queue& queue;
  Random& random;
  PackedCache cache;
  int32_t next_head = 0;
  test::Vector<int32_t> page_counts, positions;
  test::Vector<float> sums, latest;
  test::Vector<KvRun> tiles;
  test::Vector<StepRow> step;
};

std::vector<double> turned(const Activations& from, int64_t first, int32_t position) {
  std::vector<double> values;
  for (int32_t e = 0; e < kDim; ++e) values.push_back(static_cast<double>(from.get(0, first + e)));
  return test::rotated(values, kRope, position);
}

/// Attention of the coming token, by the slots' positions.
void check_attention(Bench& bench, const Activations& query, const Activations& key) {
  for (int32_t head = 0; head < kKvHeads; ++head) {
    const LiveRows rows = bench.live_rows(head, kNewSlot);
    std::vector<RealSlot> slots;
    for (const auto& [position, row] : rows) slots.push_back(row.slot);
    slots.emplace_back().key = turned(key, int64_t{head} * kDim, bench.step[0].position);
    std::vector<double> mean(slots.size(), 0.0);
    for (int32_t h = 0; h < kHeads / kKvHeads; ++h) {
      const std::vector<double> q =
          turned(query, (int64_t{head} * (kHeads / kKvHeads) + h) * kDim, bench.step[0].position);
      std::vector<double> weights = test::packed_scores(q, slots, kRope, bench.setting.calibration);
      for (double& weight : weights) weight = std::exp(weight);
      const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += weights[i] / total / (kHeads / kKvHeads);
    }
    double worst = 0;
    size_t i = 0;
    const auto compare = [&](float noted) {
      worst = std::max(worst, std::abs(static_cast<double>(noted) - mean[i]) / (mean[i] + 1e-3));
      ++i;
    };
    for (const auto& [position, row] : rows) compare(row.latest);
    compare(bench.latest[bench.cell(head, kText + kNewSlot)]);
    CHECK(worst < 6e-3);  // keys rounded to f16
  }
}

/// One step: the previous one's token finds its place, the coming one is entered and observed.
void take_step(Bench& bench) {
  Queue& queue = bench.queue;
  Activations query(queue, 1, kHeads * kDim), key(queue, 1, kKvHeads * kDim);
  for (int32_t e = 0; e < kHeads * kDim; ++e) query.set(0, e, bench.random.normal());
  for (int32_t e = 0; e < kKvHeads * kDim; ++e) key.set(0, e, bench.random.normal());
  test::Guarded<float> angles(1, kDim);
  rope_angles({.positions = &bench.step[0].position, .count = 1, .params = kRope, .angles = angles.view()}, queue);
  const auto tiles = std::ssize(bench.tiles);
  test::Guarded<std::byte> scratch(1, evict_step_scratch_bytes(1, kPages + kPacked, tiles, kHeads, kKvHeads, kDim,
                                                               bench.setting.format, queue.traits()));
  EvictStepArgs args{.query = query.view(), .key = key.view()};
  args.heads.query = kHeads;
  args.heads.kv = kKvHeads;
  args.heads.dim = kDim;
  args.rope = kRope;
  args.angles = angles.view();
  args.tiles.steps = bench.step.data();
  args.tiles.runs = bench.tiles.data();
  args.tiles.per_row = args.tiles.most = tiles;
  args.rows = 1;
  args.layer = bench.cache.layer();
  args.calibration = bench.setting.calibration;
  args.ledger = bench.ledger();
  args.scratch = scratch.view();
  evict_step(args, queue);
  REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
  CHECK(scratch.intact());
  if (bench.setting.sums) check_attention(bench, query, key);
}

/// Returns the number of packed rows that went.
int32_t check_steps(const Setting& setting, Queue& queue, uint64_t seed) {
  Random random(seed);
  Bench bench(setting, queue, random);
  int32_t gone = 0;
  for (int32_t steps = 0; steps < 12; ++steps) {
    std::vector<LiveRows> expected;
    for (int32_t head = 0; head < kKvHeads; ++head) {
      if (setting.sums)  // only what lives has sums that count
        for (int64_t column = 0; column < kPages + kPacked; ++column)
          bench.sums[bench.cell(head, column)] += bench.latest[bench.cell(head, column)];
      expected.push_back(bench.live_rows(head, kNewSlot + 1));
      if (setting.sums)
        for (int64_t column = 0; column < kPages + kPacked; ++column)
          bench.sums[bench.cell(head, column)] -= bench.latest[bench.cell(head, column)];
      const auto victim = bench.victim_of(expected.back());
      REQUIRE(victim != expected.back().end());
      gone += victim->second.packed ? 1 : 0;
      expected.back().erase(victim);
    }
    take_step(bench);
    for (int32_t head = 0; head < kKvHeads; ++head) {
      const LiveRows live = bench.live_rows(head, kNewSlot);
      const LiveRows& wanted = expected[static_cast<size_t>(head)];
      REQUIRE(live.size() == wanted.size());
      CHECK(std::equal(live.begin(), live.end(), wanted.begin(), [&](const auto& a, const auto& b) {
        return a.first == b.first && a.second.slot.key == b.second.slot.key &&
               a.second.slot.value == b.second.slot.value && a.second.packed == b.second.packed &&
               (!setting.sums || std::abs(a.second.sum - b.second.sum) < 1e-5f);
      }));
      CHECK(bench.positions[bench.cell(head, kText + kNewSlot)] == bench.step[0].position);
      for (int32_t e = 0; e < kDim; ++e) {
        const KvRun& text = bench.tiles.back();
        run_keys(text, kLayer, head)[kNewSlot * kDim + e] = float_to_half(random.normal());
        run_values(text, kLayer, head)[kNewSlot * kDim + e] = float_to_half(random.normal());
      }
    }
    ++bench.step[0].position;
  }
  return gone;
}

TEST_CASE("where a packed row goes, its block's last row closes the gap and the newest token joins the survivors") {
  test::for_each_backend_and_target([](Queue& queue) {
    uint64_t seed = 0;
    for (const KvFormat format :
         {KvFormat::k8Bit, KvFormat::k4Bit, KvFormat::k2Bit, KvFormat::k1Bit, kv_format_of(4, 2), kv_format_of(2, 8)})
      for (const KvScaleForm form : {KvScaleForm::kF16, KvScaleForm::k6Bit})
        for (const bool sums : {true, false}) {
          CAPTURE(key_bits(format));
          CAPTURE(value_bits(format));
          CAPTURE(sums);
          const bool calibrated = form == KvScaleForm::kF16 && sums;
          const KvCalibration calibration{.on = calibrated, .tau_low = 0.5f, .tau_high = 1};
          CHECK(check_steps({format, form, sums, calibration}, queue, ++seed) > 10);
        }
  });
}

TEST_CASE("where the survivors' pages are full, a packed row stays and the newest token goes") {
  test::for_each_backend([](Queue& queue) {
    Random random(3);
    Bench bench({KvFormat::k2Bit, KvScaleForm::kF16, false, {}}, queue, random);
    for (int32_t head = 0; head < kKvHeads; ++head) {
      bench.page_counts[static_cast<size_t>(kLayer * kKvHeads + head)] = kText;
      for (int32_t s = 0; s < kText; ++s) bench.positions[bench.cell(head, s)] = 1000 + s;
    }
    take_step(bench);
    CHECK(bench.packed(0) == 100);
    CHECK(bench.paged(0) == kText);
  });
}

}  // namespace
}  // namespace ocellus
