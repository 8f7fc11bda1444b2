#include "apps/setup/picture_places.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "apps/base/failure.h"
#include "apps/base/output_file.h"
#include "apps/base/plain_text.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/picture_encode.h"
#include "apps/camera/place_painter.h"
#include "apps/setup/known_models.h"

namespace ocellus::app {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kQuality = 92;
constexpr double kThousandths = 1000;

std::vector<std::string> families_with_places() {
  std::vector<std::string> families;
  for (const ocellus_known_model& model : known_models()) {
    const bool is_new = std::find(families.begin(), families.end(), model.family) == families.end();
    if (model.place_units != OCELLUS_PLACES_NONE && is_new) families.emplace_back(model.family);
  }
  return families;
}

bool is_png_path(const std::string& path) { return to_lower(path).ends_with(".png"); }
bool is_jpeg_path(const std::string& path) {
  return to_lower(path).ends_with(".jpg") || to_lower(path).ends_with(".jpeg");
}

}  // namespace

std::string describe_missing_places(const std::string& option, const std::vector<std::string>& families) {
  std::string sentence = option + " needs a model whose answers hold boxes or points: ";
  if (families.empty()) return sentence + "this build reads none.";
  sentence += families.size() == 1 ? "one of the family " : "one of the families ";
  for (size_t i = 0; i < families.size(); ++i) {
    if (i > 0) sentence += i + 1 == families.size() ? " and " : ", ";
    sentence += families[i];
  }
  return sentence + "; `ocellus models` lists their models.";
}

void require_places(const Model& model, const std::string& option) {
  if (model.facts.place_units != OCELLUS_PLACES_NONE) return;
  throw Failure(kExitUsage, describe_missing_places(option, families_with_places()));
}

std::vector<Place> read_places(const std::string& answer, const Model& model, const Engine& engine, int32_t width,
                               int32_t height) {
  if (model.facts.place_units == OCELLUS_PLACES_NONE) return {};
  std::vector<Place> places = find_places(answer);
  if (places.empty()) return {};
  PlaceScale scale = {.units_across = kThousandths, .units_down = kThousandths, .width = width, .height = height};
  if (model.facts.place_units == OCELLUS_PLACES_RESIZED_PIXELS) {
    const auto [resized_width, resized_height] = take(engine.resized_size({width, height}));
    scale.units_across = resized_width;
    scale.units_down = resized_height;
  }
  return scale_places(std::move(places), scale);
}

void check_drawing(const std::string& path, const std::vector<std::string>& inputs) {
  if (!is_png_path(path) && !is_jpeg_path(path)) {
    throw Failure(kExitUsage, "--draw " + path + ": the name must end in .png, .jpg or .jpeg, which is the format.");
  }
  for (const std::string& input : inputs) {
    std::error_code ignored;
    if (path == input || fs::equivalent(path, input, ignored)) {
      throw Failure(kExitUsage, "--draw " + path + " would overwrite an input; give another name.");
    }
  }
  check_output("--draw", path);
}

void write_drawing(const std::string& path, const ImageFile& image, const DepthRange& depth,
                   const std::vector<Place>& places) {
  const std::shared_ptr<Frame> frame = read_image(image);
  frame->depth = depth;
  Picture picture;
  if (!decode_rgb(*frame, &picture)) throw library_failure(OCELLUS_BAD_IMAGE, image.path);
  paint_places(places, &picture);
  std::vector<uint8_t> file;
  const bool encoded = is_png_path(path)
                           ? encode_png(picture.pixels.data(), picture.width, picture.height, &file)
                           : encode_jpeg(picture.pixels.data(), picture.width, picture.height, kQuality, &file);
  if (!encoded) throw output_failure("--draw", path, ENOMEM);
  write_output("--draw", path, {reinterpret_cast<const char*>(file.data()), file.size()});
}

}  // namespace ocellus::app
