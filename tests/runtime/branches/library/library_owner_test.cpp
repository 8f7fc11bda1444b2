// Access to the image library: which owners see and change which entries.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <map>
#include <set>

#include "tests/support/library.h"

namespace ocellus {
namespace {

using test::facts_of;
using test::TestLibrary;

std::vector<LibraryItem> list(TestLibrary& t, const std::string& owner) {
  std::vector<LibraryItem> items;
  REQUIRE(t.library
              .list(
                  owner,
                  [](void* user, const LibraryItem& item) {
                    static_cast<std::vector<LibraryItem>*>(user)->push_back(item);
                    return true;
                  },
                  &items)
              .ok());
  return items;
}

}  // namespace

TEST_CASE("the same picture of two owners of a library has two keys, and each sees one") {
  TestLibrary t;
  const LibraryKey ann = t.put("ann", 1, 5), bob = t.put("bob", 1, 6);
  CHECK_FALSE(ann == bob);
  CHECK(t.version_of("ann", 1) == 5);
  CHECK(t.version_of("bob", 1) == 6);
  CHECK(t.version_of("carl", 1) == 0);
  LibraryEntry entry;
  bool found = true;
  REQUIRE(t.library.find_key("bob", ann, &entry, &found).ok());
  CHECK_FALSE(found);
  REQUIRE(t.library.remove("bob", LibraryPart::kOwn, ann, &found).ok());
  CHECK_FALSE(found);
  REQUIRE(t.library.set_pinned("bob", LibraryPart::kOwn, ann, true, &found).ok());
  CHECK_FALSE(found);
  REQUIRE(list(t, "ann").size() == 1);
  CHECK(list(t, "ann")[0].key == ann);
  CHECK(list(t, "carl").empty());
  Buffer<NearEntry> near;
  const test::Contents contents(1, 1);
  REQUIRE(t.library.nearest("ann", facts_of(1).model, contents.embedding, 10, &near).ok());
  REQUIRE(near.size() == 1);
  CHECK(near[0].key == ann);
  CHECK(t.aside_count() == 0);
}

TEST_CASE("guessed keys find nothing in a library") {
  TestLibrary t;
  const LibraryKey key = t.put("ann", 1);
  walk::Random random(4);
  for (int i = 0; i < 500; ++i) {
    LibraryKey guess = i % 2 == 0 ? LibraryKey{random.bits(), random.bits()} : key;
    if (i % 2 == 1) guess.low ^= uint64_t{1} << (i % 64);
    LibraryEntry entry;
    bool found = true;
    REQUIRE(t.library.find_key("bob", guess, &entry, &found).ok());
    CHECK_FALSE(found);
  }
  // The key that the picture would have with other secrets, as an earlier library had them.
  TestLibrary other;
  LibraryEntry entry;
  bool found = true;
  REQUIRE(t.library.find_key("ann", other.put("ann", 1), &entry, &found).ok());
  CHECK_FALSE(found);
}

TEST_CASE("a library takes no path for an owner's name and writes nothing outside its folder") {
  TestLibrary t;
  const size_t before =
      static_cast<size_t>(std::distance(std::filesystem::directory_iterator(std::filesystem::path(t.folder.path())),
                                        std::filesystem::directory_iterator()));
  LibraryKey key;
  const test::Contents contents(1, 1);
  const std::string longest(64, 'x');
  for (const std::string& name : {std::string(), std::string(".."), std::string("."), std::string(".hidden"),
                                  std::string("a/b"), std::string("../../etc/passwd"), std::string("a\0b", 3),
                                  std::string("a b"), std::string("\xC3\xA9"), std::string("@shared"), longest + "x"}) {
    CAPTURE(name);
    LibraryEntry entry;
    bool found = false;
    CHECK(t.library.put(name, LibraryPart::kOwn, contents.entry(), &key).code() == Code::kBadArgument);
    CHECK(t.library.find(name, facts_of(1), &entry, &found).code() == Code::kBadArgument);
    CHECK(t.library.create_shared(name).code() == Code::kBadArgument);
  }
  for (const std::string& name : {longest, std::string("a..b"), std::string("-rf"), std::string("A_9.z-")}) {
    t.put(name, 1);
    CHECK(t.version_of(name, 1) == 1);
  }
  for (const std::string& name : t.folder.names("owners"))
    CHECK(name.find_first_not_of("0123456789abcdef.owner") == std::string::npos);
  CHECK(static_cast<size_t>(std::distance(std::filesystem::directory_iterator(std::filesystem::path(t.folder.path())),
                                          std::filesystem::directory_iterator())) == before);
}

TEST_CASE("a library's secrets are for its user alone") {
  TestLibrary t;
  t.put("ann", 1);
  for (const std::string& name : t.folder.names("owners")) {
    struct stat facts {};
    REQUIRE(::stat((t.folder / ("owners/" + name)).c_str(), &facts) == 0);
    CHECK((facts.st_mode & 0777) == 0600);
  }
  struct stat facts {};
  REQUIRE(::stat((t.folder / "catalogue.sqlite").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
}

TEST_CASE("all owners read the shared part of a library, and its administrator alone changes it") {
  TestLibrary t;
  bool found = false;
  LibraryKey key;
  const test::Contents contents(1, 3);
  CHECK(t.library.put("ann", LibraryPart::kShared, contents.entry(), &key).code() == Code::kBadArgument);
  REQUIRE(t.library.create_shared("root").ok());
  REQUIRE(t.library.create_shared("root").ok());
  CHECK(t.library.create_shared("ann").code() == Code::kBadArgument);
  CHECK(t.library.put("ann", LibraryPart::kShared, contents.entry(), &key).code() == Code::kBadArgument);
  key = t.put("root", contents, LibraryPart::kShared);
  CHECK(t.library.remove("ann", LibraryPart::kShared, key, &found).code() == Code::kBadArgument);
  CHECK(t.library.set_pinned("ann", LibraryPart::kShared, key, true, &found).code() == Code::kBadArgument);
  REQUIRE(t.library.remove("ann", LibraryPart::kOwn, key, &found).ok());
  CHECK_FALSE(found);
  CHECK(t.version_of("ann", 1) == 3);
  t.put("ann", 1, 4);
  CHECK(t.version_of("ann", 1) == 4);  // one's own comes first
  CHECK(t.version_of("bob", 1) == 3);
  CHECK(list(t, "ann").size() == 2);
  CHECK(list(t, "bob").size() == 1);
  CHECK(list(t, "bob")[0].part == LibraryPart::kShared);
  // Another library on the folder sees what the administrator changes.
  ImageLibrary other;
  REQUIRE(other.open(t.config).ok());
  t.put("root", 1, 8, LibraryPart::kShared);
  CHECK(t.version_of("bob", 1, &other) == 8);
  REQUIRE(t.library.remove("root", LibraryPart::kShared, key, &found).ok());
  CHECK(found);
  CHECK(t.version_of("bob", 1, &other) == 0);
  CHECK(t.version_of("ann", 1, &other) == 4);
}

TEST_CASE("a library lists what there is, in the order in which it came") {
  TestLibrary t;
  for (uint64_t picture = 1; picture <= 5; ++picture) t.put("ann", picture);
  std::vector<LibraryItem> items = list(t, "ann");
  REQUIRE(items.size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(items[i].facts == facts_of(i + 1));
    CHECK(items[i].bytes == test::Contents(i + 1, 1).file_bytes());
    CHECK(items[i].created == t.clock.seconds);
    REQUIRE(items[i].labels.tags.count == 2);
    CHECK(items[i].labels.tags.tags[1].view() == "another");
  }
  // A visitor may stop, and may call the library.
  struct Visit {
    TestLibrary* t;
    int count;
  } visit{&t, 0};
  REQUIRE(t.library
              .list(
                  "ann",
                  [](void* user, const LibraryItem& item) {
                    auto& v = *static_cast<Visit*>(user);
                    bool found = false;
                    CHECK(v.t->library.remove("ann", LibraryPart::kOwn, item.key, &found).ok());
                    return ++v.count < 3;
                  },
                  &visit)
              .ok());
  CHECK(visit.count == 3);
  CHECK(list(t, "ann").size() == 2);
}

}  // namespace ocellus
