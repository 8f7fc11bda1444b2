// Captions and labels of the image library's entries, and the search for their words.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include "runtime/branches/library/library_words.h"
#include "tests/support/library.h"

namespace ocellus {
namespace {

using test::Contents;
using test::facts_of;
using test::TestLibrary;

LibraryKey put_caption(TestLibrary& t, const std::string& owner, uint64_t picture, const std::string& caption,
                       LibraryPart part = LibraryPart::kOwn, int64_t expires = 0) {
  Contents contents(picture, 1);
  contents.caption = caption;
  contents.expires = expires;
  return t.put(owner, contents, part);
}

std::vector<LibraryKey> search(TestLibrary& t, const std::string& owner, std::string_view words, int32_t count = 10) {
  Buffer<FoundText> found;
  const Status status = t.library.search_text(owner, words, count, &found);
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  std::vector<LibraryKey> keys;
  for (const FoundText& one : found) keys.push_back(one.key);
  for (int64_t i = 1; i < found.size(); ++i) CHECK(found[i - 1].score >= found[i].score);
  return keys;
}

std::vector<double> scores(TestLibrary& t, const std::string& owner, std::string_view words) {
  Buffer<FoundText> found;
  REQUIRE_MESSAGE(t.library.search_text(owner, words, 10, &found).ok(), last_failure().sentence);
  std::vector<double> all;
  for (const FoundText& one : found) all.push_back(one.score);
  return all;
}

bool contains(const std::vector<LibraryKey>& keys, const LibraryKey& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::string caption_of(TestLibrary& t, const std::string& owner, const LibraryKey& key) {
  LibraryItem item;
  bool found = false;
  REQUIRE(t.library.describe_entry(owner, key, &item, &found).ok());
  return found ? std::string(item.labels.caption.view()) : "not found";
}

std::string quoted(std::string_view words) {
  Buffer<char> out;
  REQUIRE_MESSAGE(quote_words(words, &out).ok(), last_failure().sentence);
  return {out.data(), static_cast<size_t>(out.size())};
}

}  // namespace

TEST_CASE("a library's entry keeps its caption, in its file and in a catalogue made again") {
  TestLibrary t;
  const std::string longest(kMaxCaptionBytes, 'x'), other = "Eine gr\xC3\xBCne Ente, \xF0\x9F\xA6\x86 \"quoted\"; 'x'";
  const LibraryKey first = put_caption(t, "ann", 1, longest), second = put_caption(t, "ann", 2, other);
  const LibraryKey third = put_caption(t, "ann", 3, "");
  for (int round = 0; round < 2; ++round) {
    CHECK(caption_of(t, "ann", first) == longest);
    CHECK(caption_of(t, "ann", second) == other);
    CHECK(caption_of(t, "ann", third) == "");
    CHECK(caption_of(t, "bob", first) == "not found");
    CHECK(search(t, "ann", "ENTE") == std::vector{second});
    CHECK(search(t, "ann", "grune") == std::vector{second});
    LibraryEntry entry;
    bool found = false;
    REQUIRE(t.library.find_key("ann", second, &entry, &found).ok());
    REQUIRE(found);
    CHECK(entry.header().labels.caption.view() == other);
    CHECK(t.version_of("ann", 2) == 1);
    entry.close();
    t.library.close();
    std::filesystem::remove(t.folder / "catalogue.sqlite");
    t.reopen();
  }
}

TEST_CASE("a library refuses captions that are too long, no UTF-8 or move the cursor") {
  TestLibrary t;
  LibraryKey key;
  Contents contents(1, 1);
  for (const std::string& caption :
       {std::string(kMaxCaptionBytes + 1, 'x'), std::string("a\nb"), std::string("a\0b", 3), std::string("\x1B[2J"),
        std::string("\xC2\x9B"), std::string("\xC3"), std::string("\xFF"), std::string("\xED\xA0\x80")}) {
    contents.caption = caption;
    CHECK(t.library.put("ann", LibraryPart::kOwn, contents.entry(), &key).code() == Code::kBadArgument);
  }
  CHECK(t.folder.names("entries", true).empty());
}

TEST_CASE("labels of a library's entry change, and its blocks do not") {
  TestLibrary t;
  const LibraryKey key = put_caption(t, "ann", 1, "a red square");
  EntryLabels labels;
  labels.caption.assign("a blue circle");
  labels.tags.tags[labels.tags.count++].assign("kitchen");
  labels.pinned = true;
  labels.expires = t.clock.seconds + 50;
  bool found = false;
  REQUIRE(t.library.set_labels("bob", LibraryPart::kOwn, key, labels, &found).ok());
  CHECK_FALSE(found);
  REQUIRE(t.library.set_labels("ann", LibraryPart::kOwn, key, labels, &found).ok());
  CHECK(found);
  CHECK(t.version_of("ann", 1) == 1);
  CHECK(search(t, "ann", "red").empty());
  CHECK(search(t, "ann", "kitchens") == std::vector{key});
  REQUIRE(t.library.set_pinned("ann", LibraryPart::kOwn, key, false, &found).ok());
  LibraryItem item;
  REQUIRE(t.library.describe_entry("ann", key, &item, &found).ok());
  labels.pinned = false;
  CHECK(item.labels == labels);
  CHECK(item.has_embedding);
  labels.caption.assign("\x01");
  CHECK(t.library.set_labels("ann", LibraryPart::kOwn, key, labels, &found).code() == Code::kBadArgument);
  t.clock.seconds += 50;
  REQUIRE(t.library.describe_entry("ann", key, &item, &found).ok());
  CHECK_FALSE(found);
}

TEST_CASE("a library's search for words ranks by how many they are, then by age, and honours the count") {
  TestLibrary t;
  const LibraryKey both = put_caption(t, "ann", 1, "a red fox in the snow");
  const LibraryKey one = put_caption(t, "ann", 2, "a red bus in the rain");
  const LibraryKey none = put_caption(t, "ann", 3, "an empty street");
  const std::vector<LibraryKey> found = search(t, "ann", "red fox");
  REQUIRE(found.size() == 2);
  CHECK(found[0] == both);
  CHECK(found[1] == one);
  CHECK(search(t, "ann", "red fox", 1) == std::vector{both});
  CHECK(scores(t, "ann", "red fox") == std::vector{1.0, 0.5});
  CHECK(scores(t, "ann", "red red zebra snow --") == std::vector{0.75, 0.5});  // words of signs alone do not count
  CHECK(scores(t, "ann", "street") == std::vector{1.0});
  CHECK(search(t, "ann", "streets") == std::vector{none});
  CHECK(search(t, "ann", "zebra").empty());
  CHECK(search(t, "ann", "another").size() == 3);  // a tag of all
  Buffer<FoundText> out;
  for (const char* words : {"", " \t ", "\x01"})
    CHECK(t.library.search_text("ann", words, 3, &out).code() == Code::kBadArgument);
  CHECK(t.library.search_text("ann", "red", 0, &out).code() == Code::kBadArgument);
  CHECK(t.library.search_text("../ann", "red", 1, &out).code() == Code::kBadArgument);
  CHECK(t.library.search_text("ann", std::string(kMaxSearchBytes + 1, 'x'), 1, &out).code() == Code::kBadArgument);
  std::string many;
  for (int i = 0; i < kMaxSearchWords; ++i) many += "w ";
  CHECK(t.library.search_text("ann", many, 1, &out).ok());
  CHECK(t.library.search_text("ann", many + "w", 1, &out).code() == Code::kBadArgument);
}

TEST_CASE("a library's search for words shows nobody else's entries, and none that expired or went") {
  TestLibrary t;
  REQUIRE(t.library.create_shared("root").ok());
  const LibraryKey ann = put_caption(t, "ann", 1, "a secret door"), bob = put_caption(t, "bob", 1, "a secret lake");
  const LibraryKey shared = put_caption(t, "root", 2, "a secret for all", LibraryPart::kShared);
  const LibraryKey brief = put_caption(t, "ann", 3, "a secret of today", LibraryPart::kOwn, t.clock.seconds + 10);
  std::vector<LibraryKey> found = search(t, "ann", "secret");
  CHECK(found.size() == 3);
  CHECK_FALSE(contains(found, bob));
  found = search(t, "bob", "secret door lake today");
  CHECK(found.size() == 2);
  CHECK(contains(found, bob));
  CHECK(contains(found, shared));
  CHECK(search(t, "carl", "secret") == std::vector{shared});
  CHECK(search(t, "root", "secret") == std::vector{shared});
  t.clock.seconds += 10;
  CHECK_FALSE(contains(search(t, "ann", "today secret"), brief));
  bool gone = false;
  REQUIRE(t.library.remove("ann", LibraryPart::kOwn, ann, &gone).ok());
  CHECK(search(t, "ann", "secret") == std::vector{shared});
  Buffer<FoundText> out;
  REQUIRE(t.library.search_text("ann", "secret", 5, &out).ok());
  REQUIRE(out.size() == 1);
  CHECK(out[0].part == LibraryPart::kShared);
}

TEST_CASE("the order of what a library's search finds says nothing of other owners' captions") {
  TestLibrary t;
  const LibraryKey fox = put_caption(t, "ann", 1, "a fox"), bus = put_caption(t, "ann", 2, "a bus");
  const std::vector<LibraryKey> newest_first = {bus, fox};
  CHECK(search(t, "ann", "fox bus") == newest_first);
  for (uint64_t picture = 10; picture < 16; ++picture) put_caption(t, "bob", picture, "a fox");
  CHECK(search(t, "ann", "fox bus") == newest_first);
  for (uint64_t picture = 20; picture < 32; ++picture) put_caption(t, "bob", picture, "a bus, a bus");
  CHECK(search(t, "ann", "fox bus") == newest_first);
}

TEST_CASE("words of a library's search are nothing but words, whatever is written") {
  CHECK(quoted("red \"cat") == "\"red\" OR \"\"\"cat\"");
  CHECK(quoted(std::string_view(" a\0b\n", 5)) == "\"a\" OR \"b\"");
  TestLibrary t;
  REQUIRE(t.library.create_shared("root").ok());
  const LibraryKey bob = put_caption(t, "bob", 1, "the hidden thing");
  const LibraryKey ann = put_caption(t, "ann", 2, "what is \"near\" AND NOT far");
  for (const std::string_view words : {"\"",
                                       "\"\"",
                                       "\"\"\"",
                                       "*",
                                       "a*",
                                       "(",
                                       ")",
                                       "((",
                                       "^hidden",
                                       "caption:hidden",
                                       "{caption tags}:hidden",
                                       "hidden OR",
                                       "NOT hidden",
                                       "AND",
                                       "OR",
                                       "NEAR(hidden thing, 2)",
                                       "-caption:hidden",
                                       "a+b",
                                       "' OR 1=1 --",
                                       "'; DROP TABLE entries; --",
                                       "hidden\") OR (\"thing",
                                       "\\\"",
                                       "?",
                                       "?1",
                                       "\xFF\xFE",
                                       "\xC3",
                                       ";",
                                       "rowid:1",
                                       "words",
                                       "%",
                                       "_",
                                       "\xE2\x80\x9C",
                                       "a:b:c",
                                       "+ + +"}) {
    CAPTURE(words);
    CHECK_FALSE(contains(search(t, "ann", words), bob));
    CHECK_FALSE(contains(search(t, "ann", std::string(words) + " hidden"), bob));
  }
  CHECK(search(t, "ann", "and") == std::vector{ann});
  CHECK(search(t, "ann", std::string_view("far\0\"", 5)) == std::vector{ann});
  walk::Random random(91);
  for (int round = 0; round < 300; ++round) {
    std::string noise;
    for (int64_t i = random.integer(1, 40); i > 0; --i) noise.push_back(static_cast<char>(random.integer(33, 255)));
    CAPTURE(noise);
    CHECK_FALSE(contains(search(t, "ann", noise), bob));
  }
  CHECK(search(t, "bob", "hidden") == std::vector{bob});
  LibraryReport report;
  REQUIRE(t.library.verify(&report).ok());
  CHECK(report.sound == 2);
}

TEST_CASE("entries of an earlier version are not found in a library, not set aside, and collected") {
  for (const char version : {1, 2}) {
    CAPTURE(static_cast<int>(version));
    TestLibrary t;
    const LibraryKey old = put_caption(t, "ann", 1, "old"), sound = put_caption(t, "ann", 2, "new");
    t.library.close();
    std::fstream file(t.path_of(old), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8);
    file.put(version);
    file.close();
    std::filesystem::remove(t.folder / "catalogue.sqlite");
    t.reopen();
    CHECK(t.version_of("ann", 1) == 0);
    CHECK(t.version_of("ann", 2) == 1);
    CHECK(caption_of(t, "ann", old) == "not found");
    LibraryReport report;
    REQUIRE(t.library.verify(&report).ok());
    CHECK(report.set_aside == 0);
    CHECK(report.sound == 1);
    CHECK(t.aside_count() == 0);
    CHECK(t.folder.names("entries").size() == 2);
    REQUIRE(t.library.collect_garbage(&report).ok());
    CHECK(report.outdated == 1);
    CHECK(t.folder.names("entries").size() == 1);
    CHECK(caption_of(t, "ann", sound) == "new");
  }
}

TEST_CASE("where SQLite has no full text search a library keeps captions and says that it cannot search them") {
  const auto drop_modules = [](sqlite3* database, char**, const sqlite3_api_routines*) -> int {
    return sqlite3_drop_modules(database, nullptr);
  };
  using Entry = int (*)(sqlite3*, char**, const sqlite3_api_routines*);
  const auto entry = reinterpret_cast<void (*)()>(static_cast<Entry>(drop_modules));
  TestLibrary whole;
  put_caption(whole, "ann", 1, "a red square");
  REQUIRE(sqlite3_auto_extension(entry) == SQLITE_OK);
  {
    TestLibrary t;
    const LibraryKey key = put_caption(t, "ann", 1, "a red square");
    CHECK(caption_of(t, "ann", key) == "a red square");
    Buffer<FoundText> out;
    CHECK(t.library.search_text("ann", "red", 1, &out).code() == Code::kUnsupported);
    // One that another SQLite made is made again.
    whole.reopen();
    CHECK(whole.version_of("ann", 1) == 1);
    CHECK(whole.library.search_text("ann", "red", 1, &out).code() == Code::kUnsupported);
  }
  sqlite3_cancel_auto_extension(entry);
  whole.reopen();
  CHECK(search(whole, "ann", "red").size() == 1);
}

}  // namespace ocellus
