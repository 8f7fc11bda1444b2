#include "platform/arena.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace ocellus {
namespace {

/// Memory that starts on a row boundary.
class Memory {
 public:
  explicit Memory(int64_t bytes) : bytes_(static_cast<size_t>(bytes + kRowAlignment)) {
    void* start = bytes_.data();
    size_t room = bytes_.size();
    data_ = static_cast<std::byte*>(std::align(kRowAlignment, static_cast<size_t>(bytes), start, room));
  }
  std::byte* data() { return data_; }

 private:
  std::vector<std::byte> bytes_;
  std::byte* data_;
};

RowSpec row(const char* name, Lifetime lifetime, int64_t bytes) {
  RowSpec spec;
  spec.name = name;
  spec.lifetime = lifetime;
  spec.bytes = bytes;
  return spec;
}

std::byte* take(Arena& arena, Lifetime lifetime, int64_t bytes) {
  std::byte* out = nullptr;
  REQUIRE(arena.take(row("test", lifetime, bytes), &out).ok());
  return out;
}

TEST_CASE("long-lived rows grow from the low end, scratch from the high end, all aligned") {
  Memory memory(4096);
  Arena arena;
  REQUIRE(arena.add_extent({memory.data(), 4096}).ok());
  CHECK(take(arena, Lifetime::kWeights, 1) == memory.data());
  CHECK(take(arena, Lifetime::kSession, 257) == memory.data() + 256);
  ArenaScope scope(arena);
  CHECK(take(arena, Lifetime::kScratch, 100) == memory.data() + 4096 - 256);
  CHECK(take(arena, Lifetime::kScratch, 512) == memory.data() + 4096 - 256 - 512);
  CHECK(take(arena, Lifetime::kStaging, 1) == memory.data() + 768);
  CHECK(arena.used_bytes(Lifetime::kWeights) == 256);
  CHECK(arena.used_bytes(Lifetime::kSession) == 512);
  CHECK(arena.used_bytes(Lifetime::kScratch) == 768);
  CHECK(arena.row_count() == 3);
  CHECK(std::strcmp(arena.row(1).name, "test") == 0);
  CHECK(arena.row(1).bytes == 257);
}

TEST_CASE("scopes nest, give their scratch back and leave the high-water mark") {
  Memory memory(4096);
  Arena arena;
  REQUIRE(arena.add_extent({memory.data(), 4096}).ok());
  std::byte* inner_place = nullptr;
  {
    ArenaScope outer(arena);
    take(arena, Lifetime::kScratch, 256);
    {
      ArenaScope inner(arena);
      inner_place = take(arena, Lifetime::kScratch, 1024);
      CHECK(arena.used_bytes(Lifetime::kScratch) == 1280);
    }
    CHECK(arena.used_bytes(Lifetime::kScratch) == 256);
    ArenaScope again(arena);
    CHECK(take(arena, Lifetime::kScratch, 1024) == inner_place);
  }
  CHECK(arena.used_bytes(Lifetime::kScratch) == 0);
  CHECK(arena.high_water_bytes(Lifetime::kScratch) == 1280);
  ArenaScope scope(arena);
  CHECK(take(arena, Lifetime::kScratch, 4096) == memory.data());
}

TEST_CASE("scratch outside a scope is refused") {
  Memory memory(1024);
  Arena arena;
  REQUIRE(arena.add_extent({memory.data(), 1024}).ok());
  std::byte* out = nullptr;
  CHECK(arena.take(row("lost", Lifetime::kScratch, 1), &out).code() == Code::kInternal);
  CHECK(std::strstr(last_failure().sentence, "lost") != nullptr);
  { ArenaScope scope(arena); }
  CHECK(arena.take(row("lost", Lifetime::kScratch, 1), &out).code() == Code::kInternal);
  CHECK(out == nullptr);
}

TEST_CASE("a full arena names the row it has no room for and stays usable") {
  Memory memory(1024);
  Arena arena;
  REQUIRE(arena.add_extent({memory.data(), 1024}).ok());
  take(arena, Lifetime::kSession, 512);
  ArenaScope scope(arena);
  std::byte* out = nullptr;
  CHECK(arena.take(row("too big", Lifetime::kScratch, 513), &out).code() == Code::kInternal);
  CHECK(std::strstr(last_failure().sentence, "too big") != nullptr);
  CHECK(arena.used_bytes(Lifetime::kScratch) == 0);
  CHECK(take(arena, Lifetime::kScratch, 512) == memory.data() + 512);
  CHECK(arena.take(row("one more", Lifetime::kSession, 1), &out).code() == Code::kInternal);
}

TEST_CASE("rows spread over several extents but never across two") {
  Memory first(512), second(1024);
  Arena arena;
  REQUIRE(arena.add_extent({first.data(), 512}).ok());
  REQUIRE(arena.add_extent({second.data(), 1024}).ok());
  CHECK(arena.capacity_bytes() == 1536);
  CHECK(take(arena, Lifetime::kWeights, 768) == second.data());
  CHECK(take(arena, Lifetime::kWeights, 300) == first.data());
  ArenaScope scope(arena);
  CHECK(take(arena, Lifetime::kScratch, 256) == second.data() + 768);
  std::byte* out = nullptr;
  CHECK_FALSE(arena.take(row("nowhere", Lifetime::kWeights, 256), &out).ok());
}

TEST_CASE("an extent of odd size does not misalign scratch") {
  Memory memory(1024);
  Arena arena;
  REQUIRE(arena.add_extent({memory.data(), 1000}).ok());
  ArenaScope scope(arena);
  CHECK(take(arena, Lifetime::kScratch, 1) == memory.data() + 512);
  CHECK(take(arena, Lifetime::kScratch, 1) == memory.data() + 256);
}

TEST_CASE("extents that are missing, empty, misaligned or too many are refused") {
  Memory memory(4096);
  Arena arena;
  CHECK(arena.add_extent({nullptr, 4096}).code() == Code::kBadArgument);
  CHECK(arena.add_extent({memory.data(), 0}).code() == Code::kBadArgument);
  CHECK(arena.add_extent({memory.data() + 64, 1024}).code() == Code::kBadArgument);
  CHECK(arena.capacity_bytes() == 0);
  for (int i = 0; i < Arena::kMaxExtents; ++i) REQUIRE(arena.add_extent({memory.data() + 256 * i, 256}).ok());
  CHECK(arena.add_extent({memory.data() + 2048, 256}).code() == Code::kBadArgument);
  Arena empty;
  std::byte* out = nullptr;
  CHECK(empty.take(row("weights", Lifetime::kWeights, 1), &out).code() == Code::kInternal);
}

TEST_CASE("take_rows describes the row it takes") {
  Memory memory(4096);
  Arena arena;
  REQUIRE(arena.add_extent({memory.data(), 4096}).ok());
  DeviceView<Half> view;
  REQUIRE(take_rows(arena, "keys", Lifetime::kSession, Phase::kNone, 3, 40, &view).ok());
  CHECK(view.rows == 3);
  CHECK(view.cols == 40);
  CHECK(view.stride == 40);
  CHECK(arena.row(0).bytes == 240);
  CHECK(std::strcmp(arena.row(0).dtype, "f16") == 0);
}

TEST_CASE("the session high-water mark keeps the largest note") {
  Arena arena;
  arena.note_session_use(100);
  arena.note_session_use(70);
  CHECK(arena.session_use_high_water_bytes() == 100);
}

TEST_CASE("phases of one name are one phase") {
  const char name[] = {'r', 'e', 'a', 'd', '\0'};
  CHECK(Phase{"read"} == Phase{name});
  CHECK(Phase{"read"} != Phase{"write"});
  CHECK(Phase() == Phase::kNone);
}

}  // namespace
}  // namespace ocellus
