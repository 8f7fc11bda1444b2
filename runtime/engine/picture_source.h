// PictureSource: one picture, from the caller's bytes or frame to the pixels of its views. On the CPU everything runs
// there; on CUDA the host only decodes (or copies the frame's planes into pinned memory), and conversion, resizing and
// normalisation run on the device. For pictures beyond PictureShape::device_limits the host makes the views, row by
// row, as neither side has memory for the whole picture.
#pragma once

#include "mm/pictures/frame.h"
#include "mm/pictures/image_decode.h"
#include "mm/views/clip_views.h"
#include "mm/views/device_preprocess.h"
#include "mm/views/image_hash.h"
#include "mm/views/view_maker.h"
#include "platform/queue.h"
#include "runtime/engine/phase_scratch.h"

namespace ocellus {

/// The source of a picture's pixels: encoded bytes or a frame, both known by size before anything is decoded.
struct Picture {
  const uint8_t* bytes = nullptr;
  int64_t byte_count = 0;
  const Frame* frame = nullptr;
  Orientation orientation = {};  // the stored rows are turned by it; width and height are those that are seen
  int32_t width = 0;
  int32_t height = 0;
  bool is_of_clip = false;
  bool is_overview = false;       // without tiles
  TimePlace time = {};            // a clip's group in its block
  const Picture* next = nullptr;  // the second of a pair of a clip's frames, whose size is the same

  int32_t frame_count() const { return next == nullptr ? 1 : 2; }
};

/// The config that tells the picture from others, and that it is planned by unless it is of a clip.
PreprocessConfig preprocess_of(const PictureShape& shape, const Picture& picture);

/// Wraps encoded bytes that probe_image has accepted.
inline Picture encoded_picture(const uint8_t* bytes, int64_t byte_count, const ImageFacts& facts) {
  return {.bytes = bytes,
          .byte_count = byte_count,
          .orientation = facts.orientation,
          .width = facts.width,
          .height = facts.height};
}

class PictureSource {
 public:
  PictureSource(const PictureShape& shape, const ViewPlan& plan, const ImageScratch& scratch, ImageDecoder& decoder,
                Queue& queue)
      : shape_(shape), plan_(plan), scratch_(scratch), decoder_(decoder), queue_(queue) {}

  /// Pinned memory of a picture on CUDA: decoded there, copied there plane by plane, or resized there row by row.
  static int64_t staging_bytes(const PictureShape& shape);
  /// The part of it that is uploaded to the GPU.
  static int64_t upload_bytes(const PictureShape& shape);

  /// Computes the picture's identity from its pixels. Call it before open(), which decodes again.
  Status identify(const Picture& picture, ImageHash* hash);
  /// Decodes or converts the picture and prepares the common input of its views.
  Status open(const Picture& picture);
  /// Renders one view of the picture that is open to normalised planar pixels: [frames * 3 * side, side]. Of a pair the
  /// second frame is open afterwards: it has one view.
  Status render(const Picture& picture, int32_t view_index, DeviceView<float> pixels);

 private:
  /// Passes the picture's rows to `rows` as stored.
  Status feed(const Picture& picture, Extent scratch, RowConsumer& rows);
  Status prepare_on_host(const Picture& picture, PreparedViews* prepared);
  Status open_on_device(const Picture& picture);
  Status upload(const Picture& picture, DevicePicture* uploaded);
  /// A GPU that shares the host's memory reads the picture in place: those reads count as copies.
  void note_reads();
  Status render_frame(int32_t view_index, DeviceView<float> pixels);

  const PictureShape& shape_;
  const ViewPlan& plan_;
  const ImageScratch& scratch_;
  ImageDecoder& decoder_;
  Queue& queue_;
  PreparedViews prepared_;    // CPU
  DeviceViews device_views_;  // CUDA
};

}  // namespace ocellus
