#include "apps/serve/file_upload.h"

#include <charconv>
#include <optional>
#include <set>

#include "apps/base/plain_text.h"
#include "apps/serve/multipart.h"
#include "apps/serve/request_error.h"
#include "runtime/ocellus.h"

namespace ocellus::app {
namespace {

constexpr size_t kMaxNameBytes = 200;
constexpr size_t kMaxCaptionBytes = 700;
constexpr int64_t kMaxLifetime = 30 * 24 * 3600;

// Makes a client's file name fit for a caption: no folders, no control characters, cut between characters.
std::string plain_name(std::string_view given) {
  std::string name(given.substr(given.find_last_of("/\\") + 1));  // npos + 1 is 0
  for (char& c : name) c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '_' : c;
  size_t end = std::min(name.size(), kMaxNameBytes);
  while (end > 0 && end < name.size() && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  name.resize(end);
  return name.empty() ? "picture" : name;
}

int64_t parse_lifetime(std::string_view text) {
  int64_t seconds = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || stop != text.data() + text.size() || seconds < 1 || seconds > kMaxLifetime) {
    throw RequestError(400,
                       "expires_after[seconds] must be a whole number from 1 to " + std::to_string(kMaxLifetime) + ".",
                       "expires_after[seconds]");
  }
  return seconds;
}

void check_picture(std::string_view bytes) {
  if (bytes.empty()) throw RequestError(400, "The file is empty.", "file", "invalid_image");
  ocellus_image_facts facts;
  const ocellus_status status = ocellus_image_probe(bytes.data(), static_cast<int64_t>(bytes.size()), &facts);
  if (status != OCELLUS_OK) throw RequestError(400, library_error(status).what(), "file", "invalid_image");
}

}  // namespace

FileUpload parse_file_upload(std::string_view body, std::string_view content_type, FieldNames* unknown) {
  FileUpload upload;
  std::set<std::string> given;
  for (const FormPart& part : parse_multipart(body, content_type)) {
    if (!given.insert(part.name).second) {
      throw RequestError(400, shorten(part.name) + " must be given once.", part.name);
    }
    if (part.name == "file") {
      upload.picture = part.value;
      upload.filename = plain_name(part.filename.value_or(""));
    } else if (part.name == "purpose") {
      upload.purpose = part.value;
    } else if (part.name == "caption") {
      upload.caption = part.value;
    } else if (part.name == "expires_after[anchor]") {
      if (part.value != "created_at") throw RequestError(400, "expires_after[anchor] must be created_at.", part.name);
    } else if (part.name == "expires_after[seconds]") {
      upload.lifetime_s = parse_lifetime(part.value);
    } else if (part.name.rfind("expires_after", 0) == 0) {  // nothing may be kept longer than its sender believes
      throw RequestError(400, "Give expires_after as two fields, expires_after[anchor] and expires_after[seconds].",
                         "expires_after");
    } else {
      note_unknown(part.name, unknown);
    }
  }
  if (given.count("file") == 0) throw RequestError(400, "file is missing.", "file");
  if (upload.purpose != "vision" && upload.purpose != "user_data") {
    throw RequestError(400, "purpose must be vision or user_data.", "purpose");
  }
  if (given.count("expires_after[anchor]") != 0 && upload.lifetime_s == 0) {
    throw RequestError(400, "expires_after[seconds] is missing.", "expires_after[seconds]");
  }
  if (upload.caption.size() > kMaxCaptionBytes) {
    throw RequestError(400, "caption must have at most " + std::to_string(kMaxCaptionBytes) + " bytes.", "caption");
  }
  check_picture(upload.picture);
  return upload;
}

}  // namespace ocellus::app
