// Entries of the image library: what is put is what is found, and nothing else is.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tests/support/library.h"

namespace ocellus {
namespace {

using test::Contents;
using test::facts_of;
using test::TestLibrary;

/// Changes one byte of a file.
void change_byte(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(at);
  const auto byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(at);
  file.put(byte);
  REQUIRE(file.flush());
}

}  // namespace

TEST_CASE("a library gives back what was put, in this session and the next") {
  TestLibrary t;
  Contents contents(1, 9);
  contents.expires = t.clock.seconds + 100;
  contents.pinned = true;
  const LibraryKey key = t.put("ann", contents);
  for (int round = 0; round < 2; ++round) {
    LibraryEntry entry;
    bool found = false;
    REQUIRE(t.library.find("ann", facts_of(1), &entry, &found).ok());
    REQUIRE(found);
    CHECK(entry.key() == key);
    CHECK(entry.facts() == facts_of(1));
    CHECK(entry.part() == LibraryPart::kOwn);
    const EntryHeader& header = entry.header();
    CHECK(header.owner.view() == "ann");
    CHECK(header.created == t.clock.seconds);
    CHECK(header.labels.expires == contents.expires);
    CHECK(header.labels.pinned);
    REQUIRE(header.labels.tags.count == 2);
    CHECK(header.labels.tags.tags[0].view() == "a tag");
    CHECK(header.labels.tags.tags[1].view() == "another");
    CHECK(header.labels.caption.view() == contents.caption);
    REQUIRE(header.embedding.size() == walk::kWidth);
    CHECK(std::equal(header.embedding.begin(), header.embedding.end(), contents.embedding.begin()));
    REQUIRE(entry.block_count() == walk::kLayers + 1);
    CHECK(t.version_of("ann", 1) == 9);
    CHECK(t.version_of("ann", 2) == 0);
    t.reopen();
  }
  CHECK(std::filesystem::file_size(t.path_of(key)) == static_cast<uint64_t>(contents.file_bytes()));
}

TEST_CASE("a library's blocks can be read by other means and are checked afterwards") {
  TestLibrary t;
  const Contents contents(1, 9);
  const LibraryKey key = t.put("ann", contents);
  LibraryEntry entry;
  bool found = false;
  REQUIRE(t.library.find_key("ann", key, &entry, &found).ok());
  REQUIRE(found);
  std::vector<std::byte> bytes;
  for (int32_t block = 0; block < entry.block_count(); ++block) {
    CHECK(entry.block_offset(block) % kBlockAlignment == 0);
    bytes.resize(static_cast<size_t>(padded_block_bytes(entry.block_bytes(block))));
    REQUIRE(::pread(entry.descriptor(), bytes.data(), bytes.size(), entry.block_offset(block)) ==
            static_cast<ssize_t>(bytes.size()));
    REQUIRE(entry.check_block(block, bytes, &found).ok());
    CHECK(found);
    CHECK(std::memcmp(bytes.data(), contents.blocks[static_cast<size_t>(block)].data(),
                      contents.blocks[static_cast<size_t>(block)].size()) == 0);
  }
  bytes[0] ^= std::byte{1};
  CHECK(t.aside_count() == 0);
  REQUIRE(entry.check_block(entry.block_count() - 1, bytes, &found).ok());
  CHECK_FALSE(found);
  CHECK(t.aside_count() == 1);
  CHECK_FALSE(entry.is_open());
  CHECK(entry.read_block(0, bytes, &found).code() == Code::kBadArgument);
  CHECK(t.version_of("ann", 1) == 0);
  CHECK(t.use().entries == 0);
}

TEST_CASE("a library's entry that was opened outlasts its replacement and its removal") {
  TestLibrary t;
  const LibraryKey key = t.put("ann", 1, 5);
  LibraryEntry entry;
  bool found = false;
  REQUIRE(t.library.find("ann", facts_of(1), &entry, &found).ok());
  t.put("ann", 1, 6);
  uint64_t version = 0;
  CHECK(walk::check_entry(entry, 1, &version, &found) == "");
  CHECK(version == 5);
  CHECK(t.version_of("ann", 1) == 6);
  REQUIRE(t.library.remove("ann", LibraryPart::kOwn, key, &found).ok());
  CHECK(found);
  CHECK(walk::check_entry(entry, 1, &version, &found) == "");
  CHECK(version == 5);
  CHECK(t.version_of("ann", 1) == 0);
  REQUIRE(t.library.remove("ann", LibraryPart::kOwn, key, &found).ok());
  CHECK_FALSE(found);
  // A wrong byte in the one that was replaced is no reason to set the other aside.
  const std::vector<std::byte> wrong(static_cast<size_t>(entry.block_bytes(0)));
  t.put("ann", 1, 7);
  REQUIRE(entry.check_block(0, wrong, &found).ok());
  CHECK_FALSE(found);
  CHECK(t.version_of("ann", 1) == 7);
}

TEST_CASE("every fact of a library's entry makes another key") {
  const OwnerSecret secret = {{1, 2, 3}};
  EntryFacts facts = facts_of(1);
  const LibraryKey key = library_key(secret, facts);
  CHECK(key == library_key(secret, facts_of(1)));
  OwnerSecret other = secret;
  other.bytes[31] = 1;
  CHECK_FALSE(library_key(other, facts) == key);
  const auto differs = [&](auto& field) {
    ++field;
    CHECK_FALSE(library_key(secret, facts) == key);
    --field;
  };
  differs(facts.format_version);
  differs(facts.model.high);
  differs(facts.model.low);
  differs(facts.content.high);
  differs(facts.content.low);
  differs(facts.prefix_id);
  for (int32_t* field : {&facts.layer_count, &facts.kv_heads, &facts.head_dim, &facts.bits, &facts.scale_form,
                         &facts.token_count, &facts.block_rows, &facts.view_count, &facts.embedding_width,
                         &facts.stored_input_rows, &facts.tile_cols, &facts.shared_rows})
    differs(*field);
}

TEST_CASE("a library refuses entries that cannot be") {
  TestLibrary t;
  LibraryKey key;
  const Contents contents(1, 1);
  const auto check_refused = [&](const NewEntry& entry) {
    CHECK(t.library.put("ann", LibraryPart::kOwn, entry, &key).code() == Code::kBadArgument);
  };
  NewEntry entry = contents.entry();
  entry.facts.layer_count = 0;
  check_refused(entry);
  entry.facts.layer_count = kMaxEntryLayers + 1;
  check_refused(entry);
  entry = contents.entry();
  entry.blocks = entry.blocks.first(2);
  check_refused(entry);
  entry = contents.entry();
  entry.embedding = entry.embedding.first(3);
  check_refused(entry);
  const std::vector<float> zeros(walk::kWidth), endless(walk::kWidth, INFINITY);
  entry.embedding = zeros;
  check_refused(entry);
  entry.embedding = endless;
  check_refused(entry);
  for (const std::string_view tag :
       {std::string_view(""), std::string_view("a\nb"), std::string_view("12345678901234567890123456789012")}) {
    entry = contents.entry();
    entry.tags = {&tag, 1};
    check_refused(entry);
  }
  const std::vector<std::string_view> many(9, "tag");
  entry = contents.entry();
  entry.tags = many;
  check_refused(entry);
  entry = contents.entry();
  entry.expires = -1;
  check_refused(entry);
  CHECK(t.use().entries == 0);
  entry = contents.entry();
  const std::vector<std::span<const std::byte>> empty(3);
  entry.blocks = empty;
  entry.embedding = {};
  CHECK(t.library.put("ann", LibraryPart::kOwn, entry, &key).ok());
}

TEST_CASE("a library's file that is cut short is never served") {
  TestLibrary t;
  const Contents contents(1, 1);
  for (int64_t length = 0; length < contents.file_bytes(); length += length < 4200 ? 61 : 509) {
    CAPTURE(length);
    const LibraryKey key = t.put("ann", contents);
    std::filesystem::resize_file(t.path_of(key), static_cast<uint64_t>(length));
    CHECK(t.version_of("ann", 1) == 0);
    CHECK_FALSE(std::filesystem::exists(t.path_of(key)));
    CHECK(t.use().entries == 0);
  }
  const LibraryKey key = t.put("ann", contents);
  std::filesystem::resize_file(t.path_of(key), static_cast<uint64_t>(contents.file_bytes()) + 1);
  CHECK(t.version_of("ann", 1) == 0);
  CHECK(t.aside_count() <= 64);
  CHECK(t.aside_count() >= 62);
}

TEST_CASE("a library's file in the place of another is never served") {
  TestLibrary t;
  const LibraryKey first = t.put("ann", 1), second = t.put("ann", 2), foreign = t.put("bob", 1);
  const std::string kept = t.folder / "kept";
  std::filesystem::copy_file(t.path_of(first), kept);
  for (const LibraryKey& other : {second, foreign}) {
    std::filesystem::copy_file(t.path_of(other), t.path_of(first), std::filesystem::copy_options::overwrite_existing);
    CHECK(t.version_of("ann", 1) == 0);
    LibraryEntry entry;
    bool found = true;
    REQUIRE(t.library.find_key("ann", first, &entry, &found).ok());
    CHECK_FALSE(found);
  }
  CHECK(t.aside_count() == 2);
  CHECK(t.version_of("ann", 2) == 1);
  CHECK(t.version_of("bob", 1) == 1);
  // Something that is no file at all.
  std::filesystem::create_symlink(t.path_of(second), t.path_of(first));
  CHECK(t.version_of("ann", 1) == 0);
  std::filesystem::create_directory(t.path_of(first));
  CHECK(t.version_of("ann", 1) == 0);
  std::filesystem::remove_all(t.path_of(first));
  // And back in its place it is an entry again.
  std::filesystem::copy_file(kept, t.path_of(first));
  CHECK(t.version_of("ann", 1) == 1);
}

TEST_CASE("a library's verify reads everything and sets aside what is damaged") {
  TestLibrary t;
  LibraryKey keys[6];
  for (uint64_t i = 0; i < 6; ++i) keys[i] = t.put(i % 2 == 0 ? "ann" : "bob", i);
  LibraryReport report;
  REQUIRE(t.library.verify(&report).ok());
  CHECK(report.checked == 6);
  CHECK(report.sound == 6);
  change_byte(t.path_of(keys[0]), 100);
  change_byte(t.path_of(keys[1]), walk::kHeadBytes + 10);
  change_byte(t.path_of(keys[2]), Contents(2, 1).file_bytes() - kBlockAlignment + 4);
  std::filesystem::remove(t.path_of(keys[3]));
  REQUIRE(t.library.verify(&report).ok());
  CHECK(report.checked == 5);
  CHECK(report.sound == 2);
  CHECK(report.set_aside == 3);
  CHECK(report.dropped == 1);
  CHECK(t.aside_count() == 3);
  CHECK(t.use().entries == 2);
  REQUIRE(t.library.verify(&report).ok());
  CHECK(report.checked == 2);
  CHECK(report.sound == 2);
}

TEST_CASE("a closed library says so") {
  ImageLibrary library;
  LibraryUse use;
  CHECK(library.describe_all(&use).code() == Code::kBadArgument);
  CHECK(library.open({}).code() == Code::kBadArgument);
  CHECK(library.open({.path = "/proc/no/such"}).code() == Code::kIo);
  const std::string longer(2000, 'a');
  CHECK(library.open({.path = longer.c_str()}).code() == Code::kBadArgument);
}

}  // namespace ocellus
