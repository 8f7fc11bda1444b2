// The GGUF reader on any bytes. The build links it with replay.cpp, which only replays files. For a search, compile
// this file, tests/support/gguf_builder.cpp, quant/*.cpp, platform/status.cpp and platform/file_map.cpp with
// clang++ -std=c++20 -O1 -g -I. -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
#include "tests/support/gguf_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ocellus::GgufFile file;
  if (file.parse(data, static_cast<int64_t>(size)).ok()) ocellus::test::walk(file);
  return 0;
}
