// Boxes and points in answers: the forms that Qwen's models write, whole and damaged.
#include "apps/base/places.h"

#include <doctest/doctest.h>

#include <random>

namespace ocellus::app {
namespace {

constexpr PlaceScale kThousandthsOfPhoto = {.units_across = 1000, .units_down = 1000, .width = 640, .height = 480};

// The places of an answer in thousandths, in a picture of 640 x 480.
std::string find(std::string_view answer) {
  return places_json(scale_places(find_places(answer), kThousandthsOfPhoto)).dump();
}

constexpr char kCar[] = R"([{"label":"car","box":[64,48,320,240]}])";

TEST_CASE("boxes and points of Qwen3-VL become pixels of the picture") {
  CHECK(find("```json\n[\n\t{\"bbox_2d\": [100, 100, 500, 500], \"label\": \"car\"},\n"
             "\t{\"point_2d\": [250, 750], \"label\": \"a \\\"red\\\" dog\"}\n]\n```") ==
        R"([{"label":"car","box":[64,48,320,240]},{"label":"a \"red\" dog","point":[160,360]}])");
}

TEST_CASE("places are found whatever is around them") {
  CHECK(find(R"({"bbox_2d": [100, 100, 500, 500], "label": "car"})") == kCar);
  CHECK(find(R"(Here {it} is: {"label": "car", "bbox_2d": [100.0, 1e2, 500.4, 499.9]}, as asked.)") == kCar);
  CHECK(find(R"({"objects": [{"bbox_2d": [100, 100, 500, 500], "label": "car"}], "count": 1})") == kCar);
  CHECK(find(R"({"bbox_2d": [100, 100, 500, 500], "label": "car", "is": {"colour": "red"}})") == kCar);
  CHECK(find("{\"label: {\"x\n{\"bbox_2d\": [100, 100, 500, 500], \"label\": \"car\"}") == kCar);
}

TEST_CASE("other keys that models use are understood") {
  for (const char* key : {"bbox", "box", "box_2d"}) {
    CHECK_MESSAGE(find("{\"" + std::string(key) + R"(": [100, 100, 500, 500], "label": "car"})") == kCar, key);
  }
  CHECK(find(R"({"bbox_2d": [100, 100, 500, 500], "text_content": "car"})") == kCar);
  CHECK(find(R"({"point": [0, 0]})") == R"([{"label":"","point":[0,0]}])");
  CHECK(find(R"({"bbox_2d": [[0, 0, 500, 500], [500, 500, 1000, 1000]], "label": "car"})") ==
        R"([{"label":"car","box":[0,0,320,240]},{"label":"car","box":[320,240,640,480]}])");
}

TEST_CASE("an answer that was cut off keeps its whole entries") {
  const std::string answer =
      R"(```json [{"bbox_2d": [100, 100, 500, 500], "label": "car"}, {"bbox_2d": [1, 2, 3, 4], "label": "}")";
  const size_t whole = answer.find('}') + 1;
  for (size_t bytes = 0; bytes <= answer.size(); ++bytes) {
    CHECK(find(answer.substr(0, bytes)) == (bytes < whole ? "[]" : kCar));
  }
}

TEST_CASE("corners are put in order and the picture's edges are kept") {
  CHECK(find(R"({"bbox_2d": [500, 500, 100, 100], "label": "car"})") == kCar);
  CHECK(find(R"({"bbox_2d": [-20, 900, 1300, 4000]})") == R"([{"label":"","box":[0,432,640,480]}])");
  CHECK(find(R"({"point_2d": [1000, 1000]})") == R"([{"label":"","point":[639,479]}])");
}

TEST_CASE("numbers that are none are left out") {
  for (const char* list : {"[1, 2, 3]", "[1, 2, 3, 4, 5]", "[]", "[1, 2, 3, null]", "[1e999, 2, 3, 4]",
                           "[1e300, 2, 3, 4]", "\"1, 2, 3, 4\"", "[[[1, 2, 3, 4]]]", "[\"1\", 2, 3, 4]"}) {
    CHECK_MESSAGE(find(std::string(R"({"bbox_2d": )") + list + "}") == "[]", list);
  }
  for (const char* answer : {"", "No car is in the picture.", "[100, 200, 300, 400]", "{}", "}}}{{{", "f(1, 2)"}) {
    CHECK_MESSAGE(find(answer) == "[]", answer);
  }
}

TEST_CASE("places of Qwen2-VL are found with their tokens and without") {
  CHECK(find("<|object_ref_start|>car<|object_ref_end|><|box_start|>(100,100),(500,500)<|box_end|>") == kCar);
  CHECK(find("car(100,100),(500,500)") == kCar);
  CHECK(find("There are two.\ncar (100, 100), (500, 500), dog(500,500),(1000,1000)") ==
        R"([{"label":"car","box":[64,48,320,240]},{"label":"dog","box":[320,240,640,480]}])");
  CHECK(find("<|object_ref_start|>dog<|object_ref_end|><|box_start|>(250,750)<|box_end|>") ==
        R"([{"label":"dog","point":[160,360]}])");
  CHECK(find("(100,100),(500,") == "[]");
  CHECK(find("(nan,100),(500,inf)") == "[]");
}

TEST_CASE("pixels of a resized picture become those of the given one") {
  const PlaceScale scale = {.units_across = 644, .units_down = 476, .width = 1288, .height = 952};
  CHECK(places_json(scale_places(find_places(R"({"bbox_2d": [10, 20, 644, 500]})"), scale)).dump() ==
        R"([{"label":"","box":[20,40,1288,952]}])");
}

TEST_CASE("deep and long texts take no more than their length") {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += R"({"a":[)";
  CHECK(find(deep) == "[]");
  CHECK(find(deep + std::string(100000, '}')) == "[]");
  CHECK(find("{\"bbox_2d\":" + std::string(100000, '[') + std::string(100000, ']') + "}") == "[]");
  CHECK(find(std::string(100000, '(')) == "[]");
  std::string tokens = "(1,2),(3,4)";
  for (int i = 0; i < 50000; ++i) tokens += "<|";
  CHECK(find_places(tokens + "(1,2),(3,4)").size() == 2);
}

TEST_CASE("places in random answers are in the picture") {
  std::mt19937 random(7);
  constexpr std::string_view kPieces[] = {
      "{",  "}",    "[",  "]",  "\"bbox_2d\":", "\"point_2d\":", "\"label\":", "\"car\"", ",", "(", ")", "1000",
      "-3", "1e99", "\\", "\"", "\n",           "<|box_start|>", "5.5"};
  for (int i = 0; i < 20000; ++i) {
    std::string answer;
    for (uint32_t piece = 0; piece < random() % 40; ++piece) {
      if (random() % 8 == 0) answer += static_cast<char>(random());
      answer += kPieces[random() % std::size(kPieces)];
    }
    for (const Place& place : scale_places(find_places(answer), kThousandthsOfPhoto)) {
      REQUIRE((place.left >= 0 && place.left <= place.right && place.right <= 640));
      REQUIRE((place.top >= 0 && place.top <= place.bottom && place.bottom <= 480));
    }
  }
}

}  // namespace
}  // namespace ocellus::app
