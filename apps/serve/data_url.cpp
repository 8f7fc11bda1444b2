#include "apps/serve/data_url.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <random>
#include <utility>

#include "apps/base/plain_text.h"
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
  values['-'] = 62;  // as in URLs
  values['_'] = 63;
  return values;
}
constexpr std::array<int8_t, 256> kValues = make_values();

bool begins_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r'; }

// A random text, so that no client's text can contain a mark.
const std::string& mark_begin() {
  static const std::string begin =
      "data:;mark=" + std::to_string(std::random_device()()) + "-" + std::to_string(std::random_device()()) + ",";
  return begin;
}

std::string cut_mark(size_t index) { return mark_begin() + std::to_string(index); }

// Unescapes "\/", "\n" and "\u002b", as some JSON writers emit them; returns the number of bytes. Other escapes do not
// occur in pictures' URLs and stay.
size_t unescape(std::span<char> text) {
  size_t out = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    constexpr std::string_view kEscapes = "/ntrf", kMeant = "/\n\t\r\f";
    char c = text[i];
    const size_t escape = c == '\\' && i + 1 < text.size() ? kEscapes.find(text[i + 1]) : std::string_view::npos;
    if (escape != std::string_view::npos) {
      c = kMeant[escape];
      ++i;
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
  text_bytes = static_cast<size_t>(std::remove_if(text, text + text_bytes, is_blank) - text);
  size_t padding = 0;
  while (text_bytes % 4 == 0 && padding < 2 && padding < text_bytes && text[text_bytes - 1 - padding] == '=') ++padding;
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
  if (bit_count == 6 || (bits & ((1u << bit_count) - 1)) != 0) return std::nullopt;
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
  bool is_picture(PicturePlace where) const {
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

CutText cut_picture_urls(std::string* text, std::span<const PicturePlace> places) {
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
    const bool is_value = place.pass_string(all.substr(begin, i - begin));
    const auto is_here = [&place](PicturePlace where) { return place.is_picture(where); };
    if (!is_value || std::none_of(places.begin(), places.end(), is_here)) continue;
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

// A data URL that was taken apart.
struct DataUrl {
  std::string type;  // in lower case, without parameters; may be empty
  bool is_base64 = false;
  std::span<char> body;
};

// Decodes "%2B" in place; returns the number of bytes.
size_t decode_percent(std::span<char> text) {
  size_t out = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    unsigned code = 0;
    const char* const at = text.data() + i;
    if (c == '%' && i + 2 < text.size() && std::from_chars(at + 1, at + 3, code, 16).ptr == at + 3) {
      c = static_cast<char>(code);
      i += 2;
    }
    text[out++] = c;
  }
  return out;
}

// Takes a data URL apart as browsers do (the Data URL standard of WHATWG); nullopt if it is none. `given`: as in JSON.
std::optional<DataUrl> read_data_url(std::span<char> given) {
  constexpr std::string_view kScheme = "data:", kBase64 = "base64";
  constexpr size_t kMaxHeadBytes = 1024;
  given = given.first(unescape(given));
  while (!given.empty() && is_blank(given.front())) given = given.subspan(1);
  const std::string_view url(given.data(), given.size());
  const size_t comma = url.find(',');
  if (comma > kMaxHeadBytes || to_lower(url.substr(0, kScheme.size())) != kScheme) return std::nullopt;
  const std::string head = to_lower(trim(url.substr(kScheme.size(), comma - kScheme.size())));
  const size_t last = head.rfind(';');
  given = given.subspan(comma + 1);
  return DataUrl{.type = trim(head.substr(0, head.find(';'))),
                 .is_base64 = last != std::string::npos && trim(head.substr(last + 1)) == kBase64,
                 .body = given.first(decode_percent(given))};
}

// Checks the header of a picture.
std::string_view check_picture(std::string_view bytes, const std::string& param) {
  if (bytes.empty()) throw bad_picture("The picture is empty.", param);
  ocellus_image_facts facts;
  const ocellus_status status = ocellus_image_probe(bytes.data(), std::ssize(bytes), &facts);
  if (status != OCELLUS_OK) throw bad_picture(library_error(status).what(), param);
  return bytes;
}

// Decodes a picture in place.
std::string_view decode_picture(std::span<char> text, const std::string& param) {
  const std::optional<size_t> bytes = decode_base64(text.data(), text.size());
  if (!bytes) throw bad_picture("The data URL does not hold valid base64.", param);
  return check_picture({text.data(), *bytes}, param);
}

bool may_be_picture(std::string_view type) {
  return type.empty() || begins_with(type, "image/") || type == "application/octet-stream" ||
         type == "binary/octet-stream";
}

}  // namespace

std::vector<std::string_view> decode_video_url(std::span<char> given, const std::string& param) {
  const std::optional<DataUrl> url = read_data_url(given);
  if (!url || !url->is_base64 || url->type != "video/jpeg") {
    throw bad_picture("A video is its frames in one data URL: data:video/jpeg;base64,FRAME,FRAME,....", param);
  }
  const std::string_view text(url->body.data(), url->body.size());
  std::vector<std::string_view> frames;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    frames.push_back(decode_picture(url->body.subspan(at, end - at), param));
    at = end + 1;
  }
  return frames;
}

std::string_view decode_picture_url(std::span<char> given, const std::string& param) {
  const std::string begin = to_lower(std::string_view(given.data(), std::min<size_t>(given.size(), 8)));
  if (begins_with(begin, "http:") || begins_with(begin, "https:")) {
    throw bad_picture("Pictures are not fetched: send the picture itself, as data:image/png;base64,....", param);
  }
  const std::optional<DataUrl> url = read_data_url(given);
  if (!url) throw bad_picture("A picture is a data URL: data:image/png;base64,....", param);
  if (!may_be_picture(url->type)) {
    throw bad_picture("The data URL is not one of a picture: data:image/png;base64,....", param);
  }
  if (url->is_base64) return decode_picture(url->body, param);
  return check_picture({url->body.data(), url->body.size()}, param);
}

}  // namespace ocellus::app
