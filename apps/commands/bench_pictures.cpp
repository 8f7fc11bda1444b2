#include "apps/commands/bench_pictures.h"

#include "apps/base/sizes.h"

namespace ocellus::app {
namespace {

constexpr int32_t kFrameWidth = 640;
constexpr int32_t kFrameHeight = 480;
constexpr size_t kFrameBytes = size_t{kFrameWidth} * kFrameHeight * 3;

}  // namespace

Pictures::Pictures(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const ImageFile image = probe_image(path);
    largest_.include(image);
    files_.push_back(image.read->bytes);
  }
  if (files_.empty()) {
    largest_ = {.pixels = int64_t{kFrameWidth} * kFrameHeight, .whole_pixels = 0};
    pixels_.resize(kFrameBytes);
  }
}

std::string Pictures::describe() const {
  if (!files_.empty()) return format_count(std::ssize(files_), "file");
  return std::to_string(kFrameWidth) + "x" + std::to_string(kFrameHeight) + " RGB frames";
}

void Pictures::paint(int32_t index, std::vector<uint8_t>* pixels) {
  for (size_t i = 0; i < pixels->size(); ++i) {
    (*pixels)[i] = static_cast<uint8_t>((i / 97 + i / kFrameWidth + 31 * static_cast<size_t>(index)) & 255);
  }
}

ocellus_frame Pictures::frame_of(const std::vector<uint8_t>& pixels) {
  return {.format = OCELLUS_RGB8,
          .width = kFrameWidth,
          .height = kFrameHeight,
          .full_range = 0,
          .plane = {pixels.data(), nullptr, nullptr},
          .stride_bytes = {int64_t{kFrameWidth} * 3, 0, 0},
          .color_matrix = OCELLUS_BT601,
          .depth_near = 0,
          .depth_far = 0};
}

Status Pictures::add(Session* session, int32_t index) {
  if (!files_.empty()) return session->add_encoded_image(files_[static_cast<size_t>(index) % files_.size()]);
  paint(index, &pixels_);
  return session->add_image(frame_of(pixels_));
}

std::vector<ocellus_part> Pictures::parts(int32_t count) {
  std::vector<ocellus_part> parts;
  for (int32_t i = static_cast<int32_t>(painted_.size()); i < count && files_.empty(); ++i) {
    painted_.emplace_back(kFrameBytes);
    paint(i, &painted_.back());
  }
  frames_.clear();
  for (const std::vector<uint8_t>& pixels : painted_) frames_.push_back(frame_of(pixels));
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    parts.push_back(files_.empty() ? make_part(frames_[i]) : make_part(OCELLUS_PART_IMAGE, files_[i % files_.size()]));
  }
  return parts;
}

}  // namespace ocellus::app
