// Pictures as chat requests carry them: "data:image/png;base64,...".
#ifndef OCELLUS_APPS_SERVE_DATA_URL_H_
#define OCELLUS_APPS_SERVE_DATA_URL_H_

#include <optional>
#include <string>
#include <string_view>

namespace ocellus::app {

// RFC 4648, section 4, to the letter: padded, no other bytes, unused bits zero. Nothing if it is anything else.
std::optional<std::string> decode_base64(std::string_view text);

// The bytes of a JPEG or PNG, whose header was read. Throws a RequestError that names `param`.
std::string decode_picture_url(std::string_view url, const std::string& param);

}  // namespace ocellus::app

#endif  // OCELLUS_APPS_SERVE_DATA_URL_H_
