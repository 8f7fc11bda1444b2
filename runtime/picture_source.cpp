#include "runtime/picture_source.h"

namespace ocellus {

Status PictureSource::open(const Picture& picture) {
  return queue_.on_cuda() ? open_on_device(picture) : open_on_host(picture);
}

/// Into the scratch on the host's side.
Status PictureSource::decode(const Picture& picture, RgbImage* image) {
  const Extent region{scratch_.picture.host.data, scratch_.picture.host.cols};
  if (picture.frame != nullptr) return convert_frame(*picture.frame, shape_.image_limits, region, image);
  return decode_image(picture.bytes, picture.byte_count, shape_.image_limits, region, image);
}

Status PictureSource::identify(const Picture& picture, ImageHash* hash) {
  RgbImage image;
  queue_.wait_for_copies();
  OCELLUS_TRY(decode(picture, &image));
  *hash = hash_image(image, shape_.preprocess);
  return {};
}

Status PictureSource::open_on_host(const Picture& picture) {
  const Extent region{scratch_.picture.host.data, scratch_.picture.host.cols};
  RgbImage image;
  OCELLUS_TRY(decode(picture, &image));
  return prepare_views(shape_.preprocess, plan_, image, scratch_after(image, region), &prepared_);
}

Status PictureSource::open_on_device(const Picture& picture) {
  DevicePicture uploaded;
  queue_.wait_for_copies();  // the picture before this one may still be on its way out of the same memory
  if (picture.frame != nullptr) {
    OCELLUS_TRY(upload_frame(*picture.frame, shape_.image_limits, scratch_.picture, queue_, &uploaded));
  } else {
    const Extent region{scratch_.picture.host.data, scratch_.picture.host.cols};
    RgbImage image;
    OCELLUS_TRY(decode_image(picture.bytes, picture.byte_count, shape_.image_limits, region, &image));
    OCELLUS_TRY(upload_picture(image, scratch_.picture, queue_, &uploaded));
  }
  queue_.note_copies();
  OCELLUS_TRY(prepare_device_views(shape_.preprocess, plan_, uploaded, scratch_.view_scratch, queue_, &device_views_));
  note_reads();
  return queue_.status();
}

void PictureSource::note_reads() {
  if (queue_.traits().shares_memory) queue_.note_copies();
}

Status PictureSource::render(int32_t view_index, DeviceView<float> pixels) {
  if (!queue_.on_cuda()) return render_view(shape_.preprocess, prepared_, view_index, pixels);
  OCELLUS_TRY(render_device_views(shape_.preprocess, device_views_, view_index, 1, pixels, queue_));
  note_reads();
  return queue_.status();
}

}  // namespace ocellus
