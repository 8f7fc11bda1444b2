#include "runtime/models/model_shapes.h"

#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace ocellus {
namespace {

struct Gemma3Text {
  int32_t layers, width, mlp_width;
};

/// The sizes below 4B.
constexpr TextConfig gemma3_text(const Gemma3Text& t) {
  return {.architecture = find_text_architecture("gemma3"),
          .layer_count = t.layers,
          .width = t.width,
          .query_heads = 4,
          .kv_heads = 1,
          .head_dim = 256,
          .mlp_width = t.mlp_width,
          .vocabulary = 262144,
          .context_length = 32768,
          .epsilon = 1e-6f,
          .rope = {.base = 1000000.0f},
          .local = {.window = 512, .period = 6, .head_dim = 256}};
}

// Values from config.json of the published model. The dynamic rope scaling of InternLM2.5 starts beyond the
// context length given here, so it is omitted.
constexpr ModelShape kTextShapes[] = {
    {.name = "Qwen2.5-0.5B",
     .published = "Qwen/Qwen2.5-0.5B-Instruct",
     .text = {.architecture = find_text_architecture("qwen2"),
              .layer_count = 24,
              .width = 896,
              .query_heads = 14,
              .kv_heads = 2,
              .head_dim = 64,
              .mlp_width = 4864,
              .vocabulary = 151936,
              .context_length = 32768,
              .epsilon = 1e-6f,
              .rope = {.base = 1000000.0f}},
     .tied = true},
    {.name = "Qwen2.5-1.5B",
     .published = "Qwen/Qwen2.5-1.5B-Instruct",
     .text = {.architecture = find_text_architecture("qwen2"),
              .layer_count = 28,
              .width = 1536,
              .query_heads = 12,
              .kv_heads = 2,
              .head_dim = 128,
              .mlp_width = 8960,
              .vocabulary = 151936,
              .context_length = 32768,
              .epsilon = 1e-6f,
              .rope = {.base = 1000000.0f}},
     .tied = true},
    {.name = "Gemma3-270M",
     .published = "google/gemma-3-270m-it",
     .text = gemma3_text({.layers = 18, .width = 640, .mlp_width = 2048}),
     .tied = true},
    {.name = "Gemma3-1B",
     .published = "google/gemma-3-1b-it",
     .text = gemma3_text({.layers = 26, .width = 1152, .mlp_width = 6912}),
     .tied = true},
};

/// Joins names, as many as fit.
class NameList {
 public:
  void add(const char* name) {
    const int written = std::snprintf(text_ + used_, sizeof text_ - used_, "%s%s", used_ > 0 ? ", " : "", name);
    const bool fits = written > 0 && used_ + static_cast<size_t>(written) < sizeof text_;
    used_ += fits ? static_cast<size_t>(written) : 0;
    text_[used_] = '\0';
  }
  const char* text() const { return text_; }

 private:
  char text_[384] = {};
  size_t used_ = 0;
};

/// Number of characters in which two names begin alike, in any case.
size_t common_start(const char* one, const char* other) {
  size_t count = 0;
  while (one[count] != '\0' && ::strncasecmp(one, other, count + 1) == 0) ++count;
  return count;
}

}  // namespace

int32_t model_shape_count() {
  auto count = static_cast<int32_t>(std::size(kTextShapes));
  for (const Family* family : families()) count += static_cast<int32_t>(family->shapes.size());
  return count;
}

const ModelShape& model_shape(int32_t index) {
  for (const Family* family : families()) {
    const auto count = static_cast<int32_t>(family->shapes.size());
    if (index < count) return family->shapes[static_cast<size_t>(index)];
    index -= count;
  }
  return kTextShapes[index];
}

Status find_model_shape(const char* name, const ModelShape** out) {
  NameList nearest;
  size_t most = 0;
  for (int32_t i = 0; i < model_shape_count(); ++i) {
    const ModelShape& shape = model_shape(i);
    *out = &shape;
    if (::strcasecmp(name, shape.name) == 0) return {};
    const size_t same = common_start(name, shape.name);
    if (same > most) nearest = {};
    most = std::max(most, same);
    if (same == most) nearest.add(shape.name);
  }
  return OCELLUS_FAIL(Code::kBadArgument, "no such shape: choose one that `ocellus models` lists, such as %s",
                      nearest.text());
}

Status with_layers(const ModelShape& shape, int32_t layers, ModelShape* out) {
  int32_t least = 1;  // the first layer that attends is among them
  while (shape.text.convolves(least - 1)) ++least;
  if (layers < 0 || layers > shape.text.layer_count || (layers > 0 && layers < least))
    return OCELLUS_FAIL(Code::kBadArgument, "%s cannot have %d layers: choose %d to %d", shape.name, layers, least,
                        shape.text.layer_count);
  *out = shape;
  if (layers == 0) return {};
  out->text.layer_count = layers;
  out->text.sharing.count = std::max(0, layers - shape.text.own_layers());
  VisionConfig& vision = out->vision;
  vision.layer_count = std::min(layers, shape.vision.layer_count);
  int32_t& inner = vision.deepstack_count;
  while (inner > 0 && vision.deepstack_layers[inner - 1] >= vision.layer_count) --inner;
  out->text.deepstack_layers = inner;
  return {};
}

}  // namespace ocellus
