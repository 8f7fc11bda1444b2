// The C API: what it refuses, how it says so, and every kind of frame it takes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mm/pictures/image_decode.h"
#include "runtime/ocellus.h"
#include "tests/support/c_handles.h"
#include "tests/support/failure.h"
#include "tests/support/goldens.h"
#include "tests/support/whole_pictures.h"

namespace ocellus {
namespace {

using test::last_error_says;

ocellus_limits small_limits() {
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.max_images = 2;
  limits.max_text_tokens = 128;
  limits.max_image_pixels = 65536;
  return limits;
}

struct Handles : test::CHandles {
  Handles() : CHandles(test::bundled_pair(), small_limits()) {}
};

/// A picture in memory.
struct Pixels {
  int32_t width = 0;
  int32_t height = 0;
  std::vector<uint8_t> rgb;

  const uint8_t* at(int32_t x, int32_t y) const { return &rgb[static_cast<size_t>(3 * (y * width + x))]; }
  Pixels grey() const {
    Pixels result = *this;
    for (size_t i = 0; i < rgb.size(); i += 3)
      result.rgb[i] = result.rgb[i + 1] = result.rgb[i + 2] =
          static_cast<uint8_t>((rgb[i] * 77 + rgb[i + 1] * 150 + rgb[i + 2] * 29) >> 8);
    return result;
  }
};

Pixels decode_board(const std::string& name) {
  const std::vector<uint8_t> bytes = test::read_bytes(test::kShapeboardDir + name);
  const int64_t size = static_cast<int64_t>(bytes.size());
  std::vector<std::byte> scratch(static_cast<size_t>(decode_scratch_bytes({})));
  RgbImage image;
  REQUIRE(testing::decode_image(bytes.data(), size, {}, {scratch.data(), static_cast<int64_t>(scratch.size())}, &image)
              .ok());
  Pixels pixels{image.width, image.height, {}};
  for (int32_t y = 0; y < image.height; ++y)
    pixels.rgb.insert(pixels.rgb.end(), image.row(y), image.row(y) + 3 * image.width);
  return pixels;
}

/// Luma and chroma of the full range, from the weights of red and blue.
struct ChromaWeights {
  double red, blue;

  double exact_luma(const uint8_t* p) const { return red * p[0] + (1 - red - blue) * p[1] + blue * p[2]; }
  uint8_t luma(const uint8_t* p) const { return static_cast<uint8_t>(std::lround(exact_luma(p))); }
  uint8_t blue_difference(const uint8_t* p) const {
    return static_cast<uint8_t>(std::lround(128 + (p[2] - exact_luma(p)) / (2 * (1 - blue)) - 0.01));
  }
  uint8_t red_difference(const uint8_t* p) const {
    return static_cast<uint8_t>(std::lround(128 + (p[0] - exact_luma(p)) / (2 * (1 - red)) - 0.01));
  }
};
constexpr ChromaWeights kWeights[] = {{0.299, 0.114}, {0.2126, 0.0722}};  // index: ocellus_color_matrix

/// A frame of any format, with padding after each row.
class OwnedFrame {
 public:
  OwnedFrame(const Pixels& pixels, ocellus_pixel_format format, ocellus_color_matrix matrix = OCELLUS_BT601)
      : weights_(kWeights[matrix]) {
    frame_.format = format;
    frame_.color_matrix = matrix;
    frame_.width = pixels.width;
    frame_.height = pixels.height;
    frame_.full_range = 1;
    const int32_t bytes_per_pixel[] = {3, 4, 1, 1, 2, 3, 4, 1, 2, 1, 1};
    stride_ = int64_t{bytes_per_pixel[format]} * pixels.width + 20;
    planes_[0].assign(static_cast<size_t>(stride_ * pixels.height), 0xEE);
    for (int32_t y = 0; y < pixels.height; ++y)
      for (int32_t x = 0; x < pixels.width; ++x) write(pixels, x, y);
    if (format == OCELLUS_NV12 || format == OCELLUS_I420) write_chroma(pixels);
    if (format == OCELLUS_I422 || format == OCELLUS_I444) write_wide_chroma(pixels);
    for (int i = 0; i < 3; ++i) {
      frame_.plane[i] = planes_[i].data();
      frame_.stride_bytes[i] = stride_;
    }
  }
  ocellus_frame& get() { return frame_; }

