// Builds without libwebp: WebP is recognised and refused.
#include "mm/pictures/webp_decoder.h"

namespace ocellus {

Status read_webp_header(const uint8_t*, int64_t, const ImageLimits&, WebpFacts*) {
  return OCELLUS_FAIL(Code::kUnsupported, "the picture is a WebP file: convert it to JPEG or PNG");
}

int64_t webp_rows_scratch_bytes(const WebpFacts&) { return 0; }

int64_t webp_rows_scratch_bound(const ImageLimits&) { return 0; }

Status decode_webp_rows(const uint8_t*, int64_t, const WebpFacts&, Extent, RowConsumer&) {
  return OCELLUS_FAIL(Code::kInternal, "this build does not decode WebP");
}

}  // namespace ocellus
