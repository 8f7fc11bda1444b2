// Rows of pictures in the language model: the same wherever a picture goes, and those of transformers 5.24.0, whose
// formulas are written again here from image_processing_*.py and processing_llava_next.py. Rounding of Python: round()
// takes halves to even numbers, int() and // of what is positive cut.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "apps/setup/setup.h"
#include "tests/apps/setup/engine_rows.h"
#include "tests/support/random.h"

namespace ocellus::app {
namespace {

using test::EngineRows;

struct Size {
  int32_t width = 0;
  int32_t height = 0;
};

constexpr int kSizes = 10000;  // a family
constexpr int64_t kFew = 0;    // no bound of rows is asked for

using Rows = int64_t (*)(Size, int64_t bound);

// smart_resize of Qwen2-VL, used by all three.
int64_t smart_resize_rows(Size picture, int64_t factor, int64_t min_pixels, int64_t max_pixels) {
  const double height = picture.height, width = picture.width, side = static_cast<double>(factor);
  int64_t h = std::llrint(height / side) * factor, w = std::llrint(width / side) * factor;
  if (h * w > max_pixels) {
    const double beta = std::sqrt((height * width) / static_cast<double>(max_pixels));
    h = std::max(factor, static_cast<int64_t>(std::floor(height / beta / side)) * factor);
    w = std::max(factor, static_cast<int64_t>(std::floor(width / beta / side)) * factor);
  } else if (h * w < min_pixels) {
    const double beta = std::sqrt(static_cast<double>(min_pixels) / (height * width));
    h = static_cast<int64_t>(std::ceil(height * beta / side)) * factor;
    w = static_cast<int64_t>(std::ceil(width * beta / side)) * factor;
  }
  return h / factor * (w / factor);
}

int64_t qwen2_rows(Size picture, int64_t bound) {
  return smart_resize_rows(picture, 28, int64_t{56} * 56, (bound > 0 ? bound : 1280) * 28 * 28);
}

int64_t qwen3_rows(Size picture, int64_t bound) {
  return smart_resize_rows(picture, 32, 65536, (bound > 0 ? bound : 1280) * 32 * 32);
}

// get_aspect_ratio_preserving_size of Gemma 4.
int64_t gemma4_rows(Size picture, int64_t bound) {
  const int64_t budget = bound > 0 ? bound : 280, patches = budget * 9, unit = 48;
  const double height = picture.height, width = picture.width;
  const double factor = std::sqrt(static_cast<double>(patches * 16 * 16) / (height * width));
  auto lines = static_cast<int64_t>(std::floor(factor * height / unit)),
       cols = static_cast<int64_t>(std::floor(factor * width / unit));
  if (lines == 0) {
    lines = 1;
    cols = std::min<int64_t>(picture.width / picture.height, patches / 9);
  } else if (cols == 0) {
    cols = 1;
    lines = std::min<int64_t>(picture.height / picture.width, patches / 9);
  }
  return lines * cols;
}

// SmolVLMImageProcessor: resize, resize_for_vision_encoder and split_images.
int64_t smolvlm_rows(Size picture, int64_t tile, int64_t longest, int64_t each) {
  const auto up = [&](int64_t side) { return (side + tile - 1) / tile * tile; };
  const double aspect = static_cast<double>(picture.width) / picture.height;
  int64_t width = longest, height = longest;
  if (picture.width >= picture.height) {
    height = static_cast<int64_t>(static_cast<double>(width) / aspect);
    height = std::max<int64_t>(height + height % 2, 1);
  } else {
    width = static_cast<int64_t>(static_cast<double>(height) * aspect);
    width = std::max<int64_t>(width + width % 2, 1);
  }
  const double resized = static_cast<double>(width) / static_cast<double>(height);
  if (width >= height) {
    width = up(width);
    height = up(static_cast<int64_t>(static_cast<double>(width) / resized));
  } else {
    height = up(height);
    width = up(static_cast<int64_t>(static_cast<double>(height) * resized));
  }
  if (height <= tile && width <= tile) return each;
  return each * (((height - tile) / tile + 1) * ((width - tile) / tile + 1) + 1);
}

int64_t smolvlm_256_rows(Size picture, int64_t) { return smolvlm_rows(picture, 512, 2048, 64); }
int64_t smolvlm2_rows(Size picture, int64_t) { return smolvlm_rows(picture, 384, 1536, 81); }

// get_optimal_tiled_canvas of GOT-OCR 2, used by InternVL.
int64_t internvl_rows(Size picture, int64_t) {
  constexpr int64_t kMost = 12, kTile = 448, kEach = 256;
  const double aspect = static_cast<double>(picture.width) / picture.height;
  const double area = static_cast<double>(picture.width) * picture.height;
  double nearest = HUGE_VAL;
  int64_t best = 1;
  for (int64_t tiles = 1; tiles <= kMost; ++tiles) {  // sorted by their number, and then by width
    for (int64_t cols = 1; cols <= kMost; ++cols) {
      if (tiles % cols != 0) continue;
      const double difference = std::abs(aspect - static_cast<double>(cols) / static_cast<double>(tiles / cols));
      const bool as_near = difference == nearest && area > 0.5 * static_cast<double>(kTile * kTile * tiles);
      if (difference >= nearest && !as_near) continue;
      nearest = difference;
      best = tiles;
    }
  }
  return kEach * (best > 1 ? best + 1 : 1);
}

// select_best_resolution, and _get_unpadded_features of LLaVA-1.6.
int64_t llava_next_rows(Size picture, int64_t) {
  constexpr Size kGrids[] = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};  // height, width
  const int64_t pixels = int64_t{picture.width} * picture.height;
  int64_t most = 0, least = INT64_MAX, lines = 0, cols = 0;
  for (const auto& [height, width] : kGrids) {
    const double scale =
        std::min(static_cast<double>(width) / picture.width, static_cast<double>(height) / picture.height);
    const auto scaled = static_cast<int64_t>(picture.width * scale) * static_cast<int64_t>(picture.height * scale);
    const int64_t used = std::min(scaled, pixels), wasted = int64_t{width} * height - used;
    if (used < most || (used == most && wasted >= least)) continue;
    most = used;
    least = wasted;
    lines = height / 14;
    cols = width / 14;
  }
  const auto rounded = [](double side) { return static_cast<int64_t>(side + 0.5e-7); };  // int(round(side, 7))
  const double all_lines = static_cast<double>(lines), all_cols = static_cast<double>(cols);
  if (static_cast<double>(picture.width) / picture.height > all_cols / all_lines)
    lines -= (lines - rounded(picture.height * (all_cols / picture.width))) / 2 * 2;
  else
    cols -= (cols - rounded(picture.width * (all_lines / picture.height))) / 2 * 2;
  return lines * cols + lines + int64_t{24} * 24;
}

int64_t llava_rows(Size, int64_t) { return 576; }
int64_t gemma3_rows(Size, int64_t) { return 256; }

struct PublishedRows {
  const char* shape;
  Rows rows;
  std::vector<int32_t> bounds = {kFew};  // values of --image-rows
};

const PublishedRows kPublished[] = {{"SmolVLM-256M", smolvlm_256_rows},
                                    {"SmolVLM2-2.2B", smolvlm2_rows},
                                    {"LLaVA-1.5-7B", llava_rows},
                                    {"LLaVA-1.6-Mistral-7B", llava_next_rows},
                                    {"InternVL3-2B", internvl_rows},
                                    {"Qwen2-VL-2B", qwen2_rows, {kFew, 256, 16384}},
                                    {"Qwen2.5-VL-3B", qwen2_rows, {kFew, 256, 16384}},
                                    {"Qwen3-VL-2B", qwen3_rows, {kFew, 256, 16384}},
                                    {"Gemma3-4B", gemma3_rows},
                                    {"Gemma4-E2B", gemma4_rows, {kFew, 70, 140, 560, 1120}}};

// Sides of every order of magnitude, as long as each other or not, within the limits of a picture.
Size draw_size(test::Random* random) {
  const auto side = [&] { return static_cast<int32_t>(std::exp2(random->uniform(0, 12.9f))); };
  Size size;
  do {
    size = {side(), side()};
  } while (std::max(size.width, size.height) > 150 * std::min(size.width, size.height) ||
           int64_t{size.width} * size.height > kPhotoPixels);
  return size;
}

// Plans memory as a command that knows its pictures does, or else as one to which photos come later.
ocellus_limits limits_for(const Model& model, int32_t bound, const std::vector<Size>& known) {
  CommonOptions options;
  options.quiet = true;
  options.limits.max_image_rows = bound;
  Needs needs = {.images = std::max<int64_t>(std::ssize(known), 1),
                 .largest = {.pixels = kPhotoPixels, .whole_pixels = {}}};
  for (const Size size : known) needs.largest.include({.path = "", .width = size.width, .height = size.height});
  return make_limits(model, options, needs);
}

// Rows that a session gives the picture; -1 if it refuses it.
int64_t session_rows(const EngineRows& rows, Size picture) { return rows.of(picture.width, picture.height); }

EngineRows rows_of(const Model& model, const ocellus_limits& limits) {
  EngineRows rows;
  REQUIRE_MESSAGE(rows.plan(model.get(), limits) == OCELLUS_OK, ocellus_last_error()->sentence);
  return rows;
}

int32_t counted_rows(const Model& model, const ocellus_limits& limits, Size picture) {
  int32_t rows = -1;
  CHECK(ocellus_model_count_image_rows(model.get(), &limits, picture.width, picture.height, &rows) == OCELLUS_OK);
  return rows;
}

}  // namespace