 private:
  void write(const Pixels& pixels, int32_t x, int32_t y) {
    const uint8_t* p = pixels.at(x, y);
    uint8_t* row = planes_[0].data() + y * stride_;
    switch (frame_.format) {
      case OCELLUS_RGB8: std::memcpy(row + 3 * x, p, 3); break;
      case OCELLUS_RGBA8:
        std::memcpy(row + 4 * x, p, 3);
        row[4 * x + 3] = 255;
        break;
      case OCELLUS_BGR8: std::reverse_copy(p, p + 3, row + 3 * x); break;
      case OCELLUS_BGRA8:
        std::reverse_copy(p, p + 3, row + 4 * x);
        row[4 * x + 3] = 255;
        break;
      case OCELLUS_GRAY8: row[x] = p[0]; break;
      case OCELLUS_GRAY16:
        row[2 * x] = 0x5A;
        row[2 * x + 1] = p[0];
        break;
      case OCELLUS_NV12:
      case OCELLUS_I420:
      case OCELLUS_I422:
      case OCELLUS_I444: row[x] = weights_.luma(p); break;
      case OCELLUS_YUYV:
        row[2 * x] = weights_.luma(p);
        row[2 * x + 1] = x % 2 == 0 ? weights_.blue_difference(p) : weights_.red_difference(p);
        break;
    }
  }
  void write_wide_chroma(const Pixels& pixels) {
    const int32_t step = frame_.format == OCELLUS_I422 ? 2 : 1;
    for (int i = 1; i < 3; ++i) planes_[i].assign(static_cast<size_t>(stride_ * pixels.height), 0xEE);
    for (int32_t y = 0; y < pixels.height; ++y) {
      for (int32_t x = 0; x < pixels.width; x += step) {
        planes_[1][static_cast<size_t>(y * stride_ + x / step)] = weights_.blue_difference(pixels.at(x, y));
        planes_[2][static_cast<size_t>(y * stride_ + x / step)] = weights_.red_difference(pixels.at(x, y));
      }
    }
  }
  void write_chroma(const Pixels& pixels) {
    for (int i = 1; i < 3; ++i) planes_[i].assign(static_cast<size_t>(stride_ * pixels.height / 2), 0xEE);
    const bool is_planar = frame_.format == OCELLUS_I420;
    for (int32_t y = 0; y < pixels.height; y += 2) {
      for (int32_t x = 0; x < pixels.width; x += 2) {
        uint8_t* blue = planes_[1].data() + y / 2 * stride_ + (is_planar ? x / 2 : x);
        uint8_t* red = is_planar ? planes_[2].data() + y / 2 * stride_ + x / 2 : blue + 1;
        *blue = weights_.blue_difference(pixels.at(x, y));
        *red = weights_.red_difference(pixels.at(x, y));
      }
    }
  }

