// Pictures as chat requests carry them: "data:image/png;base64,...".
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ocellus::app {

// RFC 4648, section 4, to the letter: padded, no other bytes, unused bits zero. Decodes where the text stands, and
// gives the count of bytes; nothing if it is anything else, and then the text is lost.
std::optional<size_t> decode_base64(char* text, size_t text_bytes);

// A JSON text without its pictures: so they are never copied, nor looked at as text.
struct CutText {
  std::string json;  // with a mark in place of every string that is the value of "url" or "image_url"
  std::vector<std::span<char>> strings;  // these, as they stand in the whole text
};
CutText cut_picture_urls(std::string* text);

// The string that `mark` stands for; nothing if it is no mark. Once: after that it is empty.
std::optional<std::span<char>> take_cut_string(CutText* cut, std::string_view mark);

// The bytes of a JPEG, PNG or WebP, whose header was read; they lie where the URL did. `url` is as JSON has it, with
// "\/" and the like. Throws a RequestError that names `param`.
std::string_view decode_picture_url(std::span<char> url, const std::string& param);

}  // namespace ocellus::app
