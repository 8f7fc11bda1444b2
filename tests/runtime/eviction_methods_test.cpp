// What single methods of eviction promise beyond a share that stays.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "runtime/memory_plan.h"
#include "tests/support/packed_sessions.h"

namespace ocellus {
namespace {

using test::evicting_limits;
using test::kept_counts;
using test::KeptCounts;
using test::make_engine;
using test::open_session;

constexpr int64_t kImageSlots = 64;  // of the bundled model

/// A question of the golden set with the rows before its suffix, read.
struct Read {
  std::unique_ptr<Engine> engine;
  Session* session = nullptr;
  ocellus_generate_stats stats = {};
  int64_t images = 0;
};
Read read_golden(int id, const ocellus_limits& limits) {
  Read read;
  read.engine = make_engine(limits);
  read.session = &open_session(*read.engine);
  const test::Answer answer = test::answer_golden(*read.session, id);
  REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
  read.stats = answer.stats;
  read.images = test::golden(id)["n"];
  return read;
}

bool all_are(const std::vector<int32_t>& counts, int64_t wanted) {
  return std::all_of(counts.begin(), counts.end(), [&](int32_t count) { return count == wanted; });
}

}  // namespace

TEST_CASE("look-m-all-text keeps all text, and gives pictures what it leaves of the share") {
  for (const float keep : {0.9f, 0.5f, 0.2f, 0.05f}) {
    for (const int32_t bits : {16, 4}) {
      CAPTURE(keep);
      CAPTURE(bits);
      const Read read = read_golden(13, evicting_limits(4, 200, OCELLUS_EVICT_LOOK_M_ALL_TEXT, keep, bits));
      const EvictedRows& rows = read.session->cache().evicted(0);
      const int64_t share = static_cast<int64_t>(keep * static_cast<float>(rows.rows));
      const int64_t visual = rows.rows - rows.text_rows;
      CHECK(visual == read.images * kImageSlots);
      const KeptCounts counts = kept_counts(*read.session, 0);
      // The prompt's end is text: the window is, too, as long as it is shorter than the question.
      const int64_t kept = std::max<int64_t>(share, rows.text_rows);
      const bool window_is_text = share / 2 < 5;
      for (size_t i = 0; i < counts.text.size(); ++i) {
        const int64_t slots = counts.text[i] + counts.visual[i];
        CHECK(slots >= kept);
        if (window_is_text) CHECK(slots == kept);
        if (bits == 4) CHECK(counts.text[i] == rows.text_rows);
      }
      CHECK(read.stats.kv_bytes + read.stats.kv_waste_bytes == read.engine->memory().pools.used_bytes());
    }
  }
}

TEST_CASE("look-m keeps to its share where look-m-all-text does not") {
  const Read strict = read_golden(13, evicting_limits(4, 200, OCELLUS_EVICT_LOOK_M, 0.05f));
  const EvictedRows& rows = strict.session->cache().evicted(0);
  const auto share = static_cast<int64_t>(0.05f * static_cast<float>(rows.rows));
  CHECK(share < rows.text_rows);
  CHECK(all_are(kept_counts(*strict.session, 0).text, share));
}

TEST_CASE("the ranking and the merging of Elastic Cache change what is read, and not how much") {
  std::vector<uint64_t> hashes;
  for (const ocellus_evict method :
       {OCELLUS_EVICT_ELASTIC_PREFILL, OCELLUS_EVICT_ELASTIC_REPO, OCELLUS_EVICT_ELASTIC_DEROPE_PREFILL}) {
    ocellus_limits limits = evicting_limits(4, 200, method, 0.3f);
    limits.cache.compress_at = OCELLUS_COMPRESS_BEFORE_SUFFIX;
    const Read read = read_golden(13, limits);
    const EvictedRows& rows = read.session->cache().evicted(0);
    CHECK(all_are(kept_counts(*read.session, 0).text, static_cast<int64_t>(0.3f * static_cast<float>(rows.rows))));
    hashes.push_back(read.stats.logits_hash);
  }
  std::sort(hashes.begin(), hashes.end());
  CHECK(std::unique(hashes.begin(), hashes.end()) == hashes.end());
}

TEST_CASE("numbers that no method has are refused") {
  for (const int32_t number : {-1, 99, 255, 256, 257}) {
    ocellus_limits limits = test::board_limits(1, 64);
    limits.cache.evict = number;
    limits.cache.keep = 0.5f;
    CAPTURE(number);
    ocellus_plan plan;
    CHECK(plan_memory(test::bundled_model(), limits, &plan).code() == Code::kBadArgument);
  }
}

}  // namespace ocellus
