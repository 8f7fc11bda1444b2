// Builds without libheif: HEIC and AVIF are recognised and refused.
#include "mm/pictures/heif_decoder.h"

namespace ocellus {

Status read_heif_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits&, HeifFacts*) {
  return OCELLUS_FAIL(Code::kUnsupported, "the picture is %s file: convert it to JPEG or PNG",
                      heif_kind(bytes, size_bytes));
}

int64_t heif_rows_scratch_bytes(const HeifFacts&) { return 0; }

Status decode_heif_rows(const uint8_t*, int64_t, const HeifFacts&, RowConsumer&) {
  return OCELLUS_FAIL(Code::kInternal, "this build does not decode HEIC");
}

}  // namespace ocellus
