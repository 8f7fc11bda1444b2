// Paints scenes.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/camera/scene.h"

namespace ocellus::app {

// Paints a scene over the whole picture, whatever its aspect: the board's cells fill it. Shapes have smooth edges.
void paint_scene(const Scene& scene, int32_t width, int32_t height, std::vector<uint8_t>* rgb);

}  // namespace ocellus::app
