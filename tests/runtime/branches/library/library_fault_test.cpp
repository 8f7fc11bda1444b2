// The image library on disks that are full, fail or cannot be written, and under processes that die.
#include <doctest/doctest.h>

#include "tests/support/library.h"

namespace ocellus {
namespace {

using test::Contents;
using test::facts_of;
using test::FaultyFiles;
using test::TestLibrary;
using Fault = FaultyFiles::Fault;

/// Everything that changes a library, one thing after the other.
constexpr int kActions = 6;
Status act(TestLibrary& t, int action, const LibraryKey& first) {
  LibraryKey key;
  LibraryEntry entry;
  LibraryReport report;
  bool found = false;
  switch (action) {
    case 0: return t.library.put("ann", LibraryPart::kOwn, Contents(3, 7).entry(), &key);      // new
    case 1: return t.library.put("ann", LibraryPart::kOwn, Contents(1, 7).entry(), &key);      // in place of another
    case 2: return t.library.put("new-one", LibraryPart::kOwn, Contents(1, 7).entry(), &key);  // a new owner
    case 3: return t.library.remove("ann", LibraryPart::kOwn, first, &found);
    case 4: return t.library.set_pinned("ann", LibraryPart::kOwn, first, true, &found);
    default: return t.library.collect_garbage(&report);
  }
}

/// In all cases a served entry is one of the versions that were put, and untouched entries are there.
void check_nothing_lost(TestLibrary& t, int action) {
  const uint64_t first = t.version_of("ann", 1), third = t.version_of("ann", 3), other = t.version_of("new-one", 1);
  // An entry that the disk could not read for pinning is set aside.
  CHECK((first == 1 || (first == 7 && action == 1) || (first == 0 && action == 3) ||
         (first == 0 && action == 4 && t.aside_count() == 1)));
  CHECK((third == 0 || (third == 7 && action == 0)));
  CHECK((other == 0 || (other == 7 && action == 2)));
  CHECK(t.version_of("ann", 2) == 2);
  CHECK(t.version_of("bob", 1) == 4);
}

void fill(TestLibrary& t, LibraryKey* first) {
  *first = t.put("ann", 1, 1);
  t.put("ann", 2, 2);
  t.put("bob", 1, 4);
}

/// The files and the catalogue agree, and nothing is left over.
void check_tidy(TestLibrary& t) {
  LibraryReport report;
  REQUIRE_MESSAGE(t.library.collect_garbage(&report).ok(), last_failure().sentence);
  REQUIRE(t.library.verify(&report).ok());
  CHECK(report.sound == report.checked);
  CHECK(report.adopted == 0);
  CHECK(report.dropped == 0);
  CHECK(t.unfinished_count() == 0);
  CHECK(t.use().entries == static_cast<int64_t>(t.folder.names("entries").size()));
}

}  // namespace

TEST_CASE("a library's files are on the disk before they have a name, and names before a put returns") {
  TestLibrary t;
  t.put("ann", 1);
  t.files.log.clear();
  t.put("ann", 2);
  std::vector<std::string> order;
  for (const std::string& event : t.files.log)
    if (order.empty() || order.back() != event) order.push_back(event);
  CHECK(order == std::vector<std::string>{"write", "sync file", "rename", "sync folder"});
}

TEST_CASE("a full disk fails a library's put and loses nothing, however much still fits") {
  for (int64_t room = 0; room < Contents(3, 7).file_bytes(); room += 700) {
    CAPTURE(room);
    TestLibrary t;
    LibraryKey first;
    fill(t, &first);
    t.files.room = room;
    CHECK(act(t, 0, first).code() == Code::kIo);
    CHECK(std::string(last_failure().sentence).find("No space left") != std::string::npos);
    CHECK(act(t, 1, first).code() == Code::kIo);
    t.files.room = INT64_MAX;
    CHECK(t.unfinished_count() == 0);
    CHECK(t.version_of("ann", 3) == 0);
    CHECK(t.version_of("ann", 1) == 1);
    check_nothing_lost(t, 0);
    check_tidy(t);
    CHECK(act(t, 0, first).ok());
    CHECK(t.version_of("ann", 3) == 7);
  }
}

TEST_CASE("a library gets over reads and writes that do less than was asked for") {
  TestLibrary t;
  t.files.most_bytes = 37;
  LibraryKey first;
  fill(t, &first);
  check_nothing_lost(t, 0);
}

TEST_CASE("a library in a read-only folder is read, not written") {
  TestLibrary t;
  LibraryKey first;
  fill(t, &first);
  t.library.close();
  t.files.is_read_only = true;
  for (const bool has_catalogue : {true, false}) {
    CAPTURE(has_catalogue);
    if (!has_catalogue) std::filesystem::remove(t.folder / "catalogue.sqlite");
    t.reopen();
    for (int action = 0; action < 5; ++action) {
      CAPTURE(action);
      const Status status = act(t, action, first);
      CHECK(status.code() == Code::kIo);
    }
    check_nothing_lost(t, 0);
    CHECK(t.use().entries == 3);
  }
}

TEST_CASE("a library survives any file operation that fails, alone or with all that follow") {
  int64_t failures = 0;
  for (int action = 0; action < kActions; ++action) {
    for (const Fault fault : {Fault::kOnce, Fault::kFromThenOn}) {
      for (int64_t at = 0;; ++at) {
        CAPTURE(action);
        CAPTURE(at);
        TestLibrary t;
        LibraryKey first;
        fill(t, &first);
        t.files.plan(fault, at, at % 2 == 0 ? EIO : ENOSPC);
        const Status status = act(t, action, first);
        const bool was_reached = t.files.calls > at;
        t.files.plan(Fault::kNone, 0);
        failures += status.ok() ? 0 : 1;
        if (!status.ok()) CHECK(std::string(last_failure().sentence).size() > 10);
        check_nothing_lost(t, action);
        t.reopen();
        check_nothing_lost(t, action);
        check_tidy(t);
        if (!was_reached) break;
      }
    }
  }
  CHECK(failures > 50);
}

TEST_CASE("a library whose process dies in any file operation keeps what was there and is tidy again") {
  int64_t deaths = 0;
  for (int action = 0; action < kActions; ++action) {
    for (int64_t at = 0;; ++at) {
      CAPTURE(action);
      CAPTURE(at);
      TestLibrary t;
      LibraryKey first;
      fill(t, &first);
      t.library.close();
      const int status = test::run_in_process([&]() {
        t.files.plan(Fault::kExit, at);
        if (!t.library.open(t.config).ok()) ::_exit(1);
        (void)act(t, action, first);
      });
      t.reopen();
      check_nothing_lost(t, action);
      check_tidy(t);
      if (status == 0) break;
      REQUIRE(status == FaultyFiles::kExitCode);
      ++deaths;
    }
  }
  CHECK(deaths > 50);
}

TEST_CASE("reads of a library that fail find nothing and say nothing wrong") {
  for (int64_t at = 0;; ++at) {
    CAPTURE(at);
    TestLibrary t;
    LibraryKey first;
    fill(t, &first);
    t.files.plan(Fault::kOnce, at);
    const uint64_t version = t.version_of("ann", 1);
    const bool was_reached = t.files.calls > at;
    t.files.plan(Fault::kNone, 0);
    CHECK(version == (was_reached ? 0 : 1));
    CHECK(t.version_of("ann", 2) == 2);
    check_tidy(t);
    if (!was_reached) break;
  }
}

TEST_CASE("a library's garbage is what dead writers left, not what others are writing") {
  TestLibrary t;
  t.put("ann", 1);
  test::write_file(t.folder / "entries/.new-1-1", "half an entry");
  test::write_file(t.folder / "owners/.new-1-1", "");
  test::write_file(t.folder / "entries/somebody else's", "file");
  NewFile writing(LibraryFiles::system(), LibraryPath((t.folder / "entries").c_str()));
  REQUIRE(writing.create().ok());
  LibraryReport report;
  REQUIRE(t.library.collect_garbage(&report).ok());
  CHECK(report.unfinished == 2);
  CHECK(t.unfinished_count() == 1);
  REQUIRE(writing.append("bytes", 5).ok());
  REQUIRE(writing.sync().ok());
  REQUIRE(writing.place("placed").ok());
  CHECK(std::filesystem::file_size(t.folder / "entries/placed") == 5);
  CHECK(std::filesystem::exists(t.folder / "entries/somebody else's"));
}

TEST_CASE("two processes that write the same entry of a library leave one of the two") {
  TestLibrary t;
  t.put("ann", 1);
  t.library.close();
  const auto write = [&](uint64_t first_version) {
    ImageLibrary library;
    if (!library.open(t.config).ok()) ::_exit(1);
    for (uint64_t i = 0; i < 60; ++i) {
      LibraryKey key;
      LibraryEntry entry;
      bool found = false;
      uint64_t version = 0;
      if (!library.put("ann", LibraryPart::kOwn, Contents(5, first_version + i).entry(), &key).ok()) ::_exit(2);
      if (!library.find("ann", facts_of(5), &entry, &found).ok() || !found) ::_exit(3);
      if (!walk::check_entry(entry, 5, &version, &found).empty() || !found) ::_exit(4);
    }
  };
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    write(1000);
    ::_exit(0);
  }
  const int status = test::run_in_process([&]() { write(2000); });
  int child_status = 0;
  REQUIRE(::waitpid(child, &child_status, 0) == child);
  CHECK(status == 0);
  CHECK(child_status == 0);
  t.reopen();
  const uint64_t version = t.version_of("ann", 5);
  CHECK((version == 1059 || version == 2059));
  check_tidy(t);
  CHECK(t.use().entries == 2);
  CHECK(t.aside_count() == 0);
}

}  // namespace ocellus