TEST_CASE("a picture has transformers' rows whether its size is known to the plan or not") {
  for (const PublishedRows& published : kPublished) {
    const std::string name = published.shape;
    CAPTURE(name);
    const Model model = open_shape(published.shape, "Q8_0", 1);
    for (const int32_t bound : published.bounds) {
      CAPTURE(bound);
      const ocellus_limits open = limits_for(model, bound, {});
      const EngineRows of_any = rows_of(model, open);  // serve, chat, watch, plan
      test::Random random(7);
      Size before = {640, 480};
      for (int i = 0; i < kSizes / std::ssize(published.bounds); ++i) {
        const Size picture = draw_size(&random);
        CAPTURE(picture.width);
        CAPTURE(picture.height);
        const int64_t rows = published.rows(picture, bound);
        REQUIRE(session_rows(of_any, picture) == rows);
        REQUIRE(counted_rows(model, open, picture) == rows);
        const ocellus_limits known = limits_for(model, bound, {picture, before});  // ask, caption, eval, bench
        const EngineRows of_two = rows_of(model, known);
        REQUIRE(session_rows(of_two, picture) == rows);
        REQUIRE(session_rows(of_two, before) == session_rows(of_any, before));
        REQUIRE(of_two.planned() <= of_any.planned());
        if (model.facts.any_image_size != 0) REQUIRE(of_two.planned() == std::max(rows, session_rows(of_any, before)));
        before = picture;
      }
    }
  }
}

