// The views that the host cuts a picture into, for tests that hold the picture whole.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "mm/views/preprocess.h"
#include "mm/views/view_maker.h"
#include "tests/support/pictures.h"
#include "tests/support/whole_pictures.h"

namespace ocellus::testing {

/// Normalised planes of a view, R, G and B.
using Planes = std::vector<float>;

/// Limits that a picture of this size only just keeps.
ImageLimits tight_limits(int32_t width, int32_t height);

ViewPlan plan_of(const PreprocessConfig& config, int32_t width, int32_t height);

/// All views of a picture that is stored as `image`, made in scratch of exactly the bytes that these limits take.
std::vector<Planes> render_views(const PreprocessConfig& config, const RgbImage& image, const ImageLimits& limits,
                                 const Orientation& orientation = {});

std::vector<Planes> render_views(const PreprocessConfig& config, const RgbImage& image,
                                 const Orientation& orientation = {});

/// The 8-bit RGB pixels that became these planes.
std::vector<uint8_t> pixels_of(const Planes& planes, const PreprocessConfig& config);

}  // namespace ocellus::testing
