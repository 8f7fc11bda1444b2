// Shapes of models as small as they get, for tests of what is made up.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>

#include "runtime/models/family.h"
#include "runtime/models/model_shapes.h"
#include "tests/support/random_model.h"

namespace ocellus::test {

/// Everything a real shape has, as small as it gets.
inline ModelShape small_shape(const char* architecture = "llama") {
  ModelShape shape = {.name = "small",
                      .text = {.architecture = find_text_architecture(architecture),
                               .layer_count = 2,
                               .width = 256,
                               .query_heads = 4,
                               .kv_heads = 2,
                               .head_dim = 64,
                               .mlp_width = 320,  // no multiple of 256
                               .vocabulary = 340,
                               .context_length = 1024,
                               .rope = {.base = 10000.0f}},
                      .tied = architecture == std::string_view("qwen2")};
  if (has_sections(architecture)) shape.text.rope.sections = {.counts = {12, 10, 10}, .interleaved = true};
  shape.vision = {.family = &find_family("SmolVLM").vision,
                  .image_size = 32,
                  .patch_size = 8,
                  .width = 64,
                  .mlp_width = 104,  // no multiple of 32
                  .layer_count = 2,
                  .heads = 2,
                  .scale_factor = 2,
                  .output_width = 256,
                  .longest_edge = 64,
                  .image_mean = {0.5f, 0.5f, 0.5f},
                  .image_std = {0.5f, 0.5f, 0.5f}};
  return shape;
}

/// The same language model after CLIP and LLaVA's projector.
inline ModelShape small_llava_shape() {
  ModelShape shape = small_shape();
  shape.vision = {.family = &find_family("LLaVA-1.5").vision,
                  .activation = Activation::kQuickGelu,
                  .image_size = 32,
                  .patch_size = 8,
                  .width = 64,
                  .mlp_width = 104,
                  .layer_count = 2,
                  .heads = 2,
                  .class_rows = 1,
                  .projector_width = 72,
                  .output_width = 256,
                  .epsilon = 1e-5f,
                  .image_mean = {0.5f, 0.5f, 0.5f},
                  .image_std = {0.5f, 0.5f, 0.5f}};
  return shape;
}

/// A published shape of Qwen's vision families, Cosmos3-Edge or PaddleOCR-VL, of two small layers each.
inline ModelShape small_qwen_shape(const char* name) {
  const ModelShape* shape = nullptr;
  REQUIRE(find_model_shape(name, &shape).ok());
  ModelShape small = small_shape(shape->text.architecture->name);
  small.text.rope.sections.interleaved = shape->text.rope.sections.interleaved;
  small.vision = shape->vision;
  small.vision.width = 64;
  small.vision.mlp_width = 108;  // no multiple of 8
  small.vision.layer_count = 2;
  small.vision.heads = 2;
  small.vision.projector_width = 256;
  small.vision.output_width = 256;
  small.vision.window_period = std::min(small.vision.window_period, 2);
  small.text.deepstack_layers = small.vision.deepstack_count = std::min(small.vision.deepstack_count, 1);
  small.vision.deepstack_layers[0] = 0;
  return small;
}

}  // namespace ocellus::test
