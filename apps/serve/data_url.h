// Pictures in requests: "data:image/png;base64,...", in every spelling that browsers read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ocellus::app {

// Decodes base64 in place and returns the number of bytes: RFC 4648 in the alphabet of section 4 or 5, with or without
// padding, white space anywhere, unused bits zero; nullopt for anything else, which also destroys the text.
std::optional<size_t> decode_base64(char* text, size_t text_bytes);

std::string encode_base64(std::span<const uint8_t> bytes);

// A JSON text without its pictures, which are thus never copied or parsed as text.
struct CutText {
  std::string json;                      // with a mark in place of every string cut out
  std::vector<std::span<char>> strings;  // these, in the whole text
};
using PicturePlace = std::span<const std::string_view>;
// Cuts strings where parts of messages have pictures and nowhere else: no mark gets into a text, a schema or a tool.
// `places`: the members in which parts stand, as {"messages", "content"}. Throws a RequestError for what
// parse_request_json would refuse by its size.
CutText cut_picture_urls(std::string* text, std::span<const PicturePlace> places);

// Returns the string that `mark` stands for; nullopt if it is no mark. Each can be taken once; it is empty afterwards.
std::optional<std::span<char>> take_cut_string(CutText* cut, std::string_view mark);

// Returns the bytes of a JPEG, PNG or WebP whose header was checked; they are decoded in place of the URL, from base64
// or
// "%89PNG". `url` is escaped as in JSON. Throws a RequestError that names `param`.
std::string_view decode_picture_url(std::span<char> url, const std::string& param);

// Returns the frames of a video, each as decode_picture_url does: "data:video/jpeg;base64,FRAME,FRAME,...".
std::vector<std::string_view> decode_video_url(std::span<char> url, const std::string& param);

}  // namespace ocellus::app
