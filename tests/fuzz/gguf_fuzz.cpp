// The GGUF reader, and every accessor on what it accepts.
#include "tests/fuzz/gguf_changes.h"
#include "tests/support/gguf_builder.h"

namespace ocellus::fuzz {
namespace {

std::vector<Bytes> make_seeds() {
  test::GgufBuilder every_type;
  every_type.add_u8("u8", 1);
  every_type.add_i8("i8", -1);
  every_type.add_u16("u16", 1);
  every_type.add_i16("i16", -1);
  every_type.add_u64("u64", 1);
  every_type.add_i64("i64", -1);
  every_type.add_f32("f32", 1.5f);
  every_type.add_f64("f64", 1.5);
  every_type.add_bool("bool", true);
  every_type.add_string("text", "some words");
  every_type.add_string_array("texts", {"a", "", "b"});
  every_type.add_f32_array("numbers", {1, 2, 3});
  every_type.add_i8_array("small", {1, 2, 3});
  every_type.add_alignment(64);
  every_type.add_tensor("packed", WeightFormat::kQ4_K, {256, 2});
  every_type.add_tensor("plain", {3, 2}, {1, 2, 3, 4, 5, 6});
  std::vector<Bytes> seeds = make_projectors();
  seeds.push_back(every_type.build());
  seeds.push_back(make_text_models().front());
  return seeds;
}

bool run(const uint8_t* data, size_t size) {
  GgufFile file;
  if (!file.parse(data, static_cast<int64_t>(size)).ok()) return false;
  test::walk(file);
  return true;
}

const Registration kRegistered({.name = "gguf",
                                .make_seeds = make_seeds,
                                .mutate = change_gguf,
                                .run = run,
                                .most_bytes = size_t{1} << 20,
                                .most_heap_bytes = int64_t{16} << 20});

}  // namespace
}  // namespace ocellus::fuzz
