// JpegDecoder: JPEG row by row. Uses libjpeg-turbo if the build has it; else stb_image, which decodes the whole picture
// first and does not report damage inside the data.
#pragma once

#include <cstdint>

#include "mm/pictures/jpeg_header.h"
#include "mm/pictures/row_consumer.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

class JpegDecoder {
 public:
  JpegDecoder() = default;
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Allocates the few kB that libjpeg-turbo keeps from picture to picture: its only heap memory. kIo if that fails.
  Status open();

  /// Decodes a file that read_jpeg_header has accepted, in scratch of jpeg_rows_scratch_bytes. kBadImage if the data
  /// inside are damaged, possibly after some rows.
  Status decode_rows(const uint8_t* bytes, int64_t size_bytes, const JpegFacts& facts, Extent scratch,
                     RowConsumer& rows);

 private:
  struct State;
  State* state_ = nullptr;
};

/// Scratch of decode_rows for this picture.
int64_t jpeg_rows_scratch_bytes(const JpegFacts& facts);

/// Maximum of that for pictures within the limits: those in one scan with usual sampling, as from cameras, and others
/// whose whole-picture storage takes `whole_bytes`.
int64_t jpeg_rows_scratch_bound(const ImageLimits& limits, int64_t whole_bytes);

}  // namespace ocellus
