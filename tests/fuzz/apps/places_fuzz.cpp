// Boxes and points in a model's answer, from any text to pixels of a picture.
#include "apps/base/places.h"
#include "tests/fuzz/apps/json_changes.h"

namespace ocellus::fuzz {
namespace {

constexpr int32_t kWidth = 640, kHeight = 480;

bool run(const uint8_t* data, size_t size) {
  const std::string_view answer(reinterpret_cast<const char*>(data), size);
  const auto places = app::scale_places(app::find_places(answer),
                                        {.units_across = 1000, .units_down = 1000, .width = kWidth, .height = kHeight});
  for (const app::Place& place : places) {
    require(place.left >= 0 && place.left <= place.right && place.right <= kWidth, "a place is between both sides");
    require(place.top >= 0 && place.top <= place.bottom && place.bottom <= kHeight,
            "a place is between top and bottom");
  }
  require(app::places_json(places).size() == places.size(), "every place is told");
  return !places.empty();
}

std::vector<Bytes> make_seeds() {
  return {bytes_of("```json\n[{\"bbox_2d\": [10, 20, 300, 400], \"label\": \"car\"}, {\"point_2d\": [5, 6.5]}]\n```"),
          bytes_of(R"({"objects": [{"bbox": [[1, 2, 3, 4], [5, 6, 7, 8]], "is": {"name": "{\"a}"}}]})"),
          bytes_of("<|object_ref_start|>car<|object_ref_end|><|box_start|>(10,20),(30,40)<|box_end|>, dog(1,2),(3,4)")};
}

const Registration kRegistered({.name = "places",
                                .make_seeds = make_seeds,
                                .mutate = change_json,
                                .run = run,
                                .most_heap_bytes = int64_t{4} << 20});

}  // namespace
}  // namespace ocellus::fuzz
