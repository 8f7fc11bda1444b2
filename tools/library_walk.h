// Hard times for the image library, in any number: bits that flip, processes that are killed, owners that do everything
// at random. The tests run a few, tools/library_stress.cpp very many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/library/image_library.h"

namespace ocellus::walk {

/// SplitMix64 (Steele, Lea and Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  /// Uniform in [low, high].
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }

 private:
  uint64_t state_;
};

/// A clock that stands still until it is set.
class SetClock : public LibraryClock {
 public:
  int64_t unix_seconds() override { return seconds; }
  int64_t seconds = 1'800'000'000;
};

/// An empty folder that goes with its object. In memory where the system has that, since the disk would set the pace.
class Folder {
 public:
  explicit Folder(bool in_memory = true);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  const char* c_str() const { return path_.c_str(); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  /// Names below a folder in it, without those that begin with a dot unless asked for.
  std::vector<std::string> names(const std::string& below, bool hidden = false) const;

 private:
  std::string path_;
};

inline constexpr int32_t kLayers = 2;
inline constexpr int32_t kWidth = 96;
/// Of such entries' files.
inline constexpr int64_t kHeadBytes = padded_block_bytes(2048 + 4 * kWidth + 24 * (kLayers + 1));

/// Facts of picture number `picture`.
EntryFacts facts_of(uint64_t picture);

/// What the bytes of an entry are made from, so that they can be told right from wrong whoever wrote them.
struct Contents {
  Contents(uint64_t picture, uint64_t version);
  /// For put(). Valid while this lives.
  NewEntry entry() const;
  int64_t file_bytes() const;

  uint64_t picture = 0;
  std::vector<std::vector<std::byte>> blocks;
  std::vector<std::span<const std::byte>> spans;
  std::vector<float> embedding;
  std::vector<std::string_view> tags;
  std::string caption;
  int64_t expires = 0;
  bool pinned = false;
};

/// Reads all blocks. Empty if they are of this picture, whatever the version, which is then in *version; else what is
/// wrong. *found is false where the library took the entry back.
std::string check_entry(LibraryEntry& entry, uint64_t picture, uint64_t* version, bool* found);

struct Outcome {
  int64_t done = 0;
  int64_t served = 0;   // entries that were found and read
  int64_t refused = 0;  // that were not found
  int64_t wrong = 0;    // that were served with other contents than were put, or other breaches
  std::string first_wrong;

  void note_wrong(const std::string& what) {
    if (wrong++ == 0) first_wrong = what;
  }
};

/// Flips one bit of an entry's file after the other: `first`, `first` + 1 ... count as bits of the whole file, over and
/// over. Everything must be refused, but for bits between blocks.
Outcome flip_bits(int64_t first, int64_t count);

/// Kills a process that puts, finds, pins and removes, at any moment; then looks at what is left.
Outcome kill_writers(uint64_t seed, int64_t count);

/// Operations of 20 owners through two libraries on one folder, against a plain model.
Outcome run_operations(uint64_t seed, int64_t count);

}  // namespace ocellus::walk
