// RGB to the formats of cameras, for the synthetic scene. The library converts the other way: ocellus_frame_convert.
#pragma once

#include <cstdint>

namespace ocellus::app {

// Convert RGB to BT.601 with luma 16..235 and chroma of 2 x 2 (NV12) or 2 x 1 (YUYV) pixels; width, and for NV12
// height, are even.
void convert_to_nv12(const uint8_t* rgb, int32_t width, int32_t height, uint8_t* nv12);
void convert_to_yuyv(const uint8_t* rgb, int32_t width, int32_t height, uint8_t* yuyv);

}  // namespace ocellus::app
