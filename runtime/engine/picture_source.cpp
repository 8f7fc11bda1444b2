#include "runtime/engine/picture_source.h"

#include <algorithm>

namespace ocellus {

int64_t PictureSource::staging_bytes(const PictureShape& shape) {
  const ImageLimits& limits = shape.device_limits;
  const int64_t whole = std::max(decode_scratch_bytes(limits), frame_upload_bytes(limits));
  return shape.host_resizes_large() ? std::max(whole, image_scratch_bytes(shape.preprocess, shape.limits)) : whole;
}

int64_t PictureSource::upload_bytes(const PictureShape& shape) {
  const int64_t whole = frame_upload_bytes(shape.device_limits);
  return shape.host_resizes_large() ? std::max(whole, ViewMaker::result_bytes(shape.preprocess, shape.limits)) : whole;
}

PreprocessConfig preprocess_of(const PictureShape& shape, const Picture& picture) {
  return picture.is_overview ? of_overview(shape.preprocess) : shape.preprocess;
}

Status PictureSource::open(const Picture& picture) {
  return queue_.on_cuda() ? open_on_device(picture) : prepare_on_host(picture, &prepared_);
}

Status PictureSource::feed(const Picture& picture, Extent scratch, RowConsumer& rows) {
  if (picture.frame != nullptr) {
    bool on_device = false;
    OCELLUS_TRY(find_frame(*picture.frame, queue_, &on_device));
    if (on_device) {
      return OCELLUS_FAIL(Code::kUnsupported,
                          "the host needs the pixels of a frame in the GPU's memory, as it has more than "
                          "max_gpu_pixels or is looked up by its content (reuse): copy it to the host first");
    }
    return feed_frame(*picture.frame, shape_.limits, scratch, rows);
  }
  return decoder_.decode_rows(picture.bytes, picture.byte_count, shape_.limits, scratch, rows);
}

Status PictureSource::identify(const Picture& picture, ImageHash* hash) {
  ImageHasher hasher(preprocess_of(shape_, picture), picture.width, picture.height, picture.orientation);
  queue_.wait_for_copies();
  OCELLUS_TRY(feed(picture, {scratch_.picture.host.data, scratch_.picture.host.cols}, hasher));
  *hash = hasher.finish();
  return {};
}

Status PictureSource::prepare_on_host(const Picture& picture, PreparedViews* prepared) {
  const Extent scratch{scratch_.picture.host.data, scratch_.picture.host.cols};
  const int64_t views_bytes = aligned_bytes(ViewMaker::scratch_bytes(shape_.preprocess, shape_.limits));
  ViewMaker maker;
  OCELLUS_TRY(maker.begin(shape_.preprocess, plan_, picture.orientation, {scratch.data, views_bytes}));
  OCELLUS_TRY(feed(picture, {scratch.data + views_bytes, scratch.bytes - views_bytes}, maker));
  return maker.finish(prepared);
}

Status PictureSource::open_on_device(const Picture& picture) {
  queue_.wait_for_copies();  // the previous picture may still be uploading from the same memory
  if (shape_.is_large(int64_t{picture.width} * picture.height, std::max(picture.width, picture.height))) {
    PreparedViews prepared;
    OCELLUS_TRY(prepare_on_host(picture, &prepared));
    OCELLUS_TRY(upload_views(prepared, scratch_.picture, queue_, &device_views_));
    queue_.note_copies();
    return queue_.status();
  }
  DevicePicture uploaded;
  OCELLUS_TRY(upload(picture, &uploaded));
  queue_.note_copies();
  OCELLUS_TRY(prepare_device_views(shape_.preprocess, plan_, uploaded, scratch_.view_scratch, queue_, &device_views_));
  note_reads();
  return queue_.status();
}

/// Uploads the picture as a whole.
Status PictureSource::upload(const Picture& picture, DevicePicture* uploaded) {
  const ImageLimits& limits = shape_.device_limits;
  if (picture.frame != nullptr) return upload_frame(*picture.frame, limits, scratch_.picture, queue_, uploaded);
  const Extent region{scratch_.picture.host.data, scratch_.picture.host.cols};
  RgbImage image;
  OCELLUS_TRY(decoder_.decode(picture.bytes, picture.byte_count, limits, region, &image));
  return upload_picture(image, scratch_.picture, queue_, uploaded);
}

void PictureSource::note_reads() {
  if (queue_.traits().shares_memory) queue_.note_copies();
}

Status PictureSource::render(const Picture& picture, int32_t view_index, DeviceView<float> pixels) {
  const int64_t rows = pixels.rows / picture.frame_count();
  OCELLUS_TRY(render_frame(view_index, pixels.slice_rows(0, rows)));
  if (picture.next == nullptr) return {};
  OCELLUS_TRY(open(*picture.next));
  return render_frame(view_index, pixels.slice_rows(rows, rows));
}

Status PictureSource::render_frame(int32_t view_index, DeviceView<float> pixels) {
  if (!queue_.on_cuda()) return render_view(shape_.preprocess, prepared_, view_index, pixels);
  OCELLUS_TRY(render_device_views(shape_.preprocess, device_views_, view_index, 1, pixels, queue_));
  note_reads();
  return queue_.status();
}

}  // namespace ocellus