TEST_CASE("gemma4: 640 x 480 has 266 rows and 1920 x 1080 has 264, known or not") {
  const Model model = open_shape("Gemma4-E2B", "Q8_0", 1);
  for (const auto& [picture, rows] : {std::pair{Size{640, 480}, 266}, std::pair{Size{1920, 1080}, 264}}) {
    CHECK(gemma4_rows(picture, kFew) == rows);
    for (const std::vector<Size>& known : {std::vector<Size>{}, std::vector<Size>{picture}})
      CHECK(session_rows(rows_of(model, limits_for(model, 0, known)), picture) == rows);
  }
}

TEST_CASE("a picture with more rows than memory is planned for is refused, and none is reduced to them") {
  const Model model = open_shape("Qwen3-VL-2B", "Q8_0", 1);
  ocellus_limits limits = limits_for(model, 0, {{640, 480}});
  CHECK(limits.max_image_rows == 0);
  CHECK(limits.planned_image_rows == 300);
  const EngineRows sessions = rows_of(model, limits);
  CHECK(session_rows(sessions, {480, 640}) == 300);
  CHECK(session_rows(sessions, {672, 480}) == -1);
  CHECK(std::string(ocellus_last_error()->sentence) ==
        "the picture takes 315 rows, and memory is planned for 300 (planned_image_rows): plan more, or a lower bound "
        "of a picture's rows (max_image_rows)");
  int32_t rows = 0;
  CHECK(ocellus_model_count_image_rows(model.get(), &limits, 672, 480, &rows) == OCELLUS_FULL);
  limits.max_image_rows = 200;
  CHECK(session_rows(rows_of(model, limits), {672, 480}) <= 200);
  CHECK(counted_rows(model, limits, {672, 480}) <= 200);
}

TEST_CASE("rows that are dropped after they are counted do not change what pictures are planned for") {
  const Model model = open_shape("Qwen2.5-VL-3B", "Q8_0", 1);
  const Size picture = {1920, 1080};
  ocellus_limits limits = limits_for(model, 0, {});
  const int32_t all = counted_rows(model, limits, picture);
  std::snprintf(limits.reduce, sizeof limits.reduce, "cover-rows");
  limits.reduce_keep = 0.5f;
  CHECK(counted_rows(model, limits, picture) == all);
  limits.planned_image_rows = all;
  const EngineRows sessions = rows_of(model, limits);
  CHECK(session_rows(sessions, picture) == all);
  CHECK(sessions.planned() == sessions.kept_of(all));
}

TEST_CASE("rows are planned for pictures of any size only") {
  const Model model = open_shape("SmolVLM-256M", "Q8_0", 1);
  ocellus_limits limits = limits_for(model, 0, {{640, 480}});
  CHECK(limits.planned_image_rows == 0);
  limits.planned_image_rows = 64;
  EngineRows rows;
  CHECK(rows.plan(model.get(), limits) == OCELLUS_BAD_ARGUMENT);
  CHECK(std::string(ocellus_last_error()->sentence).find("(planned_image_rows)") != std::string::npos);
}

}  // namespace ocellus::app
