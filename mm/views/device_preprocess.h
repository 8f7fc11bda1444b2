// mm/views/preprocess.h for pictures in device memory: the same views, bit-equal, as ops on a queue. On CUDA the host
// only uploads the picture's bytes.
//
//   DevicePicture picture;                                                    // a frame: checked, packed, uploaded
//   OCELLUS_TRY(upload_frame(frame, limits, staging, queue, &picture));       // staging: frame_upload_bytes(limits)
//   ViewPlan plan;
//   OCELLUS_TRY(plan_views(config, picture.width, picture.height, &plan));
//   OCELLUS_TRY(enqueue_views(config, plan, picture, scratch, pixels, queue));  // [plan.view_count() * 3 * height,
//   width]
//
// A decoded picture: ImageDecoder::decode into staging.host, then upload_picture. If the pixels of all views are too
// many at once: prepare_device_views once per picture, then render_device_views for some views at a time. A picture too
// large for the device's memory: a ViewMaker in staging.host, which never holds it, then upload_views.
//
// Staging, scratch and pixels are in use until the ops have run. Nothing here waits.
#pragma once

#include <cstdint>

#include "kernels/vision/picture.h"
#include "mm/pictures/frame.h"
#include "mm/views/preprocess.h"
#include "platform/arena.h"
#include "platform/queue.h"

namespace ocellus {

/// A frame or an RGB8 picture in device memory: planes of [rows, bytes per row], rows possibly strided.
struct DevicePicture {
  PixelFormat format = PixelFormat::kRgb8;
  ColorMatrix matrix = ColorMatrix::kBt601;
  bool full_range = false;
  DepthRange depth = {};
  int32_t width = 0;
  int32_t height = 0;
  DeviceView<const uint8_t> planes[kFramePlanes];
};

/// Staging for any frame within the limits: 4 bytes a pixel.
int64_t frame_upload_bytes(const ImageLimits& limits);

/// Bytes of this frame with rows and planes packed. 0 for a size that is not positive.
int64_t frame_bytes(const Frame& frame);

/// True if the frame's planes are in the memory of the queue's GPU. kBadArgument: in another's, or in several places.
Status find_frame(const Frame& frame, const Queue& queue, bool* on_device);

/// Copies a frame's rows into staging.host, plane after plane, packed, and from there to the device; planes that are on
/// it already go to staging.device, after the legacy default stream's work. The frame may be reused on return. Errors
/// of check_frame and find_frame; kFull if the staging is too small.
Status upload_frame(const Frame& frame, const ImageLimits& limits, const StagedRows<std::byte>& staging, Queue& queue,
                    DevicePicture* out);

/// Uploads a picture that was decoded into staging.host. kInternal if it lies elsewhere.
Status upload_picture(const RgbImage& image, const StagedRows<std::byte>& staging, Queue& queue, DevicePicture* out);

/// Scratch of prepare_device_views and enqueue_views for any picture within the limits: the picture as RGB8, outputs of
/// its resize passes, and one overview.
int64_t device_picture_scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits);

/// Images that all views of a picture are cut from; valid as long as the source and the scratch.
struct DeviceViews {
  ViewPlan plan;
  DeviceView<const uint8_t> tiles;     // RGB8: the tiled image, or its part that is not black
  DeviceView<const uint8_t> overview;  // RGB8
  int32_t left = 0, top = 0;           // position of that part
};

/// Uploads a ViewMaker's result in staging.host. kInternal if it lies elsewhere, or beyond the device's part.
Status upload_views(const PreparedViews& prepared, const StagedRows<std::byte>& staging, Queue& queue,
                    DeviceViews* out);

/// kInternal if plan and picture differ in size, kFull if the scratch is too small. The scratch starts on a 16-byte
/// boundary.
Status prepare_device_views(const PreprocessConfig& config, const ViewPlan& plan, const DevicePicture& source,
                            DeviceView<std::byte> scratch, Queue& queue, DeviceViews* out);

/// Writes views [first, first + count) as planar floats: pixels [count * 3 * height, width] of the plan's views.
Status render_device_views(const PreprocessConfig& config, const DeviceViews& views, int32_t first, int32_t count,
                           DeviceView<float> pixels, Queue& queue);

/// Does both for all views, of one size: pixels [plan.view_count() * 3 * height, width].
Status enqueue_views(const PreprocessConfig& config, const ViewPlan& plan, const DevicePicture& source,
                     DeviceView<std::byte> scratch, DeviceView<float> pixels, Queue& queue);

}  // namespace ocellus
