// Picture files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/base/failure.h"
#include "apps/camera/frame.h"
#include "apps/setup/options.h"

namespace ocellus::app {

struct ImageFile {
  std::string path;
  std::shared_ptr<Frame> read = {};  // the file or its pixels, for all copies; null: to be read again
  int32_t width = 0;
  int32_t height = 0;
  int64_t whole_pixels = 0;  // see ocellus_image_facts
  bool is_gray16 = false;
  int64_t pixels() const { return int64_t{width} * height; }
};

// Returns the descriptor that a path stands for: standard input for "-" and "/dev/stdin", N for "/dev/fd/N".
std::optional<int> open_descriptor(const std::string& path);

// Reads a regular file of 1 byte to 256 MiB, or as much of what open_descriptor finds, to its end; that is kept, so
// that it can be read again. Throws a Failure that names the path.
std::vector<uint8_t> read_input_file(const std::string& path);

// Reads the file, and its headers for the size.
ImageFile probe_image(const std::string& path);
// Keeps files of 32 MiB together; others are read again when they are needed, so that a thousand pictures need little
// more memory than one.
std::vector<ImageFile> probe_images(const std::vector<std::string>& paths);
// Returns the file or its pixels, read again if they were not kept.
std::shared_ptr<Frame> read_image(const ImageFile& image);

// Maximum size of the pictures.
struct PictureSize {
  int64_t pixels = 0;                                  // 0: unknown
  int32_t side = 0;                                    // the longest, in pixels; 0: unknown
  std::optional<int64_t> whole_pixels;                 // see ocellus_image_facts; nullopt: unknown
  std::vector<std::pair<int32_t, int32_t>> each = {};  // width and height of the pictures among them that are files
  std::string gray16_path = {};                        // the first of these that is grey of 16 bits; empty: none
  void include(const ImageFile& image);
  void include(const PictureSize& other);
};
PictureSize largest_size(const std::vector<ImageFile>& images);

// The library's last failure with the pictures of `path`. Exit code kExitOverBudget, not kExitBadInput, for pictures
// larger than the options plan for: they are fine by themselves.
Failure picture_failure(ocellus_status status, const std::string& path, const PictureSize& size,
                        const CommonOptions& options);

}  // namespace ocellus::app
