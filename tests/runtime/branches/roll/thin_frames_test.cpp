// InfiniPot-V in rolling contexts: what stays of older images, and in how much memory.
#include "runtime/branches/roll/thin_frames.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "runtime/branches/roll/roll.h"
#include "runtime/engine/memory_plan.h"
#include "tests/support/cache_texts.h"
#include "tests/support/packed_sessions.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus {
namespace {

/// Models of a long and of a short context.
const Model& small_model(bool is_long = true) {
  static const test::Pair far(test::TextRecipe{.kv_heads = 2, .head_dim = 32}, test::VisionRecipe{});
  static const test::Pair near(test::TextRecipe{.kv_heads = 2, .head_dim = 32, .context_length = 200},
                               test::VisionRecipe{});
  return is_long ? far.model : near.model;
}

ocellus_limits thinning_limits(int32_t images, const char* method = "infinipot-v") {
  ocellus_limits limits = test::evicting_limits(images, 200, method, 0.5f);
  limits.max_encode_views = 1;
  return limits;
}

using Line = std::vector<std::vector<uint16_t>>;  // keys and values of a head's slots, oldest first

/// Lines of all layers and heads.
std::vector<Line> lines_of(Session& session, Queue& queue) {
  const SessionCache& cache = session.cache();
  const KvShape& shape = cache.shape();
  std::vector<Line> lines;
  for (int32_t layer = 0; layer < shape.layer_count; ++layer)
    for (int32_t head = 0; head < shape.kv_heads; ++head) {
      Line line;
      for (int32_t i = 0; i < cache.image_count(); ++i) {
        const KvRun run = cache.image_block(i, 0);
        for (int64_t slot = 0; slot < run.slots; ++slot) {
          std::vector<uint16_t> row;
          for (const Half* from : {run_keys(run, layer, head), run_values(run, layer, head)})
            for (const Half half : test::download<Half>(from + slot * shape.head_dim, shape.head_dim, queue))
              row.push_back(half.bits);
          line.push_back(row);
        }
      }
      lines.push_back(line);
    }
  return lines;
}

/// Number of `kept` that are found in `all` in order.
size_t found_in_order(const Line& kept, const Line& all) {
  size_t found = 0;
  for (const std::vector<uint16_t>& row : all)
    if (found < kept.size() && kept[found] == row) ++found;
  return found;
}

bool failure_says(const std::string& words) {
  return std::string(last_failure().sentence).find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("images that cannot be thinned are refused when they are planned") {
  const auto refuses = [](const ocellus_limits& limits, const char* words) {
    ocellus_plan plan;
    CHECK(plan_memory(small_model(), limits, &plan).code() == Code::kBadArgument);
    CHECK_MESSAGE(failure_says(words), last_failure().sentence);
  };
  ocellus_limits limits = thinning_limits(4);
  limits.cache.kv_bits = 8;
  refuses(limits, "infinipot-v (evict) thins images that are not packed");
  limits = thinning_limits(4);
  limits.reuse = OCELLUS_REUSE_MPIC;
  refuses(limits, "plan no reuse");
  limits = thinning_limits(4);
  limits.reduce_keep = 0.5f;
  test::set_text(limits.reduce, "even-rows");
  refuses(limits, "plan all of their rows (reduce_keep)");
  refuses(thinning_limits(1), "plan at least two");
  refuses(thinning_limits(4, "infinipot-v:tar=2"), "tar");
  const std::unique_ptr<Engine> engine = test::make_engine(small_model(), thinning_limits(4));
  CHECK(set_rolling(test::open_session(*engine), 1, 0).code() == Code::kBadArgument);
  CHECK(failure_says("keep at least two"));
}

TEST_CASE("a full session keeps recent images whole and a part of every older slot's line, in order") {
  for (const char* method : {"infinipot-v", "infinipot-v:tar=1,pool=none", "infinipot-v:tar=0"}) {
    CAPTURE(method);
    const std::unique_ptr<Engine> engine = test::make_engine(small_model(), thinning_limits(6, method));
    Session& session = test::open_session(*engine);
    REQUIRE(set_rolling(session, 6, 16).ok());
    bool differ = false;
    for (int picture = 0; picture < 20; ++picture) {
      REQUIRE(session.add_text("x", false).ok());
      if (session.cache().image_count() == 5) {
        ocellus_generate_params params = test::default_params(1);
        REQUIRE(session.add_frame(test::TestPicture(32, 32, picture).frame()).ok());
        REQUIRE(test::answer_of(session, params).status.ok());
        REQUIRE(session.cache().image_count() == 6);
        const std::vector<Line> before = lines_of(session, engine->queue());
        REQUIRE_MESSAGE(session.add_frame(test::TestPicture(32, 32, picture + 50).frame()).ok(),
                        last_failure().sentence);
        REQUIRE(session.cache().image_count() == 3);
        const std::vector<Line> after = lines_of(session, engine->queue());
        const size_t rows = before[0].size() / 6;
        for (size_t i = 0; i < before.size(); ++i) {
          REQUIRE(after[i].size() == 3 * rows);
          CHECK(found_in_order(after[i], before[i]) == after[i].size());
          const Line newest(before[i].end() - static_cast<int64_t>(rows), before[i].end());
          if (std::string(method) != "infinipot-v:tar=0")
            CHECK(std::equal(newest.begin(), newest.end(), after[i].end() - static_cast<int64_t>(rows)));
          differ = differ || found_in_order(after[i], Line(before[i].end() - 3 * static_cast<int64_t>(rows),
                                                           before[i].end())) != after[i].size();
        }
        REQUIRE(test::answer_of(session, params).status.ok());
        continue;
      }
      REQUIRE_MESSAGE(session.add_frame(test::TestPicture(32, 32, picture).frame()).ok(), last_failure().sentence);
      REQUIRE(test::answer_of(session, test::default_params(1)).status.ok());
    }
    CHECK(differ);
  }
}

TEST_CASE("a thinning session goes on beyond its context in constant memory, and a cancelled prompt takes its images") {
  const std::unique_ptr<Engine> engine = test::make_engine(small_model(false), thinning_limits(5));
  const test::FreeBlocks all(*engine);
  Session& session = test::open_session(*engine);
  REQUIRE(set_rolling(session, 5, 16).ok());
  int64_t most = 0, most_early = 0;
  for (int turn = 0; turn < 150; ++turn) {
    REQUIRE(session.begin_turn().ok());
    const int side = turn % 40 == 39 ? 64 : 32;
    REQUIRE_MESSAGE(session.add_frame(test::TestPicture(side, 32, turn).frame()).ok(), last_failure().sentence);
    REQUIRE(session.add_text("what is it", false).ok());
    REQUIRE(session.end_turn().ok());
    const test::Answer answer = test::answer_of(session, test::default_params(4));
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    CHECK(answer.stats.kv_bytes + answer.stats.kv_waste_bytes == engine->memory().pools.used_bytes());
    CHECK(session.cache().image_count() <= 5);
    most = std::max(most, engine->memory().pools.used_bytes());
    if (turn < 40) most_early = most;
  }
  CHECK(most == most_early);
  CHECK(session.next_position() > 5 * 200);
  REQUIRE(session.begin_turn().ok());
  for (int i = 0; i < 6; ++i) REQUIRE(session.add_frame(test::TestPicture(32, 32, i).frame()).ok());
  session.stop_signal().cancel();
  CHECK(test::answer_of(session, test::default_params(1)).status.code() == Code::kCancelled);
  CHECK(session.cache().image_count() == 0);
  REQUIRE(session.add_frame(test::TestPicture(32, 32, 7).frame()).ok());
  CHECK(test::answer_of(session, test::default_params(1)).status.ok());
  session.close();
  CHECK(test::FreeBlocks(*engine) == all);
}

}  // namespace ocellus
