// The image library's catalogue is rebuilt from the files if it is missing, damaged, foreign or out of date.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/support/library.h"

namespace ocellus {
namespace {

using test::Contents;
using test::facts_of;
using test::TestLibrary;

void fill(TestLibrary& t) {
  REQUIRE(t.library.create_shared("root").ok());
  t.put("ann", 1, 1);
  t.put("ann", 2, 2);
  t.put("bob", 1, 3);
  t.put("root", 4, 4, LibraryPart::kShared);
  Contents pinned(5, 5);
  pinned.pinned = true;
  t.put("bob", pinned);
}

void check_all(TestLibrary& t, ImageLibrary* other = nullptr) {
  CHECK(t.version_of("ann", 1, other) == 1);
  CHECK(t.version_of("ann", 2, other) == 2);
  CHECK(t.version_of("bob", 1, other) == 3);
  CHECK(t.version_of("bob", 5, other) == 5);
  CHECK(t.version_of("ann", 4, other) == 4);
  CHECK(t.version_of("ann", 5, other) == 0);
  LibraryUse use;
  REQUIRE((other != nullptr ? *other : t.library).describe_all(&use).ok());
  CHECK(use.entries == 5);
  CHECK(use.pinned_bytes == Contents(5, 5).file_bytes());
  CHECK((other != nullptr ? *other : t.library).create_shared("ann").code() == Code::kBadArgument);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void overwrite(const std::string& path, size_t at, const std::string& text) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file << text;
  REQUIRE(file.flush());
}

}  // namespace

TEST_CASE("a library's catalogue that is gone is made again, at the next opening and under those who have it open") {
  TestLibrary t;
  fill(t);
  ImageLibrary other;
  REQUIRE(other.open(t.config).ok());
  check_all(t, &other);
  std::filesystem::remove(t.folder / "catalogue.sqlite");
  check_all(t);
  check_all(t, &other);
  t.library.close();
  other.close();
  std::filesystem::remove(t.folder / "catalogue.sqlite");
  t.reopen();
  check_all(t);
}

TEST_CASE("a library's catalogue that is cut or overwritten is made again") {
  std::string whole;
  for (const int damage : {0, 1, 2, 3, 4, 5, 6, 7}) {
    CAPTURE(damage);
    TestLibrary t;
    fill(t);
    t.library.close();
    const std::string path = t.folder / "catalogue.sqlite";
    whole = read_file(path);
    REQUIRE(whole.size() > 8192);
    switch (damage) {
      case 0: std::filesystem::resize_file(path, 0); break;
      case 1: std::filesystem::resize_file(path, 100); break;
      case 2: std::filesystem::resize_file(path, whole.size() / 2); break;
      case 3: std::filesystem::resize_file(path, whole.size() - 4096); break;
      case 4: test::write_file(path, "this is no catalogue at all, but text that somebody put here\n"); break;
      case 5: overwrite(path, 0, std::string(100, '\0')); break;
      case 6: overwrite(path, 4096, std::string(whole.size() - 4096, '\x5A')); break;
      default: overwrite(path, 100, std::string(3000, '\xFF')); break;
    }
    t.reopen();
    check_all(t);
  }
}

TEST_CASE("a library's catalogue with damage anywhere leads to nothing wrong" * doctest::test_suite("long")) {
  TestLibrary t;
  fill(t);
  t.library.close();
  const std::string path = t.folder / "catalogue.sqlite", whole = read_file(path);
  walk::Random random(8);
  for (int round = 0; round < 250; ++round) {
    CAPTURE(round);
    const auto at = static_cast<size_t>(random.integer(0, static_cast<int64_t>(whole.size()) - 400));
    std::string noise;
    for (int64_t i = random.integer(1, 400); i > 0; --i) noise.push_back(static_cast<char>(random.bits()));
    std::filesystem::remove(path + "-wal");
    std::filesystem::remove(path + "-shm");
    test::write_file(path, whole);
    overwrite(path, at, noise);
    t.reopen();
    for (const auto& [owner, picture, version] :
         {std::tuple("ann", 1u, 1u), {"ann", 2u, 2u}, {"bob", 1u, 3u}, {"bob", 5u, 5u}, {"ann", 4u, 4u}})
      CHECK(t.version_of(owner, picture) == version);
    CHECK(t.version_of("ann", 5) == 0);
    LibraryReport report;
    REQUIRE_MESSAGE(t.library.verify(&report).ok(), last_failure().sentence);
    CHECK(report.sound == 5);
    CHECK(t.folder.names("entries").size() == 5);
    t.library.close();
  }
}

TEST_CASE("another program's database in the catalogue's place is moved away, not used") {
  TestLibrary t;
  fill(t);
  t.library.close();
  const std::string path = t.folder / "catalogue.sqlite";
  std::string foreign = read_file(path);
  foreign[71] = 'X';  // in SQLite's application id
  test::write_file(path, foreign);
  t.reopen();
  check_all(t);
  REQUIRE(t.aside_count() == 1);
  CHECK(read_file(t.folder / ("set-aside/" + t.folder.names("set-aside")[0])) == foreign);
  t.library.close();
  std::string later = read_file(path);
  later[63] = 99;  // our version of it
  test::write_file(path, later);
  t.reopen();
  check_all(t);
  CHECK(t.aside_count() == 2);
}

TEST_CASE("a library's older catalogue catches up with the files") {
  TestLibrary t;
  const std::string path = t.folder / "catalogue.sqlite";
  const LibraryKey gone = t.put("ann", 1, 1);
  t.put("ann", 2, 1);
  t.library.close();
  const std::string older = read_file(path);
  t.reopen();
  bool found = false;
  REQUIRE(t.library.remove("ann", LibraryPart::kOwn, gone, &found).ok());
  t.put("ann", 2, 6);
  t.put("bob", 3, 7);
  t.library.close();
  test::write_file(path, older);
  t.reopen();
  CHECK(t.use().entries == 2);
  CHECK(t.version_of("ann", 1) == 0);
  CHECK(t.version_of("ann", 2) == 6);
  CHECK(t.version_of("bob", 3) == 7);
  LibraryReport report;
  REQUIRE(t.library.verify(&report).ok());
  int64_t bytes = 0;
  for (const std::string& name : t.folder.names("entries"))
    bytes += static_cast<int64_t>(std::filesystem::file_size(t.folder / ("entries/" + name)));
  CHECK(t.use().bytes == bytes);
}

TEST_CASE("a library's owner without a file is known from the catalogue, and the other way round") {
  TestLibrary t;
  t.put("ann", 1, 1);
  t.library.close();
  for (const std::string& name : t.folder.names("owners")) std::filesystem::remove(t.folder / ("owners/" + name));
  t.reopen();
  CHECK(t.version_of("ann", 1) == 1);
  CHECK(t.folder.names("owners").size() == 1);
  t.library.close();
  std::filesystem::remove(t.folder / "catalogue.sqlite");
  t.reopen();
  CHECK(t.version_of("ann", 1) == 1);
  // Without either the entry's key cannot be made any more.
  t.library.close();
  for (const std::string& name : t.folder.names("owners")) test::write_file(t.folder / ("owners/" + name), "damaged");
  std::filesystem::remove(t.folder / "catalogue.sqlite");
  t.reopen();
  CHECK(t.version_of("ann", 1) == 0);
  CHECK(t.use().entries == 0);
  CHECK(t.folder.names("entries").empty());
  CHECK(t.aside_count() == 2);
  t.put("ann", 1, 2);
  CHECK(t.version_of("ann", 1) == 2);
}

TEST_CASE("two libraries on one folder see what the other does at once") {
  TestLibrary t;
  ImageLibrary other;
  REQUIRE(other.open(t.config).ok());
  const LibraryKey key = t.put("ann", 1, 1);
  CHECK(t.version_of("ann", 1, &other) == 1);
  LibraryKey same;
  REQUIRE(other.put("ann", LibraryPart::kOwn, Contents(1, 2).entry(), &same).ok());
  CHECK(same == key);
  CHECK(t.version_of("ann", 1) == 2);
  bool found = false;
  REQUIRE(other.remove("ann", LibraryPart::kOwn, key, &found).ok());
  CHECK(t.version_of("ann", 1) == 0);
  CHECK(t.use().entries == 0);
}

TEST_CASE("threads may share a library") {
  TestLibrary t;
  LibraryConfig config = t.config;
  config.files = nullptr;  // the test's own are for one thread
  ImageLibrary library;
  REQUIRE(library.open(config).ok());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread]() {
      const std::string owner = "owner" + std::to_string(thread % 2);
      for (uint64_t i = 0; i < 60; ++i) {
        LibraryKey key;
        LibraryEntry entry;
        bool found = false;
        uint64_t version = 0;
        const uint64_t picture = i % 5;
        if (!library.put(owner, LibraryPart::kOwn, Contents(picture, 100 * thread + i).entry(), &key).ok()) ++wrong;
        if (!library.find(owner, facts_of(picture), &entry, &found).ok() || !found) ++wrong;
        if (found && (!walk::check_entry(entry, picture, &version, &found).empty() || !found)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(t.use().entries == 10);
  CHECK(t.aside_count() == 0);
}

}  // namespace ocellus