  ChromaWeights weights_;
  ocellus_frame frame_ = {};
  int64_t stride_ = 0;
  std::vector<uint8_t> planes_[3];
};

struct Caption {
  std::string text;
  uint64_t logits_hash = 0;
};

Caption describe(ocellus_session* session) {
  const std::string prompt = "Describe this image.";
  REQUIRE(ocellus_session_add_text(session, prompt.data(), static_cast<int64_t>(prompt.size()), 0) == OCELLUS_OK);
  REQUIRE(ocellus_session_end_turn(session) == OCELLUS_OK);
  Caption caption;
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.user = &caption.text;
  params.on_text = [](void* user, const char* text, int32_t bytes) {
    static_cast<std::string*>(user)->append(text, static_cast<size_t>(bytes));
    return 0;
  };
  ocellus_generate_stats stats;
  REQUIRE(ocellus_session_generate(session, &params, &stats) == OCELLUS_OK);
  caption.logits_hash = stats.logits_hash;
  return caption;
}

Caption describe_frame(ocellus_session* session, const ocellus_frame& frame) {
  REQUIRE(ocellus_session_reset(session) == OCELLUS_OK);
  REQUIRE(ocellus_session_begin_turn(session) == OCELLUS_OK);
  REQUIRE_MESSAGE(ocellus_session_add_image(session, &frame) == OCELLUS_OK, ocellus_last_error()->sentence);
  return describe(session);
}

}  // namespace

TEST_CASE("frames of every format are captioned as the picture they hold" * doctest::test_suite("long")) {
  Handles handles;
  for (const char* name : {"images/098.png", "images/115.png"}) {
    CAPTURE(name);
    const std::vector<uint8_t> png = test::read_bytes(test::kShapeboardDir + name);
    REQUIRE(ocellus_session_reset(handles.session) == OCELLUS_OK);
    REQUIRE(ocellus_session_begin_turn(handles.session) == OCELLUS_OK);
    REQUIRE(ocellus_session_add_encoded_image(handles.session, png.data(), static_cast<int64_t>(png.size())) ==
            OCELLUS_OK);
    const Caption expected = describe(handles.session);
    CHECK(expected.text.size() > 20);

    const Pixels board = decode_board(name);
    for (const ocellus_pixel_format format : {OCELLUS_RGB8, OCELLUS_RGBA8, OCELLUS_BGR8, OCELLUS_BGRA8}) {
      const Caption caption = describe_frame(handles.session, OwnedFrame(board, format).get());
      CHECK(caption.text == expected.text);
      CHECK(caption.logits_hash == expected.logits_hash);
    }
    // Chroma at half the resolution, and rounded: the same words, not the same bits.
    for (const ocellus_pixel_format format : {OCELLUS_NV12, OCELLUS_YUYV, OCELLUS_I420, OCELLUS_I422, OCELLUS_I444})
      for (const ocellus_color_matrix matrix : {OCELLUS_BT601, OCELLUS_BT709}) {
        OwnedFrame frame(board, format, matrix);
        const Caption caption = describe_frame(handles.session, frame.get());
        CHECK(caption.text == expected.text);
        frame.get().color_matrix = 1 - matrix;
        CHECK(describe_frame(handles.session, frame.get()).logits_hash != caption.logits_hash);
      }
    // A grey picture has no chroma to lose.
    const Pixels grey = board.grey();
    const Caption grey_caption = describe_frame(handles.session, OwnedFrame(grey, OCELLUS_RGB8).get());
    CHECK(grey_caption.logits_hash != expected.logits_hash);
    for (const ocellus_pixel_format format : {OCELLUS_GRAY8, OCELLUS_NV12, OCELLUS_YUYV, OCELLUS_I420, OCELLUS_GRAY16})
      CHECK(describe_frame(handles.session, OwnedFrame(grey, format).get()).logits_hash == grey_caption.logits_hash);
  }
}

TEST_CASE("frames that cannot be are refused by name and leave the session as it was") {
  Handles handles;
  Pixels board = decode_board("images/115.png");
  const auto refused = [&](ocellus_pixel_format format, auto change) {
    OwnedFrame frame(board, format);
    change(frame.get());
    return ocellus_session_add_image(handles.session, &frame.get());
  };
  CHECK(refused(OCELLUS_RGB8, [](ocellus_frame& f) { f.format = 11; }) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "pixel format 11"));
  CHECK(refused(OCELLUS_GRAY16, [](ocellus_frame& f) { f.depth_near = 9; }) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "depths of 9 to 0 are no range"));
  CHECK(refused(OCELLUS_NV12, [](ocellus_frame& f) { f.color_matrix = 2; }) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "colour matrix 2"));
  CHECK(refused(OCELLUS_I420, [](ocellus_frame& f) { f.plane[2] = nullptr; }) == OCELLUS_BAD_ARGUMENT);
  CHECK(refused(OCELLUS_RGB8, [](ocellus_frame& f) { f.format = -1; }) == OCELLUS_BAD_ARGUMENT);
  CHECK(refused(OCELLUS_RGB8, [](ocellus_frame& f) { f.plane[0] = nullptr; }) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "plane 0"));
  CHECK(refused(OCELLUS_NV12, [](ocellus_frame& f) { f.plane[1] = nullptr; }) == OCELLUS_BAD_ARGUMENT);
  CHECK(refused(OCELLUS_RGB8, [](ocellus_frame& f) { f.stride_bytes[0] = 3 * f.width - 1; }) == OCELLUS_BAD_ARGUMENT);
  CHECK(refused(OCELLUS_YUYV, [](ocellus_frame& f) { f.width -= 1; }) == OCELLUS_BAD_ARGUMENT);
  CHECK(refused(OCELLUS_RGB8, [](ocellus_frame& f) { f.width = 0; }) == OCELLUS_BAD_IMAGE);
  CHECK(refused(OCELLUS_RGB8, [](ocellus_frame& f) { f.height = -4; }) == OCELLUS_BAD_IMAGE);
  CHECK(refused(OCELLUS_GRAY8, [](ocellus_frame& f) { f.height = 1 << 20; }) == OCELLUS_BAD_IMAGE);
  CHECK(describe_frame(handles.session, OwnedFrame(board, OCELLUS_RGB8).get()).text.size() > 20);
}

