// A request to POST /v1/files, fully validated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/serve/unknown_fields.h"

namespace ocellus::app {

struct FileUpload {
  std::string_view picture;  // JPEG, PNG or WebP whose header was checked, in the body of the request
  std::string filename;      // UTF-8 without control characters, at most 200 bytes
  std::string purpose;       // "vision" or "user_data"
  std::string caption;       // may be empty
  int64_t lifetime_s = 0;    // 0: no expiry
};

// `body` must outlive the result. `unknown` takes the names of fields that nothing reads. Throws a RequestError.
FileUpload parse_file_upload(std::string_view body, std::string_view content_type, FieldNames* unknown);

}  // namespace ocellus::app
