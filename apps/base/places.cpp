#include "apps/base/places.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "apps/base/bounded_json.h"
#include "apps/base/plain_text.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPlaceKeys[] = {"bbox_2d", "bbox", "box_2d", "box", "point_2d", "point"};
constexpr std::string_view kLabelKeys[] = {"label", "text_content", "name", "object"};
// Objects in objects, so that no text takes more than a multiple of its length.
constexpr size_t kMaxDepth = 8;
constexpr double kMaxCoordinate = 1e9;

// Two numbers are a point, four a box. Returns nullopt for anything else.
std::optional<Place> make_place(const std::vector<double>& numbers) {
  for (const double number : numbers)
    if (!(std::abs(number) <= kMaxCoordinate)) return std::nullopt;
  if (numbers.size() == 2) {
    return Place{.label = "",
                 .is_point = true,
                 .left = numbers[0],
                 .top = numbers[1],
                 .right = numbers[0],
                 .bottom = numbers[1]};
  }
  if (numbers.size() != 4) return std::nullopt;
  return Place{.label = "",
               .is_point = false,
               .left = std::min(numbers[0], numbers[2]),
               .top = std::min(numbers[1], numbers[3]),
               .right = std::max(numbers[0], numbers[2]),
               .bottom = std::max(numbers[1], numbers[3])};
}

std::optional<Place> place_of(const Json& list) {
  std::vector<double> numbers;
  if (!list.is_array() || list.size() > 4) return std::nullopt;
  for (const Json& number : list) {
    if (!number.is_number()) return std::nullopt;
    numbers.push_back(number.get<double>());
  }
  return make_place(numbers);
}

std::string label_of(const Json& object) {
  for (const std::string_view key : kLabelKeys) {
    const auto label = object.find(key);
    if (label != object.end() && label->is_string()) return trim(label->get<std::string>());
  }
  return "";
}

// Adds the places of one JSON object: a list of numbers, or several lists.
void add_object(std::string_view text, std::vector<Place>* places) {
  const Json object = read_json(text, kLocalJson);
  if (!object.is_object()) return;
  const std::string label = label_of(object);
  const auto add = [&](const Json& list) {
    std::optional<Place> place = place_of(list);
    if (!place) return;
    place->label = label;
    places->push_back(*place);
  };
  for (const std::string_view key : kPlaceKeys) {
    const auto list = object.find(key);
    if (list == object.end() || !list->is_array()) continue;
    if (list->empty() || !list->front().is_array()) {
      add(*list);
    } else {
      for (const Json& one : *list) add(one);
    }
  }
}

// Adds the places of all complete objects, the inner ones first. A string ends at the latest with its line, as in JSON.
void add_objects(std::string_view answer, std::vector<Place>* places) {
  std::vector<size_t> open;
  bool in_string = false;
  for (size_t i = 0; i < answer.size(); ++i) {
    const char c = answer[i];
    if (c == '\n') in_string = false;
    if (c == '\\' && in_string) ++i;
    if (c == '"' && !open.empty()) in_string = !in_string;
    if (in_string) continue;
    if (c == '{') {
      if (open.size() == kMaxDepth) open.erase(open.begin());
      open.push_back(i);
    } else if (c == '}' && !open.empty()) {
      add_object(answer.substr(open.back(), i + 1 - open.back()), places);
      open.pop_back();
    }
  }
}

// Reads Qwen2-VL's places.
class MarkedText {
 public:
  explicit MarkedText(std::string_view text) : text_(text) {}

  std::vector<Place> places() {
    std::vector<Place> found;
    while (at_ < text_.size()) {
      const size_t begin = at_;
      const std::optional<Place> place = text_[at_] == '(' ? read_place() : std::nullopt;
      if (!place) {
        at_ = begin + 1;
        continue;
      }
      found.push_back(*place);
      found.back().label = label_before(begin);
      label_begin_ = at_;
    }
    return found;
  }

 private:
  static constexpr std::string_view kBoxStart = "<|box_start|>";
  static constexpr size_t kMaxTokenBytes = 32;

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_number(double* number) {
    skip_spaces();
    const char* const begin = text_.data() + at_;
    const auto read = std::from_chars(begin, text_.data() + text_.size(), *number);
    if (read.ec != std::errc()) return false;
    at_ += static_cast<size_t>(read.ptr - begin);
    return true;
  }
  bool take_pair(std::vector<double>* numbers) {
    double x = 0, y = 0;
    if (!take('(') || !take_number(&x) || !take(',') || !take_number(&y) || !take(')')) return false;
    numbers->insert(numbers->end(), {x, y});
    return true;
  }
  // A single pair is a point only after the token, otherwise any parentheses.
  std::optional<Place> read_place() {
    const bool is_marked = text_.substr(0, at_).ends_with(kBoxStart);
    std::vector<double> numbers;
    if (!take_pair(&numbers)) return std::nullopt;
    const size_t after_point = at_;
    if (take(',') && take_pair(&numbers)) return make_place(numbers);
    at_ = after_point;
    numbers.resize(2);
    return is_marked ? make_place(numbers) : std::nullopt;
  }

  // The text since the place before, of its last line, without tokens.
  std::string label_before(size_t end) const {
    std::string_view text = text_.substr(label_begin_, end - label_begin_);
    if (const size_t line = text.find_last_of('\n'); line != std::string_view::npos) text.remove_prefix(line + 1);
    constexpr std::string_view kLabelStart = "<|object_ref_start|>";
    if (const size_t start = text.rfind(kLabelStart); start != std::string_view::npos) {
      text.remove_prefix(start + kLabelStart.size());
    }
    std::string label;
    while (!text.empty()) {
      const size_t token_end =
          text.starts_with("<|") ? text.substr(0, kMaxTokenBytes).find("|>") : std::string_view::npos;
      if (token_end == std::string_view::npos) label += text.front();
      text.remove_prefix(token_end == std::string_view::npos ? 1 : token_end + 2);
    }
    return trim(label, " \t\r\n,;:");
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t label_begin_ = 0;
};

double scale(double value, double units, int32_t pixels, int32_t last) {
  return std::clamp(std::round(value / units * pixels), 0.0, static_cast<double>(last));
}

int64_t whole(double value) { return static_cast<int64_t>(value); }

}  // namespace

std::vector<Place> find_places(std::string_view answer) {
  std::vector<Place> places;
  add_objects(answer, &places);
  return places.empty() ? MarkedText(answer).places() : places;
}

std::vector<Place> scale_places(std::vector<Place> places, const PlaceScale& to) {
  for (Place& place : places) {
    const int32_t edge = place.is_point ? 1 : 0;  // a point is a pixel, a box ends before one
    place.left = scale(place.left, to.units_across, to.width, to.width - edge);
    place.right = scale(place.right, to.units_across, to.width, to.width - edge);
    place.top = scale(place.top, to.units_down, to.height, to.height - edge);
    place.bottom = scale(place.bottom, to.units_down, to.height, to.height - edge);
  }
  return places;
}

nlohmann::ordered_json places_json(const std::vector<Place>& places) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Place& place : places) {
    nlohmann::ordered_json one = {{"label", place.label}};
    if (place.is_point) {
      one["point"] = {whole(place.left), whole(place.top)};
    } else {
      one["box"] = {whole(place.left), whole(place.top), whole(place.right), whole(place.bottom)};
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace ocellus::app
