// The program's reader of boxes and points, for Python.
#include <cstdint>
#include <string>

#include "apps/base/places.h"
#include "runtime/ocellus.h"

// Gives `take` the places of an answer as one JSON text, in pixels of a picture of width x height; `across` and `down`:
// its size in the model's units. An answer that takes too much memory has none.
extern "C" OCELLUS_API void ocellus_python_find_places(const char* answer, int64_t answer_bytes, double across,
                                                       double down, int32_t width, int32_t height,
                                                       ocellus_text_function take, void* user) {
  try {
    using namespace ocellus::app;
    const std::string_view text(answer, static_cast<size_t>(answer_bytes));
    const PlaceScale scale = {.units_across = across, .units_down = down, .width = width, .height = height};
    const std::string json = places_json(scale_places(find_places(text), scale)).dump();
    take(user, json.data(), static_cast<int32_t>(json.size()));
  } catch (...) {
    (void)take(user, "[]", 2);
  }
}
