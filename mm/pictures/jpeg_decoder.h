// JpegDecoder: JPEG row by row. libjpeg-turbo where the build has it; else stb_image, which makes the whole picture
// first and does not tell of damage inside the data.
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

  /// Takes the few kB that libjpeg-turbo keeps from picture to picture: the only memory that it ever takes from the
  /// heap. kIo if there is none.
  Status open();

  /// Decodes a file that read_jpeg_header has accepted, in scratch of jpeg_rows_scratch_bytes. kBadImage if the data
  /// inside are damaged; rows may have come then.
  Status decode_rows(const uint8_t* bytes, int64_t size_bytes, const JpegFacts& facts, Extent scratch,
                     RowConsumer& rows);

 private:
  struct State;
  State* state_ = nullptr;
};

/// What decode_rows takes for this very picture.
int64_t jpeg_rows_scratch_bytes(const JpegFacts& facts);

/// Most of that for pictures within the limits that are in one scan of usual sampling, as cameras make them; and for
/// others of which all that has to be held takes `whole_bytes`.
int64_t jpeg_rows_scratch_bound(const ImageLimits& limits, int64_t whole_bytes);

}  // namespace ocellus
