// Randomised tests of the image library, of any length: flipped bits, killed processes, random operations of owners.
// The tests run a few, tools/library_stress.cpp very many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/branches/library/image_library.h"

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

/// An empty temporary folder, removed with its object. In memory if the system allows, since a disk would limit the
/// speed.
class Folder {
 public:
  explicit Folder(bool in_memory = true);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  const char* c_str() const { return path_.c_str(); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  /// Lists names below a folder in it, without hidden ones unless requested.
  std::vector<std::string> names(const std::string& below, bool hidden = false) const;

 private:
  std::string path_;
};

inline constexpr int32_t kLayers = 2;
inline constexpr int32_t kWidth = 96;
/// Bytes before the first block of such entries' files.
inline constexpr int64_t kHeadBytes = padded_block_bytes(2048 + 4 * kWidth + 24 * (kLayers + 1));

/// Returns the facts of picture number `picture`.
EntryFacts facts_of(uint64_t picture);

/// Contents of an entry, derived from its name, so that they can be verified whoever wrote them.
struct Contents {
  Contents(uint64_t picture, uint64_t version);
  /// Returns the argument of put(); valid while this lives.
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

/// Reads all blocks. Returns an empty text if they are this picture's, of any version, which is set in *version; else
/// what is wrong. *found is false if the library withdrew the entry.
std::string check_entry(LibraryEntry& entry, uint64_t picture, uint64_t* version, bool* found);

struct Outcome {
  int64_t done = 0;
  int64_t served = 0;   // entries found and read
  int64_t refused = 0;  // entries not found
  int64_t wrong = 0;    // entries served with other contents than were put, or other faults
  std::string first_wrong;

  void note_wrong(const std::string& what) {
    if (wrong++ == 0) first_wrong = what;
  }
};

/// Flips one bit of an entry's file after the other: `first`, `first` + 1 ... index bits of the whole file, cyclically.
/// All must be refused, except for bits between blocks.
Outcome flip_bits(int64_t first, int64_t count);

/// Kills processes that put, find, pin and remove, at any moment, and checks the library afterwards.
Outcome kill_writers(uint64_t seed, int64_t count);

/// Runs operations of 20 owners through two libraries on one folder, against a plain model.
Outcome run_operations(uint64_t seed, int64_t count);

}  // namespace ocellus::walk
