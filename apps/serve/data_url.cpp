#include "apps/serve/data_url.h"

#include <array>
#include <cstdint>

#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

constexpr int8_t kNone = -1;

constexpr std::array<int8_t, 256> make_values() {
  std::array<int8_t, 256> values = {};
  for (int8_t& value : values) value = kNone;
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < kDigits.size(); ++i) values[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
  return values;
}
constexpr std::array<int8_t, 256> kValues = make_values();

bool begins_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const int8_t value = kValues[static_cast<uint8_t>(c)];
    if (value == kNone) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  if ((bits & ((1u << count) - 1)) != 0) return std::nullopt;
  return bytes;
}

std::string decode_picture_url(std::string_view url, const std::string& param) {
  const auto refuse = [&param](const std::string& sentence) {
    return RequestError(400, sentence, param, "invalid_image");
  };
  if (begins_with(url, "http://") || begins_with(url, "https://")) {
    throw refuse("Pictures are not fetched: send the picture itself, as data:image/png;base64,....");
  }
  const size_t comma = url.find(',');
  const std::string_view head = url.substr(0, comma);
  if (!begins_with(url, "data:") || comma == std::string_view::npos) {
    throw refuse("A picture is a data URL: data:image/png;base64,....");
  }
  constexpr std::string_view kEnd = ";base64";
  if (head.size() < kEnd.size() || head.substr(head.size() - kEnd.size()) != kEnd) {
    throw refuse("The data URL of a picture must be in base64: data:image/png;base64,....");
  }
  if (!begins_with(head, "data:image/") && head != "data:application/octet-stream;base64") {
    throw refuse("The data URL is not one of a picture: data:image/png;base64,....");
  }
  std::optional<std::string> bytes = decode_base64(url.substr(comma + 1));
  if (!bytes) throw refuse("The data URL does not hold sound base64.");
  if (bytes->empty()) throw refuse("The picture is empty.");
  int32_t width = 0, height = 0;
  const ocellus_status status =
      ocellus_image_probe(bytes->data(), static_cast<int64_t>(bytes->size()), &width, &height);
  if (status != OCELLUS_OK) throw refuse(library_error(status).what());
  return *std::move(bytes);
}

}  // namespace ocellus::app
