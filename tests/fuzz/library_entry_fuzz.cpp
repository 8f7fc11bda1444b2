// Entries of the image library: heads and blocks with checksums that are right after every change.
#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/branches/library/library_entry_file.h"
#include "tests/fuzz/byte_changes.h"

namespace ocellus::fuzz {
namespace {

constexpr size_t kHeaderBytesAt = 12, kFileBytesAt = 16, kChecksumAt = 24;
constexpr int64_t kMaxBlocks = 64;

// A file that is in memory, whatever its name.
class OneFile : public LibraryFiles {
 public:
  OneFile(const uint8_t* data, size_t size) : data_(data), size_(static_cast<int64_t>(size)) {}
  int open(const char*, int, int) override { return 3; }
  int close(int) override { return 0; }
  int64_t read_at(int, int64_t offset, void* out, int64_t count) override {
    if (offset < 0 || offset >= size_) return 0;
    count = std::min(count, size_ - offset);
    std::memcpy(out, data_ + offset, static_cast<size_t>(count));
    return count;
  }
  int64_t write_at(int, int64_t, const void*, int64_t) override { return -EROFS; }
  int sync(int) override { return 0; }
  int64_t size(int) override { return size_; }
  int rename(const char*, const char*) override { return -EROFS; }
  int remove(const char*) override { return -EROFS; }
  int make_directory(const char*, int) override { return -EROFS; }
  int list(const char*, VisitName, void*) override { return 0; }
  int lock(int) override { return 0; }
  int wait_for_lock(int) override { return 0; }
  bool is_same_file(int, const char*) override { return true; }

 private:
  const uint8_t* data_;
  int64_t size_;
};

template <class T>
T read_number(const Bytes& bytes, size_t at) {
  T value;
  std::memcpy(&value, &bytes[at], sizeof value);
  return value;
}

template <class T>
void write_number(Bytes& bytes, size_t at, T value) {
  std::memcpy(&bytes[at], &value, sizeof value);
}

// The part of the file that its preamble says is the head, at least the preamble.
size_t head_bytes(const Bytes& file) {
  return std::clamp<size_t>(read_number<uint32_t>(file, kHeaderBytesAt), kPreambleBytes, file.size());
}

void fix_checksum(Bytes& file) {
  write_number<uint64_t>(file, kChecksumAt, 0);
  write_number(file, kChecksumAt, hash64(file.data(), static_cast<int64_t>(head_bytes(file))));
}

Bytes make_entry(int32_t layers, int32_t width, int64_t block_bytes) {
  EntryHeader header;
  header.facts.layer_count = layers;
  header.facts.kv_heads = 1;
  header.facts.head_dim = 8;
  header.facts.token_count = 4;
  header.facts.embedding_width = width;
  header.created = 1'800'000'000;
  const std::string_view tags[] = {"a board", "blue"};
  require(header.owner.assign("ann") && make_labels(tags, "A blue board.", 0, true, &header.labels).ok(),
          "the seeds' labels are sound");
  require(header.embedding.resize(width).ok() && header.blocks.resize(layers + 1).ok(), "the seeds have memory");
  for (float& number : header.embedding) number = 0.25f;
  const Bytes block(static_cast<size_t>(block_bytes), 7);
  for (BlockPlace& place : header.blocks) place = {0, block_bytes, hash64(block.data(), block_bytes)};
  lay_out_entry(&header);
  Buffer<std::byte> head;
  require(encode_header(header, &head).ok(), "the seeds' heads can be written");
  Bytes file(static_cast<size_t>(header.file_bytes));
  std::memcpy(file.data(), head.data(), static_cast<size_t>(head.size()));
  for (const BlockPlace& place : header.blocks)
    std::copy(block.begin(), block.end(), file.begin() + static_cast<std::ptrdiff_t>(place.offset));
  return file;
}

std::vector<Bytes> make_seeds() { return {make_entry(1, 0, 40), make_entry(2, 16, 600), make_entry(5, 3, 0)}; }

// Fields of the head: at places of two, four or eight bytes, or in their texts.
void change_head(Bytes& file, Random& random) {
  const size_t size = head_bytes(file);
  const size_t at = kPreambleBytes + pick_index(size - kPreambleBytes + 1, random);
  const uint64_t number = odd_number(random);
  const size_t width = size_t{1} << random.integer(0, 3);
  if (at + width <= size) std::memcpy(&file[at], &number, width);
}

void change_entry(Bytes& file, Random& random) {
  if (file.size() <= kPreambleBytes) return change_bytes(file, random);
  switch (random.integer(0, 7)) {
    case 0: write_number(file, kHeaderBytesAt, static_cast<uint32_t>(odd_number(random) & ~uint64_t{511})); break;
    case 1: write_number(file, kFileBytesAt, odd_number(random)); break;
    case 2: file.resize(kPreambleBytes + pick_index(file.size() - kPreambleBytes, random)); break;
    case 3: file.resize(file.size() + static_cast<size_t>(kBlockAlignment)); break;
    case 4: file[head_bytes(file) - 1 + pick_index(file.size() - head_bytes(file) + 1, random)] ^= 1; break;
    default:
      for (int64_t left = random.integer(1, 3); left > 0; --left) change_head(file, random);
  }
  if (!once_in(8, random)) fix_checksum(file);
}

void check_header(const EntryHeader& header, size_t size) {
  require(header.file_bytes == static_cast<int64_t>(size), "a sound head tells the file's length");
  require(is_owner_name(header.owner.view()) || header.owner.view() == kSharedName, "an entry has an owner");
  require(is_caption(header.labels.caption.view()), "an entry's caption is one");
  for (int32_t i = 0; i < header.labels.tags.count; ++i)
    require(is_tag(header.labels.tags.tags[i].view()), "an entry's tags are tags");
  for (const BlockPlace& place : header.blocks)
    require(place.offset >= header.header_bytes && place.bytes >= 0 && place.offset + place.bytes <= header.file_bytes,
            "blocks lie behind the head and inside the file");
}

bool run(const uint8_t* data, size_t size) {
  OneFile files(data, size);
  EntryFile file;
  const FileOutcome outcome = file.open(files, LibraryPath("entry"));
  if (!outcome.is_sound()) return require(outcome.detail[0] != '\0', "damage is told in words"), false;
  check_header(file.header(), size);
  FileOutcome all;
  require(file.scan_blocks(nullptr, &all).ok(), "blocks can be looked through");
  bool is_whole = true;
  for (int64_t i = 0; i < std::min(file.header().blocks.size(), kMaxBlocks); ++i) {
    Bytes block(static_cast<size_t>(file.header().blocks[i].bytes));
    is_whole =
        file.read_block(static_cast<int32_t>(i), reinterpret_cast<std::byte*>(block.data())).is_sound() && is_whole;
  }
  require(is_whole || !all.is_sound(), "a file is as sound as its blocks");
  return all.is_sound();
}

const Registration kRegistered({.name = "library_entry",
                                .make_seeds = make_seeds,
                                .mutate = change_entry,
                                .run = run,
                                .most_heap_bytes = int64_t{8} << 20});

}  // namespace
}  // namespace ocellus::fuzz
