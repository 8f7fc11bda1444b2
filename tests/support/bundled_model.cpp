#include "tests/support/bundled_model.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace ocellus::test {

std::unique_ptr<Model> open_pair(const std::string& text, const std::string& vision) {
  auto opened = std::make_unique<Model>();
  REQUIRE_MESSAGE(opened->open(text.c_str(), vision.c_str()).ok(), last_failure().sentence);
  return opened;
}

const Model& bundled_model() {
  static const std::unique_ptr<Model> model = open_pair(bundled_pair().model, bundled_pair().mmproj);
  return *model;
}

GgufBuilder first_layers(const std::string& path, const char* count) {
  constexpr uint32_t kLayers = 2;
  GgufFile file;
  REQUIRE_MESSAGE(file.open(path.c_str()).ok(), last_failure().sentence);
  GgufBuilder first(file);
  first.remove(count);
  first.add_u32(count, kLayers);
  const auto is_beyond = [](const GgufBuilder::Tensor& tensor) {
    const size_t at = tensor.name.find("blk.");
    return at != std::string::npos && std::stoul(tensor.name.substr(at + 4)) >= kLayers;
  };
  first.tensors.erase(std::remove_if(first.tensors.begin(), first.tensors.end(), is_beyond), first.tensors.end());
  return first;
}

const Model& any_model() {
  static const std::unique_ptr<Model> model = [] {
    const TemporaryFile text(first_layers(bundled_pair().model, "llama.block_count"));
    const TemporaryFile vision(first_layers(bundled_pair().mmproj, "clip.vision.block_count"));
    return open_pair(text.path(), vision.path());
  }();
  return *model;
}

}  // namespace ocellus::test
