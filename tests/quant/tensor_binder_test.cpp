#include "quant/tensor_binder.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/gguf_builder.h"

using namespace ocellus;
using namespace ocellus::test;

namespace {

GgufBuilder make_layers() {
  GgufBuilder file;
  file.add_tensor("blk.0.up.weight", WeightFormat::kQ8_0, {64, 3});
  file.add_tensor("blk.0.up.bias", {3}, {1, 2, 3});
  file.add_tensor("blk.12.norm.weight", {4}, {5, 6, 7, 8});
  file.add_tensor("blk.12.norm.bias", {4}, {9, 10, 11, 12});
  file.add_tensor("blk.12.down.weight", WeightFormat::kF16, {2, 6});
  file.add_tensor("half.weight", WeightFormat::kF16, {4});
  file.add_tensor("patch.weight", WeightFormat::kF16, {2, 2, 3, 5});
  file.add_tensor("packed_patch.weight", WeightFormat::kQ8_0, {32, 2, 3, 5});
  return file;
}

void check_fails(Status status, Code code, const std::string& culprit) {
  CHECK(status.code() == code);
  CHECK_MESSAGE(std::string(last_failure().sentence).find(culprit) != std::string::npos, last_failure().sentence);
}

}  // namespace

TEST_CASE("a layer's tensors are bound by the names of its parts") {
  ExactBytes bytes(make_layers().build());
  GgufFile file;
  REQUIRE(file.parse(bytes.data(), bytes.size()).ok());
  const uint8_t* data = bytes.data() + file.data_offset();
  const TensorBinder tensors(file, {.data = data});
  const LayerBinder first(tensors, "blk", 0);
  const LayerBinder later(tensors, "blk", 12);

  Linear up;
  REQUIRE(first.linear("up", 3, 64, &up).ok());
  CHECK(up.weight.data == data + file.find_tensor("blk.0.up.weight")->offset);
  CHECK(up.weight.format == WeightFormat::kQ8_0);
  CHECK(up.weight.rows == 3);
  CHECK(up.weight.cols == 64);
  REQUIRE(up.bias != nullptr);
  CHECK(up.bias[2] == 3.0f);

  Linear down;
  REQUIRE(later.linear("down", 6, 2, &down).ok());
  CHECK(down.bias == nullptr);

  const float* weight = nullptr;
  const float* bias = nullptr;
  REQUIRE(later.norm("norm", 4, &weight, &bias).ok());
  CHECK(weight[0] == 5.0f);
  CHECK(bias[3] == 12.0f);
  CHECK(later.find("norm") == file.find_tensor("blk.12.norm.weight"));
  CHECK(first.find("norm") == nullptr);

  check_fails(first.norm("norm", 4, &weight), Code::kBadFile, "'blk.0.norm.weight' is missing");
  check_fails(first.norm("up", 3, &weight), Code::kBadFile, "'blk.0.up.weight'");
  check_fails(first.linear("up", 64, 3, &up), Code::kBadFile, "'blk.0.up.weight' has shape [3, 64]");
  check_fails(later.linear("norm", 1, 4, &down), Code::kBadFile, "'blk.12.norm.bias'");
}

TEST_CASE("without a base address everything is checked and nothing is pointed at") {
  ExactBytes bytes(make_layers().build());
  GgufFile file;
  REQUIRE(file.parse(bytes.data(), bytes.size()).ok());
  const TensorBinder tensors(file, {});
  Linear up;
  CHECK(LayerBinder(tensors, "blk", 0).linear("up", 3, 64, &up).ok());
  CHECK(up.weight.data == nullptr);
  CHECK(up.bias == nullptr);
  check_fails(LayerBinder(tensors, "blk", 0).linear("up", 3, 32, &up), Code::kBadFile, "metadata asks for [3, 32]");
}

TEST_CASE("convolutions are matrices, and vectors are f32") {
  ExactBytes bytes(make_layers().build());
  GgufFile file;
  REQUIRE(file.parse(bytes.data(), bytes.size()).ok());
  const uint8_t* data = bytes.data() + file.data_offset();
  const TensorBinder tensors(file, {.data = data});
  WeightView patch;
  CHECK(tensors.matrix("patch.weight", 5, 12, &patch).ok());
  CHECK(patch.row_bytes() == 24);
  check_fails(tensors.matrix("packed_patch.weight", 5, 192, &patch), Code::kUnsupported, "Q8_0");
  const float* values = nullptr;
  check_fails(tensors.vector("half.weight", 4, &values), Code::kUnsupported, "stored as F16");
  CHECK(tensors.optional_vector("absent.weight", 4, &values).ok());
  CHECK(values == nullptr);
}

TEST_CASE("a stretch of the tensors may lie apart from the others in memory") {
  ExactBytes bytes(make_layers().build());
  GgufFile file;
  REQUIRE(file.parse(bytes.data(), bytes.size()).ok());
  const int64_t begin = file.find_tensor("blk.12.norm.weight")->offset;
  const int64_t end = file.find_tensor("blk.12.norm.bias")->offset;
  const uint8_t* const data = bytes.data() + file.data_offset();
  std::vector<uint8_t> apart(data + begin, data + end), rest(data, data + begin);
  rest.insert(rest.end(), data + end, data + file.data_bytes());
  const TensorBinder tensors(file, {.data = rest.data(), .apart = apart.data(), .stretch = {begin, end}});
  const LayerBinder first(tensors, "blk", 0), later(tensors, "blk", 12);
  Linear up, down;
  REQUIRE(first.linear("up", 3, 64, &up).ok());
  REQUIRE(later.linear("down", 6, 2, &down).ok());
  const float *weight = nullptr, *bias = nullptr;
  REQUIRE(later.norm("norm", 4, &weight, &bias).ok());
  CHECK(up.bias[2] == 3.0f);
  CHECK(reinterpret_cast<const uint8_t*>(weight) == apart.data());
  CHECK(weight[3] == 8.0f);
  CHECK(bias[3] == 12.0f);
  CHECK(down.weight.data == rest.data() + file.find_tensor("blk.12.down.weight")->offset - (end - begin));
}