TEST_CASE("null arguments are named") {
  Handles handles;
  ocellus_model* model = nullptr;
  ocellus_model_facts facts;
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  ocellus_plan plan;
  ocellus_engine_stats engine_stats;
  ocellus_engine* engine = nullptr;
  ocellus_session* session = nullptr;
  int32_t count = 0;
  const char text[] = "x";
  const std::string path = test::bundled_pair().model;

  CHECK(ocellus_model_open(nullptr, nullptr, &model) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "model_path"));
  CHECK(ocellus_model_open(path.c_str(), nullptr, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_get_facts(nullptr, &facts) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_get_facts(handles.model, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_count_tokens(nullptr, text, 1, 0, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_count_tokens(handles.model, nullptr, 1, 0, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_count_tokens(handles.model, text, 1, 0, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_count_tokens(handles.model, text, -1, 0, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_tokenize(nullptr, text, 1, 0, nullptr, 0, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_tokenize(handles.model, nullptr, 1, 0, nullptr, 0, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_tokenize(handles.model, text, 1, 0, nullptr, 0, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_tokenize(handles.model, text, 1, 0, nullptr, 1, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_tokenize(handles.model, text, -1, 0, nullptr, 0, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_template_tokens(nullptr, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_template_tokens(handles.model, nullptr) == OCELLUS_BAD_ARGUMENT);
  ocellus_image_facts image;
  CHECK(ocellus_image_probe(nullptr, 1, &image) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_image_probe(text, 1, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_image_probe(text, -1, &image) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_image_decode(nullptr, 1, &image, 1) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_image_decode(text, 1, nullptr, 1) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_plan_memory(nullptr, &limits, &plan) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_plan_memory(handles.model, nullptr, &plan) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_plan_memory(handles.model, &limits, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_engine_create(nullptr, &config, &engine) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_engine_create(handles.model, nullptr, &engine) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_engine_create(handles.model, &config, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_engine_get_stats(nullptr, &engine_stats) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_engine_get_stats(handles.engine, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_open(nullptr, &session) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_open(handles.engine, nullptr) == OCELLUS_BAD_ARGUMENT);
  // Functions without a status do nothing.
  ocellus_limits_init(nullptr);
  ocellus_engine_config_init(nullptr);
  ocellus_generate_params_init(nullptr);
  ocellus_model_close(nullptr);
  ocellus_engine_destroy(nullptr);
  ocellus_session_close(nullptr);
  ocellus_session_cancel(nullptr);
  ocellus_session_set_deadline(nullptr, 1);
}

TEST_CASE("calls on a session without one, or with half of their arguments, are refused") {
  Handles handles;
  ocellus_session* s = handles.session;
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  ocellus_generate_stats stats;
  const int32_t token = 5;
  const ocellus_frame frame = {};
  CHECK(ocellus_session_reset(nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_begin_turn(nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_end_turn(nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_add_text(nullptr, "x", 1, 0) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_add_text(s, nullptr, 1, 0) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_add_text(s, "x", -1, 0) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_add_tokens(s, nullptr, 1) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_add_tokens(s, &token, -1) == OCELLUS_BAD_ARGUMENT);
  for (const int32_t bad : {-1, 1 << 30}) CHECK(ocellus_session_add_tokens(s, &bad, 1) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_add_image(nullptr, &frame) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_add_image(s, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_add_encoded_image(s, nullptr, 1) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_add_encoded_image(s, "x", -1) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_add_encoded_image(s, "x", 0) == OCELLUS_BAD_IMAGE);
  CHECK(ocellus_session_generate(nullptr, &params, &stats) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_generate(s, nullptr, &stats) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_generate(s, &params, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "nothing to answer"));
  CHECK(ocellus_batch_generate(nullptr, &params, &stats, 1) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_batch_generate(&s, nullptr, &stats, 1) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_batch_generate(&s, &params, nullptr, 1) == OCELLUS_BAD_ARGUMENT);
  for (const int32_t count : {0, -1}) CHECK(ocellus_batch_generate(&s, &params, &stats, count) == OCELLUS_BAD_ARGUMENT);
  ocellus_session* const twice[2] = {s, s};
  const ocellus_generate_params two_params[2] = {params, params};
  ocellus_generate_stats two_stats[2];
  CHECK(ocellus_batch_generate(twice, two_params, two_stats, 2) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "twice"));

  REQUIRE(ocellus_session_add_text(s, "A", 1, 0) == OCELLUS_OK);
  for (int32_t ocellus_generate_params::*field :
       {&ocellus_generate_params::max_tokens, &ocellus_generate_params::top_k}) {
    ocellus_generate_params bad = params;
    bad.*field = -1;
    CHECK(ocellus_session_generate(s, &bad, &stats) == OCELLUS_BAD_ARGUMENT);
  }
  CHECK(ocellus_session_generate(s, &params, nullptr) == OCELLUS_OK);  // bad parameters cost nothing
}

TEST_CASE("an answer is cut into tokens and scored") {
  Handles handles;
  const char* answer = "Blue.";
  int32_t tokens[8] = {-7, -7, -7, -7, -7, -7, -7, -7}, count = 0, plain = 0;
  REQUIRE(ocellus_model_tokenize(handles.model, answer, 5, OCELLUS_TEXT_ANSWER, tokens, 2, &count) == OCELLUS_OK);
  CHECK(count == 3);
  CHECK(tokens[1] != -7);
  CHECK(tokens[2] == -7);  // there was no room
  REQUIRE(ocellus_model_tokenize(handles.model, answer, 5, OCELLUS_TEXT_ANSWER, tokens, 8, &count) == OCELLUS_OK);
  REQUIRE(ocellus_model_tokenize(handles.model, answer, 5, 0, nullptr, 0, &plain) == OCELLUS_OK);
  int32_t expected = 0;
  REQUIRE(ocellus_model_count_tokens(handles.model, answer, 5, 0, &expected) == OCELLUS_OK);
  CHECK(plain == expected);

  float values[3] = {};
  ocellus_session* s = handles.session;
  CHECK(ocellus_session_score(nullptr, tokens, 1, values, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_score(s, nullptr, 1, values, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_score(s, tokens, 1, nullptr, nullptr) == OCELLUS_BAD_ARGUMENT);
  for (const int32_t bad : {0, -1})
    CHECK(ocellus_session_score(s, tokens, bad, values, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_score(s, tokens, 3, values, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "nothing to answer"));
  REQUIRE(ocellus_session_begin_turn(s) == OCELLUS_OK);
  REQUIRE(ocellus_session_add_text(s, "What color is it?", 17, 0) == OCELLUS_OK);
  REQUIRE(ocellus_session_end_turn(s) == OCELLUS_OK);
  ocellus_generate_stats stats;
  REQUIRE(ocellus_session_score(s, tokens, count, values, &stats) == OCELLUS_OK);
  CHECK(stats.generated_tokens == 3);
  CHECK(stats.stop == OCELLUS_STOP_END_TOKEN);
  CHECK(stats.kv_bytes > 0);
  for (const float value : values) CHECK(value < 0);
}

TEST_CASE("bits of values are a limit of their own, and pairs without a format are refused by name") {
  Handles handles;
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  CHECK(limits.cache.kv_value_bits == 0);
  limits.cache.kv_bits = 4;
  ocellus_plan equal, pair;
  REQUIRE(ocellus_plan_memory(handles.model, &limits, &equal) == OCELLUS_OK);
  limits.cache.kv_value_bits = 2;
  REQUIRE(ocellus_plan_memory(handles.model, &limits, &pair) == OCELLUS_OK);
  // 8 layers, 4 heads, 64 slots and 64 channels of values
  CHECK(equal.kv_bytes_per_image - pair.kv_bytes_per_image == int64_t{8} * 4 * 64 * 64 * 2 / 8);
  limits.cache.kv_bits = 1;
  limits.cache.kv_value_bits = 8;
  CHECK(ocellus_plan_memory(handles.model, &limits, &pair) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "no cache format of 1-bit keys and 8-bit values"));
}

TEST_CASE("a closed session is refused and can be opened again") {
  Handles handles;
  ocellus_session* other = nullptr;
  CHECK(ocellus_session_open(handles.engine, &other) == OCELLUS_FULL);
  CHECK(last_error_says(OCELLUS_FULL, "sessions"));
  ocellus_session_close(handles.session);
  CHECK(ocellus_session_add_text(handles.session, "x", 1, 0) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "ocellus_session_add_text: the session is closed"));
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  ocellus_generate_stats stats;
  CHECK(ocellus_session_generate(handles.session, &params, &stats) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_batch_generate(&handles.session, &params, &stats, 1) == OCELLUS_BAD_ARGUMENT);
  ocellus_session_close(handles.session);
  ocellus_session_cancel(handles.session);  // the session is closed: its next owner must not see it
  CHECK(ocellus_session_open(handles.engine, &other) == OCELLUS_OK);
  CHECK(ocellus_session_add_text(other, "x", 1, 0) == OCELLUS_OK);
}

TEST_CASE("structs that were not initialised are refused by the function that fills them") {
  Handles handles;
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.struct_bytes -= 8;
  ocellus_plan plan;
  CHECK(ocellus_plan_memory(handles.model, &limits, &plan) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "ocellus_limits_init"));
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  ocellus_engine* engine = nullptr;
  config.struct_bytes = 0;
  CHECK(ocellus_engine_create(handles.model, &config, &engine) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "ocellus_engine_config_init"));
  ocellus_engine_config_init(&config);
  config.limits.struct_bytes = 1;
  CHECK(ocellus_engine_create(handles.model, &config, &engine) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "ocellus_limits_init"));
  CHECK(engine == nullptr);
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.struct_bytes += 8;
  CHECK(ocellus_session_generate(handles.session, &params, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "ocellus_generate_params_init"));
}

TEST_CASE("a cancellation between the calls of a prompt ends one call and no other") {
  Handles handles;
  REQUIRE(ocellus_session_begin_turn(handles.session) == OCELLUS_OK);
  ocellus_session_cancel(handles.session);
  CHECK(ocellus_session_add_text(handles.session, "x", 1, 0) == OCELLUS_CANCELLED);
  CHECK(last_error_says(OCELLUS_CANCELLED, "cancelled"));
  CHECK(ocellus_session_add_text(handles.session, "x", 1, 0) == OCELLUS_OK);
  ocellus_session_set_deadline(handles.session, 1);
  CHECK(ocellus_session_add_text(handles.session, "x", 1, 0) == OCELLUS_DEADLINE);
  ocellus_session_set_deadline(handles.session, 0);
  CHECK(ocellus_session_add_text(handles.session, "x", 1, 0) == OCELLUS_OK);
  CHECK(std::strcmp(ocellus_status_name(OCELLUS_CANCELLED), "cancelled") == 0);
  CHECK(std::strcmp(ocellus_status_name(static_cast<ocellus_status>(99)), "unknown") == 0);
}

}  // namespace ocellus
