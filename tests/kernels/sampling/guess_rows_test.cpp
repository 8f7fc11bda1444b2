#include "kernels/sampling/guess_rows.h"

#include <doctest/doctest.h>

#include <cstring>

#include "kernels/sampling/sample_row.h"
#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

constexpr int32_t kRows = 12, kTiles = 9, kLocalTiles = 5;

/// Rows of a step with their lists.
struct Rows {
  explicit Rows(test::Random& random)
      : steps(kRows), tiles(kRows * kTiles), local_tiles(kRows * kLocalTiles), ring_starts(kRows) {
    for (StepRow& step : steps) {
      step.active = 1;
      step.position = static_cast<int32_t>(random.integer(0, 1000));
      step.new_tile = static_cast<int32_t>(random.integer(0, 2));
      step.new_slot = static_cast<int32_t>(random.integer(0, 15));
      step.step = static_cast<int32_t>(random.integer(0, 100));
      step.recent.count = static_cast<int32_t>(random.integer(0, 2 * kRecentTokens));
      step.masked = static_cast<int32_t>(random.integer(0, 1));
      step.drawn_count = static_cast<uint64_t>(random.integer(0, 100));
      step.sampler.biases.count = static_cast<int32_t>(random.integer(0, 9));
      step.sampler.seed = static_cast<uint64_t>(random.integer(0, 100));
    }
    for (test::Vector<KvRun>* const runs : {&tiles, &local_tiles})
      for (KvRun& run : *runs) {
        run.capacity = static_cast<int32_t>(random.integer(0, 1) == 0 ? 16 : random.integer(16, 20));
        run.layer_stride = random.integer(0, 1000);
      }
    for (int32_t& start : ring_starts) start = static_cast<int32_t>(random.integer(0, 1000));
  }

  test::Vector<StepRow> steps;
  test::Vector<KvRun> tiles, local_tiles;
  test::Vector<int32_t> ring_starts;
};

template <class T>
void check_same(const test::Vector<T>& a, const test::Vector<T>& b) {
  CHECK(std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Token by token, as a session would go on.
void guess_by_definition(const GuessRowsArgs& args, Rows& rows) {
  for (int32_t row = args.begin; row < args.end; ++row) rows.steps[static_cast<size_t>(row)].active = 0;
  for (int32_t i = 0; i < args.sessions; ++i) {
    const auto [of, first, count] = args.guesses[i];
    StepRow next = rows.steps[static_cast<size_t>(of)];
    const int32_t step = next.step;
    for (int32_t row = first; row < first + count; ++row) {
      move_on(next, args.tokens[row], &rows.tiles[static_cast<size_t>(of * kTiles)]);
      next.step = step;
      rows.steps[static_cast<size_t>(row)] = next;
      std::memcpy(&rows.tiles[static_cast<size_t>(row * kTiles)], &rows.tiles[static_cast<size_t>(of * kTiles)],
                  kTiles * sizeof(KvRun));
      if (args.ring_starts == nullptr) continue;
      std::memcpy(&rows.local_tiles[static_cast<size_t>(row * kLocalTiles)],
                  &rows.local_tiles[static_cast<size_t>(of * kLocalTiles)], kLocalTiles * sizeof(KvRun));
      rows.ring_starts[static_cast<size_t>(row)] = rows.ring_starts[static_cast<size_t>(of)];
    }
  }
}

TEST_CASE("rows of guesses are what a session's row would become, and rows that nobody has are inactive") {
  test::for_each_backend([&](Queue& queue) {
    test::Random random(3);
    for (int round = 0; round < 40; ++round) {
      Rows rows(random);
      GuessRowsArgs args{.steps = rows.steps.data(),
                         .tiles = rows.tiles.data(),
                         .tiles_per_row = kTiles,
                         .begin = static_cast<int32_t>(random.integer(1, 3))};
      if (round % 2 == 0) {
        args.local_tiles = rows.local_tiles.data();
        args.local_tiles_per_row = kLocalTiles;
        args.ring_starts = rows.ring_starts.data();
      }
      int32_t end = args.begin;
      for (int32_t of = 0; of < args.begin; ++of) {
        const auto count = static_cast<int32_t>(random.integer(0, (kMostGuessingRows - args.begin) / args.begin));
        if (count == 0) continue;
        args.guesses[args.sessions++] = {.of = of, .first = end, .count = count};
        end += count;
      }
      args.end = end + static_cast<int32_t>(random.integer(0, kRows - end));
      for (int32_t& token : args.tokens) token = static_cast<int32_t>(random.integer(0, 50000));
      Rows expected = rows;
      guess_by_definition(args, expected);
      guess_rows(args, queue);
      REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
      check_same(rows.steps, expected.steps);
      check_same(rows.tiles, expected.tiles);
      check_same(rows.local_tiles, expected.local_tiles);
      check_same(rows.ring_starts, expected.ring_starts);
    }
  });
}

}  // namespace
}  // namespace ocellus
