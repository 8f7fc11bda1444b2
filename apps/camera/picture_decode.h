// Picture files, of any format that the library reads, to pixels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/camera/frame.h"

namespace ocellus::app {

// Maximum width and height of a frame, in pixels.
inline constexpr int32_t kMaxSide = 8192;
// Maximum bytes of an encoded frame.
inline constexpr int64_t kMaxEncodedBytes = int64_t{32} << 20;
// Ends of the names of picture files, in small letters.
inline constexpr std::string_view kPictureEndings[] = {".jpg", ".jpeg", ".png",  ".webp", ".gif",
                                                       ".bmp", ".heic", ".heif", ".avif"};

bool is_png(const std::vector<uint8_t>& bytes);
// True for the beginning of a picture that is a file of its own, not a stream's: anything but JPEG.
bool begins_picture(const std::vector<uint8_t>& bytes);

// Reads a regular file of at most kMaxEncodedBytes. Returns what is wrong with it, in one sentence; empty if nothing
// is.
std::string read_picture_file(const std::string& path, std::vector<uint8_t>* bytes);

// Prepares an encoded frame for decoders: adds the Huffman tables that cameras omit, checks the whole file and sets
// width and height. Returns why the frame cannot be used, in one sentence; empty if it can.
std::string finish_encoded(Frame* frame);

struct Picture {
  int32_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  // RGB, rows without padding
};

// Decodes any frame, encoded or raw, to what the model sees: transparent pixels on white, depth as grey. Reuses the
// memory of *picture. False for damaged files and for raw frames whose bytes do not fit their size.
bool decode_rgb(const Frame& frame, Picture* picture);

}  // namespace ocellus::app
