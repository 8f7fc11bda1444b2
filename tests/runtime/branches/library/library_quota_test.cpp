// Entries that the image library removes by itself, and entries that it never serves again.
#include <doctest/doctest.h>

#include "tests/support/library.h"

namespace ocellus {
namespace {

using test::Contents;
using test::facts_of;
using test::TestLibrary;

/// Which of the first pictures an owner has, as digits.
std::string pictures_of(TestLibrary& t, const std::string& owner) {
  std::string text;
  struct Visit {
    std::string* text;
  } visit{&text};
  REQUIRE(t.library
              .list(
                  owner,
                  [](void* user, const LibraryItem& item) {
                    static_cast<Visit*>(user)->text->push_back(static_cast<char>('0' + item.facts.content.high));
                    return true;
                  },
                  &visit)
              .ok());
  std::sort(text.begin(), text.end());
  return text;
}

/// Contents of equal size.
Contents contents_of(uint64_t picture, bool pinned = false, int64_t expires = 0) {
  Contents contents(picture, 1);
  for (auto& block : contents.blocks) block.resize(3000);
  contents.spans.assign(contents.blocks.begin(), contents.blocks.end());
  contents.pinned = pinned;
  contents.expires = expires;
  return contents;
}
const int64_t kEntryBytes = contents_of(1).file_bytes();

void open_with(TestLibrary& t, int64_t entries, int64_t of_owner) {
  t.config.quota_bytes = entries * kEntryBytes;
  t.config.owner_quota_bytes = of_owner * kEntryBytes;
  t.reopen();
}

/// Notes a use without reading.
void use(TestLibrary& t, const std::string& owner, uint64_t picture) {
  LibraryEntry entry;
  bool found = false;
  REQUIRE(t.library.find(owner, facts_of(picture), &entry, &found).ok());
  CHECK(found);
}

}  // namespace

TEST_CASE("a library's quotas remove what was not used for longest") {
  TestLibrary t;
  open_with(t, 5, 3);
  for (uint64_t picture = 1; picture <= 3; ++picture) t.put("ann", contents_of(picture));
  use(t, "ann", 1);
  t.put("ann", contents_of(4));
  CHECK(pictures_of(t, "ann") == "134");
  t.put("bob", contents_of(1));
  t.put("bob", contents_of(2));
  CHECK(pictures_of(t, "ann") == "134");
  t.put("bob", contents_of(3));  // all together are full: 3 of ann is the oldest of all
  CHECK(pictures_of(t, "ann") == "14");
  CHECK(pictures_of(t, "bob") == "123");
  CHECK(t.use().bytes == 5 * kEntryBytes);
  t.put("bob", contents_of(2));  // in its own place
  CHECK(pictures_of(t, "ann") == "14");
  CHECK(pictures_of(t, "bob") == "123");
  t.reopen();
  t.put("bob", contents_of(4));
  CHECK(pictures_of(t, "bob") == "234");
  CHECK(t.folder.names("entries").size() == 5);
}

TEST_CASE("a library's quotas never remove what is pinned") {
  TestLibrary t;
  open_with(t, 0, 3);
  const LibraryKey first = t.put("ann", contents_of(1, true));
  t.put("ann", contents_of(2, true));
  for (uint64_t picture = 3; picture <= 6; ++picture) t.put("ann", contents_of(picture));
  CHECK(pictures_of(t, "ann") == "126");
  t.put("ann", contents_of(6, true));
  LibraryKey key;
  CHECK(t.library.put("ann", LibraryPart::kOwn, contents_of(7).entry(), &key).code() == Code::kFull);
  CHECK(std::string(last_failure().sentence).find("quota") != std::string::npos);
  CHECK(pictures_of(t, "ann") == "126");
  CHECK(t.unfinished_count() == 0);
  bool found = false;
  REQUIRE(t.library.set_pinned("ann", LibraryPart::kOwn, first, false, &found).ok());
  CHECK(found);
  t.reopen();
  t.put("ann", contents_of(7));
  CHECK(pictures_of(t, "ann") == "267");
  CHECK(t.use().pinned_bytes == 2 * kEntryBytes);
}

TEST_CASE("a library's owner may have a quota of its own, which stays") {
  TestLibrary t;
  open_with(t, 0, 2);
  REQUIRE(t.library.set_owner_quota("ann", 4 * kEntryBytes).ok());
  for (const bool again : {false, true}) {
    CAPTURE(again);
    for (uint64_t picture = 1; picture <= 5; ++picture)
      for (const char* owner : {"ann", "bob"}) t.put(owner, contents_of(picture));
    CHECK(pictures_of(t, "ann") == "2345");
    CHECK(pictures_of(t, "bob") == "45");
    LibraryUse use;
    REQUIRE(t.library.describe_owner("ann", &use).ok());
    CHECK(use.quota_bytes == 4 * kEntryBytes);
    CHECK(use.bytes == 4 * kEntryBytes);
    REQUIRE(t.library.describe_owner("bob", &use).ok());
    CHECK(use.quota_bytes == 2 * kEntryBytes);
    t.library.close();
    std::filesystem::remove(t.folder / "catalogue.sqlite");
    t.reopen();
  }
}

TEST_CASE("an entry larger than a library's quota is refused and removes nothing") {
  TestLibrary t;
  open_with(t, 0, 2);
  t.put("ann", contents_of(1));
  Contents large(2, 1);
  large.blocks[1].resize(static_cast<size_t>(2 * kEntryBytes));
  large.spans.assign(large.blocks.begin(), large.blocks.end());
  LibraryKey key;
  CHECK(t.library.put("ann", LibraryPart::kOwn, large.entry(), &key).code() == Code::kFull);
  CHECK(pictures_of(t, "ann") == "1");
}

TEST_CASE("a library never serves what has expired, wherever the clock goes") {
  TestLibrary t;
  const int64_t start = t.clock.seconds;
  t.put("ann", contents_of(1, true, start + 100));
  t.put("ann", contents_of(2, false, start + 200));
  t.put("ann", contents_of(3));
  t.clock.seconds = start + 99;
  CHECK(pictures_of(t, "ann") == "123");
  t.clock.seconds = start + 100;
  CHECK(pictures_of(t, "ann") == "23");
  for (const int64_t jump : {int64_t{0}, start - 1'000'000, start, int64_t{-5}}) {
    t.clock.seconds = jump;
    for (const bool reopened : {false, true}) {
      if (reopened) t.reopen();
      LibraryEntry entry;
      bool found = true;
      REQUIRE(t.library.find("ann", facts_of(1), &entry, &found).ok());
      CHECK_FALSE(found);
      Buffer<NearEntry> near;
      REQUIRE(t.library.nearest("ann", facts_of(1).model, contents_of(1).embedding, 9, &near).ok());
      CHECK(near.size() == 2);
      CHECK(pictures_of(t, "ann") == "23");
    }
  }
  // Another process saw a later time.
  SUBCASE("seen by another") {
    test::SetClock later;
    later.seconds = start + 500;
    LibraryConfig config = t.config;
    config.clock = &later;
    ImageLibrary other;
    REQUIRE(other.open(config).ok());
    LibraryUse use;
    REQUIRE(other.describe_all(&use).ok());
    CHECK(pictures_of(t, "ann") == "3");
  }
  SUBCASE("the catalogue is lost while the clock is behind") {
    std::filesystem::remove(t.folder / "catalogue.sqlite");
    CHECK(pictures_of(t, "ann") == "23");
  }
  LibraryReport report;
  REQUIRE(t.library.collect_garbage(&report).ok());
  CHECK(report.expired >= 1);
  CHECK(t.folder.names("entries").size() == 3 - static_cast<size_t>(report.expired));
}

TEST_CASE("what has expired goes from a library before anything else") {
  TestLibrary t;
  open_with(t, 3, 0);
  t.put("ann", contents_of(1));
  t.put("bob", contents_of(2, true, t.clock.seconds + 10));
  t.put("ann", contents_of(3));
  t.clock.seconds += 10;
  t.put("ann", contents_of(4));
  CHECK(pictures_of(t, "ann") == "134");
  CHECK(pictures_of(t, "bob").empty());
  CHECK(t.folder.names("entries").size() == 3);
  // An entry put with an expiry in the past is never found.
  t.put("bob", contents_of(5, false, t.clock.seconds));
  CHECK(pictures_of(t, "bob").empty());
}

TEST_CASE("a library keeps few of the files that it sets aside") {
  TestLibrary t;
  for (int i = 0; i < 80; ++i) {
    const LibraryKey key = t.put("ann", 1);
    std::filesystem::resize_file(t.path_of(key), 10);
    CHECK(t.version_of("ann", 1) == 0);
  }
  CHECK(t.aside_count() == 64);
  // The latest are those that are kept.
  CHECK(t.folder.names("set-aside").back().substr(0, 8) == "00000050");
  CHECK(t.folder.names("set-aside").front().substr(0, 8) == "00000011");
}

}  // namespace ocellus
