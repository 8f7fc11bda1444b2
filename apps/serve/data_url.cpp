#include "apps/serve/data_url.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>

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

// A random text, so that no client's text can contain a mark.
const std::string& mark_begin() {
  static const std::string begin =
      "data:;mark=" + std::to_string(std::random_device()()) + "-" + std::to_string(std::random_device()()) + ",";
  return begin;
}

std::string cut_mark(size_t index) { return mark_begin() + std::to_string(index); }

// Unescapes "\/" and "\u002b", as some JSON writers emit them; returns the number of bytes. Other escapes do not occur
// in pictures' URLs and stay.
size_t unescape(std::span<char> text) {
  size_t out = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\\' && i + 1 < text.size() && text[i + 1] == '/') {
      c = text[++i];
    } else if (c == '\\' && i + 5 < text.size() && text[i + 1] == 'u' && text[i + 2] == '0' && text[i + 3] == '0') {
      unsigned code = 0;
      const char* const end = text.data() + i + 6;
      if (std::from_chars(text.data() + i + 4, end, code, 16).ptr == end && code < 128) {
        c = static_cast<char>(code);
        i += 5;
      }
    }
    text[out++] = c;
  }
  return out;
}

}  // namespace

std::optional<size_t> decode_base64(char* text, size_t text_bytes) {
  if (text_bytes % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && padding < text_bytes && text[text_bytes - 1 - padding] == '=') ++padding;
  uint32_t bits = 0;
  int bit_count = 0;
  size_t bytes = 0;
  for (size_t i = 0; i < text_bytes - padding; ++i) {
    const int8_t value = kValues[static_cast<uint8_t>(text[i])];
    if (value == kNone) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((bit_count += 6) < 8) continue;
    bit_count -= 8;
    text[bytes++] = static_cast<char>(bits >> bit_count & 0xff);
  }
  if ((bits & ((1u << bit_count) - 1)) != 0) return std::nullopt;
  return bytes;
}

CutText cut_picture_urls(std::string* text) {
  CutText cut;
  const std::string_view all = *text;
  std::string_view key;  // key of the value that may follow
  size_t kept = 0;       // the text up to here is in cut.json, or cut out
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_between = std::strchr(": \t\r\n", all[i]) != nullptr;
    if (all[i] != '"' && !is_between) key = {};
    if (all[i] != '"') continue;
    const size_t begin = ++i;
    for (; i < all.size() && all[i] != '"'; ++i) i += all[i] == '\\' ? 1 : 0;
    if (i >= all.size()) break;
    const std::string_view before = std::exchange(key, all.substr(begin, i - begin));
    if (before != "url" && before != "image_url" && before != "video_url") continue;
    cut.json += all.substr(kept, begin - kept);
    cut.json += cut_mark(cut.strings.size());
    cut.strings.emplace_back(text->data() + begin, i - begin);
    kept = i;
  }
  cut.json += all.substr(kept);
  return cut;
}

std::optional<std::span<char>> take_cut_string(CutText* cut, std::string_view mark) {
  const std::string_view begin = mark_begin();
  if (!begins_with(mark, begin)) return std::nullopt;
  size_t index = 0;
  std::from_chars(mark.data() + begin.size(), mark.data() + mark.size(), index);
  if (index >= cut->strings.size()) return std::nullopt;
  return std::exchange(cut->strings[index], {});
}

namespace {

RequestError bad_picture(const std::string& sentence, const std::string& param) {
  return RequestError(400, sentence, param, "invalid_image");
}

// Decodes a picture in place, and checks its header.
std::string_view decode_picture(char* data, size_t text_bytes, const std::string& param) {
  const std::optional<size_t> bytes = decode_base64(data, text_bytes);
  if (!bytes) throw bad_picture("The data URL does not hold valid base64.", param);
  if (*bytes == 0) throw bad_picture("The picture is empty.", param);
  ocellus_image_facts facts;
  const ocellus_status status = ocellus_image_probe(data, static_cast<int64_t>(*bytes), &facts);
  if (status != OCELLUS_OK) throw bad_picture(library_error(status).what(), param);
  return {data, *bytes};
}

}  // namespace

std::vector<std::string_view> decode_video_url(std::span<char> given, const std::string& param) {
  constexpr std::string_view kBegin = "data:video/jpeg;base64,";
  given = given.first(unescape(given));
  std::string_view url(given.data(), given.size());
  if (!begins_with(url, kBegin)) {
    throw bad_picture("A video is its frames in one data URL: data:video/jpeg;base64,FRAME,FRAME,....", param);
  }
  std::vector<std::string_view> frames;
  for (size_t at = kBegin.size(); at <= url.size();) {
    const size_t end = std::min(url.find(',', at), url.size());
    frames.push_back(decode_picture(given.data() + at, end - at, param));
    at = end + 1;
  }
  return frames;
}

std::string_view decode_picture_url(std::span<char> given, const std::string& param) {
  const auto refuse = [&param](const std::string& sentence) { return bad_picture(sentence, param); };
  given = given.first(unescape(given));
  const std::string_view url(given.data(), given.size());
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
  return decode_picture(given.data() + comma + 1, url.size() - comma - 1, param);
}

}  // namespace ocellus::app
