#include "tools/library_walk.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>

namespace ocellus::walk {
namespace {

namespace fs = std::filesystem;

void fill(std::vector<std::byte>& bytes, uint64_t seed) {
  Random random(seed);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t bits = random.bits();
    std::memcpy(bytes.data() + i, &bits, std::min<size_t>(8, bytes.size() - i));
  }
}

/// Returns a block: its version, then bytes derived from picture, version and block number.
std::vector<std::byte> block_of(uint64_t picture, uint64_t version, int32_t block) {
  Random random(picture * 64 + static_cast<uint64_t>(block));
  std::vector<std::byte> bytes(static_cast<size_t>(block == 0 ? 600 : random.integer(8, 5000)));
  fill(bytes, (picture << 40) ^ (version << 8) ^ static_cast<uint64_t>(block));
  std::memcpy(bytes.data(), &version, sizeof version);
  return bytes;
}

LibraryConfig config_of(const Folder& folder) {
  LibraryConfig config;
  config.path = folder.c_str();
  return config;
}

}  // namespace

Folder::Folder(bool in_memory) {
  static std::atomic<int> count{0};
  const bool has_memory = in_memory && ::access("/dev/shm", W_OK) == 0;
  const fs::path parent = has_memory ? fs::path("/dev/shm") : fs::temp_directory_path();
  path_ = (parent / ("ocellus-library-" + std::to_string(::getpid()) + "-" + std::to_string(count++))).string();
  fs::remove_all(path_);
  fs::create_directories(path_);
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> Folder::names(const std::string& below, bool hidden) const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(*this / below)) {
    const std::string name = entry.path().filename().string();
    if (hidden || name[0] != '.') names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

EntryFacts facts_of(uint64_t picture) {
  EntryFacts facts;
  facts.model = {1, 2};
  facts.content = {picture, ~picture};
  facts.prefix_id = 7;
  facts.layer_count = kLayers;
  facts.kv_heads = 3;
  facts.head_dim = 64;
  facts.bits = 2;
  facts.token_count = 64;
  facts.block_rows = 32;
  facts.view_count = 1;
  facts.embedding_width = kWidth;
  facts.stored_input_rows = 4;
  return facts;
}

Contents::Contents(uint64_t picture_, uint64_t version) : picture(picture_) {
  for (int32_t block = 0; block <= kLayers; ++block) blocks.push_back(block_of(picture, version, block));
  for (const auto& block : blocks) spans.emplace_back(block);
  Random random(picture);
  for (int32_t i = 0; i < kWidth; ++i) embedding.push_back(static_cast<float>(random.integer(-1000, 1000)) / 1000);
  tags = {"a tag", "another"};
  caption = "Picture p" + std::to_string(picture) + ", version " + std::to_string(version);
}

NewEntry Contents::entry() const {
  NewEntry entry;
  entry.facts = facts_of(picture);
  entry.tags = tags;
  entry.expires = expires;
  entry.pinned = pinned;
  entry.caption = caption;
  entry.embedding = embedding;
  entry.blocks = spans;
  return entry;
}

int64_t Contents::file_bytes() const {
  int64_t bytes = kHeadBytes;
  for (const auto& block : blocks) bytes += padded_block_bytes(static_cast<int64_t>(block.size()));
  return bytes;
}

std::string check_entry(LibraryEntry& entry, uint64_t picture, uint64_t* version, bool* found) {
  if (!(entry.facts() == facts_of(picture))) return "other facts";
  for (int32_t block = 0; block <= kLayers; ++block) {
    std::vector<std::byte> bytes(static_cast<size_t>(entry.block_bytes(block)));
    if (!entry.read_block(block, bytes, found).ok()) return last_failure().sentence;
    if (!*found) return "";
    if (block == 0) std::memcpy(version, bytes.data(), sizeof *version);
    if (bytes != block_of(picture, *version, block)) return "other bytes in block " + std::to_string(block);
  }
  return "";
}

Outcome flip_bits(int64_t first, int64_t count) {
  constexpr int64_t kVersionByte = 8;  // offset of the version's lowest byte in a file
  Outcome outcome;
  const Folder folder;
  ImageLibrary library;
  LibraryKey key;
  const Contents contents(5, 1);
  if (!library.open(config_of(folder)).ok() || !library.put("owner", LibraryPart::kOwn, contents.entry(), &key).ok()) {
    outcome.note_wrong(last_failure().sentence);
    return outcome;
  }
  const std::string path = folder / ("entries/" + std::string(key_text(key).text) + ".entry");
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  const auto flip = [&](int64_t bit) {
    uint8_t byte = 0;
    if (::pread(file, &byte, 1, bit / 8) != 1) outcome.note_wrong("the file is too short");
    byte = static_cast<uint8_t>(byte ^ 1u << (bit % 8));
    if (::pwrite(file, &byte, 1, bit / 8) != 1) outcome.note_wrong("the file cannot be written");
  };
  for (int64_t i = first; i < first + count; ++i, ++outcome.done) {
    const int64_t bit = i % (8 * contents.file_bytes());
    flip(bit);
    LibraryEntry entry;
    bool found = false;
    uint64_t version = 0;
    std::string wrong;
    if (!library.find("owner", facts_of(5), &entry, &found).ok()) wrong = last_failure().sentence;
    if (found) wrong = check_entry(entry, 5, &version, &found);
    if (!wrong.empty()) outcome.note_wrong("bit " + std::to_string(bit) + ": " + wrong);
    ++(found ? outcome.served : outcome.refused);
    flip(bit);
    if (found) continue;
    const std::vector<std::string> aside = folder.names("set-aside");
    // A file of an earlier version is not read, but is no damage.
    const bool is_earlier = bit / 8 == kVersionByte && aside.empty();
    if (aside.size() != 1 && !is_earlier)
      outcome.note_wrong("bit " + std::to_string(bit) + ": the file was not set aside");
    for (const std::string& name : aside) fs::rename(folder / ("set-aside/" + name), path);
  }
  ::close(file);
  return outcome;
}

namespace {

constexpr uint64_t kSteady = 1000;  // pictures from here on are never touched
constexpr int32_t kSteadyCount = 3;
constexpr uint64_t kBusyPictures = 6;

/// Works until the process is killed.
[[noreturn]] void write_forever(const Folder& folder, uint64_t seed) {
  Random random(seed);
  ImageLibrary library;
  if (!library.open(config_of(folder)).ok()) ::_exit(1);
  while (true) {
    const auto picture = static_cast<uint64_t>(random.integer(1, kBusyPictures));
    LibraryEntry entry;
    LibraryKey key;
    LibraryReport report;
    bool found = false;
    const int64_t choice = random.integer(0, 9);
    if (choice < 6) {
      (void)library.put("busy", LibraryPart::kOwn, Contents(picture, random.bits() >> 1).entry(), &key);
    } else if (choice < 9) {
      (void)library.find("busy", facts_of(picture), &entry, &found);
      if (found && choice == 7) (void)library.remove("busy", LibraryPart::kOwn, entry.key(), &found);
      if (found && choice == 8)
        (void)library.set_pinned("busy", LibraryPart::kOwn, entry.key(), random.integer(0, 1) == 1, &found);
    } else {
      (void)library.collect_garbage(&report);
    }
  }
}

void look_at_what_is_left(const Folder& folder, Outcome& outcome) {
  ImageLibrary library;
  LibraryReport report;
  LibraryUse use;
  const bool is_open = library.open(config_of(folder)).ok() && library.collect_garbage(&report).ok() &&
                       library.verify(&report).ok() && library.describe_all(&use).ok();
  if (!is_open) return outcome.note_wrong(last_failure().sentence);
  if (report.sound != report.checked || report.set_aside != 0) outcome.note_wrong("an entry is damaged");
  const auto look = [&](const char* owner, uint64_t picture, bool must_be) {
    LibraryEntry entry;
    bool found = false;
    uint64_t version = 0;
    std::string wrong;
    if (!library.find(owner, facts_of(picture), &entry, &found).ok()) wrong = last_failure().sentence;
    if (found) wrong = check_entry(entry, picture, &version, &found);
    if (must_be && !found) wrong = "an earlier entry is lost";
    if (!wrong.empty()) outcome.note_wrong(wrong);
    ++(found ? outcome.served : outcome.refused);
  };
  for (uint64_t picture = kSteady; picture < kSteady + kSteadyCount; ++picture) look("steady", picture, true);
  for (uint64_t picture = 1; picture <= kBusyPictures; ++picture) look("busy", picture, false);
  int64_t bytes = 0;
  for (const std::string& name : folder.names("entries", true)) {
    bytes += static_cast<int64_t>(fs::file_size(folder / ("entries/" + name)));
    if (name[0] == '.') outcome.note_wrong("an unfinished file stayed");
  }
  if (bytes != use.bytes) outcome.note_wrong("the catalogue counts other bytes than there are");
  if (!folder.names("set-aside").empty()) outcome.note_wrong("something was set aside");
}

}  // namespace

Outcome kill_writers(uint64_t seed, int64_t count) {
  Outcome outcome;
  const Folder folder;
  Random random(seed);
  {
    ImageLibrary library;
    LibraryKey key;
    if (!library.open(config_of(folder)).ok()) outcome.note_wrong(last_failure().sentence);
    for (uint64_t picture = kSteady; picture < kSteady + kSteadyCount; ++picture)
      if (!library.put("steady", LibraryPart::kOwn, Contents(picture, 1).entry(), &key).ok())
        outcome.note_wrong(last_failure().sentence);
  }
  for (; outcome.done < count; ++outcome.done) {
    const uint64_t child_seed = random.bits();
    // Some are killed while opening, most while writing; sometimes the catalogue is removed as well.
    const int64_t delay_us = random.integer(0, 3) == 0 ? random.integer(0, 2000) : random.integer(2000, 12000);
    if (random.integer(0, 49) == 0) fs::remove(folder / "catalogue.sqlite");
    const pid_t child = ::fork();
    if (child == 0) write_forever(folder, child_seed);
    ::usleep(static_cast<useconds_t>(delay_us));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFSIGNALED(status)) outcome.note_wrong("the writer could not open the library");
    look_at_what_is_left(folder, outcome);
  }
  return outcome;
}

}  // namespace ocellus::walk
