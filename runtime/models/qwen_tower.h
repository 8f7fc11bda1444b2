// Towers of Qwen2-VL, Qwen2.5-VL and Qwen3-VL: they take pictures at any size, rotate queries and keys by line and
// column, and join 2 x 2 patches to a row of the language model, whose positions have three coordinates. Qwen2.5-VL's
// layers look at windows, Qwen3-VL's inner rows join the first layers of the language model (DeepStack).
#pragma once

#include "runtime/models/family.h"

namespace ocellus {

inline constexpr int64_t kLeastQwenRows = 4, kMostQwenRows = 16384;  // published bounds of a picture; Qwen3-VL: at
                                                                     // least 64
inline constexpr int32_t kUsualQwenRows = 1280;                      // bound of transformers' processors of Qwen2-VL

extern const VisionTower kQwen2Tower, kQwen25Tower, kQwen3Tower;

/// Reads the side of a square table of positions for views of any size, if there is one.
Status read_position_side(const GgufFile& file, VisionConfig* config);
/// Reads bounds of a picture's pixels; a config keeps those that a file leaves out.
Status read_pixel_limits(const GgufFile& file, VisionConfig* config);
/// True if the MLP of a tower has a gate: it is Qwen2.5-VL's.
bool has_qwen_gate(const GgufFile& file);
/// Parts of their VisionFamily and Family.
Status read_qwen(const GgufFile& file, VisionConfig* config);
Status bind_qwen(const TensorBinder& binder, VisionModel* model);
void describe_qwen(const VisionConfig& config, GgufHeaderWriter* file, ShapeTensors* tensors);
void describe_qwen25_layer(const VisionConfig& config, std::string_view at, ShapeTensors* tensors);
void describe_qwen3_layer(const VisionConfig& config, std::string_view at, ShapeTensors* tensors);

}  // namespace ocellus
