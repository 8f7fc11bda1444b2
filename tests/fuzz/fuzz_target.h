// A fuzz target: seed inputs, changes that know the inputs' format, and a function that runs an input. One source
// NAME_fuzz.cpp holds one target. Two programs run them: mutation_run.cpp by itself, with any compiler; libfuzzer.cpp
// as part of libFuzzer, which keeps inputs that reach new code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/random.h"

namespace ocellus::fuzz {

using Bytes = std::vector<uint8_t>;
using test::Random;

struct Target {
  const char* name;
  std::vector<Bytes> (*make_seeds)();
  /// Changes the input once. Any bytes may come in, damaged ones too.
  void (*mutate)(Bytes& input, Random& random);
  /// Returns true if the input was accepted. Aborts if the code breaks a promise.
  bool (*run)(const uint8_t* data, size_t size);
  size_t most_bytes = size_t{1} << 16;          // maximum size of an input
  int64_t most_heap_bytes = int64_t{64} << 20;  // maximum heap of a run at any time
};

/// Makes a target known when the program starts.
class Registration {
 public:
  explicit Registration(const Target& target);
};

/// All of them, by name.
std::vector<Target> all_targets();
/// nullptr if there is none.
const Target* find_target(std::string_view name);

/// Ends the process, with the sentence on stderr, unless the condition holds.
void require(bool condition, const char* what);

/// A path for a file or folder of this process, in memory where the system has that.
std::string temporary_path(const char* name);

/// The bytes of a file of the source tree; ends the process if it cannot be read.
Bytes read_source_file(const char* path);

}  // namespace ocellus::fuzz
