#include "apps/serve/data_url.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <random>
#include <utility>

#include "apps/serve/json_fields.h"
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

std::string encode_base64(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (at + i < bytes.size() ? bytes[at + i] : 0u);
    for (size_t i = 0; i < 4; ++i) text += at + i <= bytes.size() ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

namespace {

// The members in which the place lies that a scan of JSON has reached, from the outermost object on.
class JsonPlace {
 public:
  void pass(char c) {
    if (c == '{' || c == '[') open_.push_back({.is_object = c == '{', .name = {}});
    if ((c == '}' || c == ']') && !open_.empty()) open_.pop_back();
    if (c == '{' || c == ',') awaits_name_ = true;
    if (c == ':' || c == '[') awaits_name_ = false;
  }
  // Returns true if the string is a value, and not the name of a member.
  bool pass_string(std::string_view text) {
    if (open_.empty() || !open_.back().is_object || !awaits_name_) return true;
    open_.back().name = text;
    return false;
  }
  // True in `where`, in its member image_url or video_url, or in the url of one of these; lists between them do not
  // count.
  bool is_picture(std::span<const std::string_view> where) const {
    std::vector<std::string_view> names;
    for (const Open& one : open_) {
      if (one.is_object) names.push_back(one.name);
    }
    if (names.size() == where.size() + 2 && names.back() == "url") names.pop_back();
    return names.size() == where.size() + 1 && std::equal(where.begin(), where.end(), names.begin()) &&
           (names.back() == "image_url" || names.back() == "video_url");
  }

 private:
  struct Open {
    bool is_object;
    std::string_view name;  // an object's newest member
  };
  std::vector<Open> open_;
  bool awaits_name_ = false;
};

}  // namespace

CutText cut_picture_urls(std::string* text, std::span<const std::string_view> where) {
  check_json_size(*text);
  CutText cut;
  const std::string_view all = *text;
  JsonPlace place;
  size_t kept = 0;  // the text up to here is in cut.json, or cut out
  const auto keep_until = [&](size_t end) {
    if (cut.json.size() + end - kept > static_cast<size_t>(kMaxJsonBytes)) throw too_much_json();
    cut.json += all.substr(kept, end - kept);
    kept = end;
  };
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] != '"') {
      place.pass(all[i]);
      continue;
    }
    const size_t begin = ++i;
    for (; i < all.size() && all[i] != '"'; ++i) i += all[i] == '\\' ? 1 : 0;
    if (i >= all.size()) break;
    if (!place.pass_string(all.substr(begin, i - begin)) || !place.is_picture(where)) continue;
    keep_until(begin);
    cut.json += cut_mark(cut.strings.size());
    cut.strings.emplace_back(text->data() + begin, i - begin);
    kept = i;
  }
  keep_until(all.size());
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
