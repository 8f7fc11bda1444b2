// Paints boards.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/camera/scene.h"

namespace ocellus::app {

// Paints a board over the whole picture, whatever its aspect: its cells fill it. Shapes have smooth edges.
void paint_scene(const Board& board, int32_t width, int32_t height, std::vector<uint8_t>* rgb);

}  // namespace ocellus::app
