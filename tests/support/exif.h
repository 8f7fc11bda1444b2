// EXIF for tests: the tag that turns pictures, and what it means, written out by the numbers of its specification.
#pragma once

#include "tests/support/crafted_pictures.h"

namespace ocellus::testing {

/// A TIFF header and a directory of three tags, of which orientation is the second.
inline Bytes exif(int orientation, bool little = false) {
  Bytes out;
  const auto number = [&](uint32_t value, int count) {
    for (int i = 0; i < count; ++i) out.push_back(static_cast<uint8_t>(value >> (8 * (little ? i : count - 1 - i))));
  };
  append(out, little ? Bytes{'I', 'I'} : Bytes{'M', 'M'});
  number(42, 2);
  number(8, 4);
  number(3, 2);
  for (const int tag : {0x010F, 0x0112, 0x0128}) {
    number(static_cast<uint32_t>(tag), 2);
    number(3, 2);
    number(1, 4);
    number(static_cast<uint32_t>(tag == 0x0112 ? orientation : 1), 2);
    number(0, 2);
  }
  number(0, 4);
  return out;
}

/// The JPEG with an EXIF segment in front.
inline Bytes with_exif(const Bytes& jpeg, const Bytes& tiff) {
  Bytes body = {'E', 'x', 'i', 'f', 0, 0};
  append(body, tiff);
  Bytes out(jpeg.begin(), jpeg.begin() + 2);
  append(out, jpeg_segment(0xE1, body));
  out.insert(out.end(), jpeg.begin() + 2, jpeg.end());
  return out;
}

/// Displayed position of pixel (x, y) of a file of width x height pixels. "6: row 0 is the right side, column 0 the
/// top."
struct SeenAt {
  int x, y;
};
inline SeenAt seen_at(int orientation, int x, int y, int width, int height) {
  const int right = width - 1 - x, bottom = height - 1 - y;
  switch (orientation) {
    case 2: return {right, y};
    case 3: return {right, bottom};
    case 4: return {x, bottom};
    case 5: return {y, x};
    case 6: return {bottom, x};
    case 7: return {bottom, right};
    case 8: return {y, right};
    default: return {x, y};
  }
}

/// RGB8 pixels of a file of width x height, turned.
inline Bytes turned(const Bytes& stored, int width, int height, int orientation) {
  const int seen_width = orientation >= 5 ? height : width;
  Bytes out(stored.size());
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const SeenAt at = seen_at(orientation, x, y, width, height);
      for (int c = 0; c < 3; ++c)
        out[static_cast<size_t>(3 * (at.y * seen_width + at.x) + c)] =
            stored[static_cast<size_t>(3 * (y * width + x) + c)];
    }
  }
  return out;
}

/// RGB8 as a PNG, in one chunk of stored bytes; `tiff` becomes its EXIF if it is not empty.
inline Bytes rgb_png(const Bytes& pixels, int width, int height, const Bytes& tiff = {}) {
  Bytes rows;
  for (int y = 0; y < height; ++y) {
    rows.push_back(0);
    rows.insert(rows.end(), pixels.begin() + 3 * width * y, pixels.begin() + 3 * width * (y + 1));
  }
  std::vector<Bytes> chunks = {png_header(static_cast<uint32_t>(width), static_cast<uint32_t>(height), 8, 2)};
  if (!tiff.empty()) chunks.push_back(png_chunk("eXIf", tiff));
  chunks.push_back(png_chunk("IDAT", store_zlib(rows)));
  chunks.push_back(png_chunk("IEND", {}));
  return make_png(chunks);
}

}  // namespace ocellus::testing
