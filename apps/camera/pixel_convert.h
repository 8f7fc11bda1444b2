// Conversions between the raw pixel formats that the library reads.
#pragma once

#include <cstdint>

#include "apps/camera/frame.h"

namespace ocellus::app {

// Converts a raw frame whose bytes fit its size to RGB, 3 * width * height bytes.
void convert_to_rgb(const Frame& frame, uint8_t* rgb);

// Convert RGB to BT.601 with luma 16..235 and chroma of 2 x 2 (NV12) or 2 x 1 (YUYV) pixels; width, and for NV12
// height, are even.
void convert_to_nv12(const uint8_t* rgb, int32_t width, int32_t height, uint8_t* nv12);
void convert_to_yuyv(const uint8_t* rgb, int32_t width, int32_t height, uint8_t* yuyv);

// Converts Y, Cb and Cr planes of width * height bytes each to RGB.
void convert_planes_to_rgb(const uint8_t* planes, int32_t width, int32_t height, int32_t color_matrix, bool full_range,
                           uint8_t* rgb);

}  // namespace ocellus::app
