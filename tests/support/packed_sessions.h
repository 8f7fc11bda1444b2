// Engines whose caches are packed and cut down, and what their sessions hold.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/cache_texts.h"
#include "tests/support/loaded_engine.h"

namespace ocellus::test {

ocellus_limits packed_limits(int32_t images, int32_t text_tokens, int32_t bits);

ocellus_limits evicting_limits(int32_t images, int32_t text_tokens, std::string_view method, float keep,
                               int32_t bits = 16, ocellus_compress_at at = OCELLUS_COMPRESS_PROMPT_END);

/// Layers of different bits, as many as the bundled model has, some apart for keys and values, and small scales. Keys
/// and values have 13 bits each in all.
void set_layer_bits(ocellus_cache_policy* policy);

/// Live slots of an eviction by layer and head.
struct KeptCounts {
  std::vector<int32_t> text, visual;
};
KeptCounts kept_counts(Session& session, int32_t eviction);

/// Offsets and steps of a packed block in one layer and head: [4, E].
std::vector<float> block_scales(Session& session, const KvRun& run, int32_t layer, int32_t head);

/// Free blocks and pages of the pools.
struct FreeBlocks {
  int64_t pages, blocks;
  explicit FreeBlocks(Engine& engine)
      : pages(engine.memory().pools.pages.free_count()), blocks(engine.memory().pools.blocks.free_count()) {}
  bool operator==(const FreeBlocks&) const = default;
};

/// Two turns of two boards each that are cancelled before they are read; calls check() after each.
template <class Check>
void cancel_turns(Session& session, Check check) {
  for (int round = 0; round < 2; ++round) {
    REQUIRE(add_turn(session, "<image>And <image>here?", {"images/113.png", "images/115.png"}).ok());
    session.stop_signal().cancel();
    CHECK(session.acknowledge_cancel(answer_of(session, default_params(4)).status).code() == Code::kCancelled);
    check();
  }
}

}  // namespace ocellus::test
