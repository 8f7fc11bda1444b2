// Row-by-row functions of the program for pictures that tests hold whole.
#pragma once

#include <cstdint>
#include <vector>

#include "mm/pictures/frame.h"
#include "mm/pictures/image_decode.h"
#include "mm/views/image_hash.h"
#include "mm/views/view_maker.h"

namespace ocellus::testing {

/// By a decoder of its own.
inline Status decode_image(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, Extent scratch,
                           RgbImage* out) {
  ImageDecoder decoder;
  OCELLUS_TRY(decoder.open());
  return decoder.decode(bytes, size_bytes, limits, scratch, out);
}

/// Into *pixels, by way of scratch for one row.
inline Status convert_frame(const Frame& frame, const ImageLimits& limits, Extent row, std::vector<uint8_t>* pixels,
                            RgbImage* out) {
  OCELLUS_TRY(check_frame(frame, limits));
  const int64_t stride = int64_t{3} * frame.width;
  pixels->resize(static_cast<size_t>(stride * frame.height));
  PixelWriter writer(place_stored_pixels(pixels->data(), stride, {}, frame.width, frame.height), frame.width);
  *out = {pixels->data(), frame.width, frame.height, stride};
  return feed_frame(frame, limits, row, writer);
}

/// Makes the images that the views of a picture are cut from. kInternal if it has fewer rows than the plan.
inline Status prepare_views(const PreprocessConfig& config, const ViewPlan& plan, const RgbImage& source,
                            Extent scratch, PreparedViews* out, const Orientation& orientation = {}) {
  ViewMaker maker;
  OCELLUS_TRY(maker.begin(config, plan, orientation, scratch));
  feed_rows(source, maker);
  return maker.finish(out);
}

inline ImageHash hash_image(const RgbImage& image, const PreprocessConfig& config) {
  ImageHasher hasher(config, image.width, image.height, {});
  feed_rows(image, hasher);
  return hasher.finish();
}

}  // namespace ocellus::testing
