#include "apps/camera/picture_decode.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "apps/base/sizes.h"
#include "apps/camera/jpeg_repair.h"

namespace ocellus::app {
namespace {

constexpr uint8_t kPngSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

// Decodes as for the model: rotated by EXIF, on white.
bool decode_file(const Frame& frame, Picture* picture) {
  const auto size = static_cast<int64_t>(frame.bytes.size());
  ocellus_image_facts facts;
  if (ocellus_image_probe(frame.bytes.data(), size, &facts) != OCELLUS_OK) return false;
  picture->pixels.resize(static_cast<size_t>(facts.decode_bytes));
  if (ocellus_image_decode_depth(frame.bytes.data(), size, frame.depth.near, frame.depth.far, picture->pixels.data(),
                                 facts.decode_bytes) != OCELLUS_OK) {
    return false;
  }
  picture->width = facts.width;
  picture->height = facts.height;
  picture->pixels.resize(static_cast<size_t>(pixel_bytes(OCELLUS_RGB8, facts.width, facts.height)));
  return true;
}

// Sets the frame's facts; returns what is wrong with it, in one sentence.
std::string probe_frame(Frame* frame) {
  ocellus_image_facts facts;
  if (ocellus_image_probe(frame->bytes.data(), std::ssize(frame->bytes), &facts) == OCELLUS_OK) {
    frame->width = facts.width;
    frame->height = facts.height;
    frame->whole_pixels = facts.whole_pixels;
    return {};
  }
  std::string sentence = ocellus_last_error()->sentence;
  if (!sentence.empty() && sentence[0] >= 'a' && sentence[0] <= 'z') sentence[0] = static_cast<char>(sentence[0] - 32);
  if (sentence.empty() || sentence.back() != '.') sentence += '.';
  return sentence;
}

}  // namespace

bool is_png(const std::vector<uint8_t>& bytes) {
  return bytes.size() >= sizeof kPngSignature && std::memcmp(bytes.data(), kPngSignature, sizeof kPngSignature) == 0;
}

bool begins_picture(const std::vector<uint8_t>& bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto at = [&text](size_t place, std::string_view part) {
    return text.size() >= place && text.substr(place, part.size()) == part;
  };
  constexpr std::string_view kBrands[] = {"heic", "heix", "heim", "heis", "mif1", "avif"};
  const bool is_heif = at(4, "ftyp") && std::any_of(std::begin(kBrands), std::end(kBrands),
                                                    [&](std::string_view brand) { return at(8, brand); });
  return is_png(bytes) || (at(0, "RIFF") && at(8, "WEBP")) || at(0, "GIF8") || at(0, "BM") || is_heif;
}

std::string read_picture_file(const std::string& path, std::vector<uint8_t>* bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::string("The file cannot be opened: ") + std::strerror(errno) + ".";
  struct stat facts;
  std::string wrong;
  if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    wrong = "This is not a regular file.";
  } else if (facts.st_size > kMaxEncodedBytes) {
    wrong = "The file has " + format_bytes(facts.st_size) + ", more than the 32 MiB that are read.";
  }
  if (wrong.empty()) {
    bytes->resize(static_cast<size_t>(facts.st_size));
    size_t done = 0;
    while (done < bytes->size()) {
      const ssize_t count = read(file, bytes->data() + done, bytes->size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      done += static_cast<size_t>(count);
    }
    bytes->resize(done);
  }
  close(file);
  return wrong;
}

std::string finish_encoded(Frame* frame) {
  frame->kind = FrameKind::kEncoded;
  if (frame->bytes.empty()) return "A frame has no bytes.";
  if (static_cast<int64_t>(frame->bytes.size()) > kMaxEncodedBytes) return "A frame has more than 32 MiB.";
  if (is_jpeg(frame->bytes)) insert_huffman_tables(&frame->bytes);
  std::string wrong = probe_frame(frame);
  if (!wrong.empty() && append_end(&frame->bytes)) wrong = probe_frame(frame);
  return wrong;
}

bool decode_rgb(const Frame& frame, Picture* picture) {
  if (frame.kind == FrameKind::kPixels) {
    const int64_t needed = pixel_bytes(frame.pixel_format, frame.width, frame.height);
    if (needed == 0 || static_cast<int64_t>(frame.bytes.size()) < needed) return false;
    picture->width = frame.width;
    picture->height = frame.height;
    picture->pixels.resize(static_cast<size_t>(pixel_bytes(OCELLUS_RGB8, frame.width, frame.height)));
    const ocellus_frame view = frame.view();
    return ocellus_frame_convert(&view, picture->pixels.data(), std::ssize(picture->pixels)) == OCELLUS_OK;
  }
  return decode_file(frame, picture);
}

}  // namespace ocellus::app
