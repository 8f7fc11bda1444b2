// The file that the tests of the GGUF reader cut, forge and damage, and how they read it.
#pragma once

#include "quant/gguf.h"
#include "tests/support/gguf_builder.h"

namespace ocellus::test {

inline GgufBuilder small_gguf() {
  GgufBuilder file;
  file.add_string("general.architecture", "llama");
  file.add_u32("llama.block_count", 2);
  file.add_string_array("tokenizer.ggml.tokens", {"a", "b"});
  file.add_bool("tokenizer.ggml.add_bos_token", true);
  file.add_tensor("token_embd.weight", WeightFormat::kQ8_0, {32, 2});
  file.add_tensor("output_norm.weight", {4}, {1, 2, 3, 4});
  return file;
}

/// Parses bytes that end where their heap block does, and reads everything a good file holds.
inline Status parse_exactly(const Bytes& bytes, GgufFile* file) {
  ExactBytes exact(bytes);
  const Status status = file->parse(exact.data(), exact.size());
  if (status.ok()) walk(*file);
  file->close();  // the bytes go away
  return status;
}

}  // namespace ocellus::test
