// The targets as libFuzzer wants them: ocellus_fuzz --target=NAME [--seeds=DIR] [libFuzzer's options] [CORPUS...]
// --seeds writes the inputs to start from into a folder first. libFuzzer passes over options with two dashes.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/fuzz/byte_changes.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

using namespace ocellus::fuzz;

const Target* chosen = nullptr;

void write_seeds(const std::string& folder) {
  int number = 0;
  for (const Bytes& seed : chosen->make_seeds()) {
    std::ofstream file(folder + "/seed-" + std::to_string(number++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()), static_cast<std::streamsize>(seed.size()));
    require(file.good(), "the folder of seeds can be written");
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  const std::string target = "--target=", seeds = "--seeds=";
  std::string folder;
  for (int i = 1; i < *count; ++i) {
    const std::string argument = (*arguments)[i];
    if (argument.rfind(target, 0) == 0) chosen = find_target(argument.substr(target.size()));
    if (argument.rfind(seeds, 0) == 0) folder = argument.substr(seeds.size());
  }
  if (chosen == nullptr) {
    std::fprintf(stderr, "--target=NAME is needed; there are");
    for (const Target& one : all_targets()) std::fprintf(stderr, " %s", one.name);
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  if (!folder.empty()) write_seeds(folder);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chosen->run(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  if (once_in(4, random)) return LLVMFuzzerMutate(data, size, most);
  Bytes input(data, data + size);
  for (int64_t left = random.integer(1, 3); left > 0; --left) chosen->mutate(input, random);
  if (input.empty() || input.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::copy(input.begin(), input.end(), data);
  return input.size();
}
