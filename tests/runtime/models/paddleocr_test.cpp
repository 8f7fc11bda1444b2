// PaddleOCR-VL besides its goldens: sizes of pictures, its prompts, and files that lie.
#include <doctest/doctest.h>

#include <string>
#include <tuple>

#include "runtime/models/family.h"
#include "tests/support/failure.h"
#include "tests/support/small_pair.h"
#include "tests/support/temporary_file.h"
#include "tests/support/text_sink.h"
#include "tests/support/tiled_pictures.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::GgufBuilder;

/// A conversation after which the model answers. `jinja`: marks of the template.
std::string render(const char* jinja) {
  test::TextSink sink;
  MessageState state;
  MessageWriter writer(find_layout("PaddleOCR-VL", ChatTemplate::kPaddleOcr, jinja), state, sink);
  for (const auto& [role, text] : {std::tuple(Role::kSystem, "S"), std::tuple(Role::kUser, "OCR:"),
                                   std::tuple(Role::kAnswer, "A1"), std::tuple(Role::kUser, "Table Recognition:")}) {
    REQUIRE(writer.begin(role).ok());
    REQUIRE(writer.add_text(text, false).ok());
  }
  REQUIRE(writer.end().ok());
  REQUIRE(writer.open_answer().ok());
  return sink.text;
}

/// The size of a picture's view by the limits of a published shape.
Size size_by(const char* shape, Size picture) {
  Model model;
  REQUIRE_MESSAGE(model.open_shape(shape, "F16", 1).ok(), last_failure().sentence);
  const PreprocessConfig config = preprocess_config(model.vision(), test::family_limits());
  return testing::plan_of(config, picture.width, picture.height).view_size();
}

GgufBuilder builder_of(const std::string& path) {
  GgufFile file;
  REQUIRE(file.open(path.c_str()).ok());
  return GgufBuilder(file);
}

/// Opens the tiny pair with one of its files changed.
Status open_with(const GgufBuilder* text, const GgufBuilder* mmproj) {
  const test::ModelPair pair = test::family_pair("paddleocr");
  const test::TemporaryFile changed(text != nullptr ? *text : *mmproj);
  Model model;
  test::clear_failure();
  return text != nullptr ? model.open(changed.path().c_str(), pair.mmproj.c_str())
                         : model.open(pair.model.c_str(), changed.path().c_str());
}

void check_refused(const GgufBuilder* text, const GgufBuilder* mmproj, Code code, const std::string& says) {
  CAPTURE(says);
  CHECK(open_with(text, mmproj).code() == code);
  const std::string sentence = last_failure().sentence;
  CHECK_MESSAGE(sentence.find(says) != std::string::npos, sentence);
}

}  // namespace

TEST_CASE("pictures of PaddleOCR-VL get the sizes that the published code gives them") {
  struct Sizes {
    Size picture, first, later;  // as smart_resize of transformers 5.24 has them by the limits of either version
  };
  for (const Sizes& sizes : {Sizes{{640, 480}, {644, 476}, {644, 476}},
                             {{1920, 1080}, {1932, 1092}, {1316, 728}},
                             {{4000, 3000}, {1932, 1428}, {1148, 840}},
                             {{720, 560}, {728, 560}, {728, 560}},
                             {{100, 40}, {616, 252}, {532, 224}},
                             {{31, 300}, {140, 1204}, {112, 1064}},
                             {{20, 2000}, {56, 3864}, {56, 3360}},
                             {{3, 50}, {112, 1568}, {84, 1400}},
                             {{300, 5}, {2996, 56}, {2604, 56}},
                             {{5, 3}, {504, 308}, {448, 280}},
                             {{1, 1}, {392, 392}, {336, 336}}}) {
    CAPTURE(sizes.picture.width);
    CAPTURE(sizes.picture.height);
    CHECK(size_by("PaddleOCR-VL-1.0", sizes.picture) == sizes.first);
    CHECK(size_by("PaddleOCR-VL-1.5", sizes.picture) == sizes.later);
  }
}

TEST_CASE("answers of PaddleOCR-VL follow a space in its first files, and a line break in later ones") {
  CHECK(render("\"Assistant: \"") ==
        "<|begin_of_sentence|>S\nUser: OCR:\nAssistant: A1</s>User: Table Recognition:\nAssistant: ");
  CHECK(render("\"Assistant:\\n\"") ==
        "<|begin_of_sentence|>S\nUser: OCR:\nAssistant:\nA1</s>User: Table Recognition:\nAssistant:\n");
}

TEST_CASE("files of PaddleOCR-VL as llama.cpp writes them are read") {
  GgufBuilder file = builder_of(test::family_pair("paddleocr").mmproj);
  test::set_count(file, "clip.vision.image_size", 67);  // no multiple of a row's side
  CHECK(open_with(nullptr, &file).ok());
  for (const char* key : {"clip.vision.image_min_pixels", "clip.vision.image_max_pixels"}) file.remove(key);
  CHECK(open_with(nullptr, &file).ok());
  GgufBuilder text = builder_of(test::family_pair("paddleocr").model);
  for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
    for (const char* layer : {"blk.0.", "blk.1."})
      text.remove_tensor(std::string(layer) + part + ".bias");  // the published model has none
  CHECK(open_with(&text, nullptr).ok());
}

TEST_CASE("files of PaddleOCR-VL that lie are refused with the key or tensor at fault") {
  const test::ModelPair pair = test::family_pair("paddleocr");
  SUBCASE("tensors that are missing") {
    for (const char* name : {"v.position_embd.weight", "v.post_ln.weight", "v.post_ln.bias", "mm.input_norm.weight",
                             "mm.input_norm.bias", "mm.1.weight", "mm.1.bias", "mm.2.weight", "v.blk.0.ln2.bias"}) {
      GgufBuilder file = builder_of(pair.mmproj);
      file.remove_tensor(name);
      check_refused(nullptr, &file, Code::kBadFile, "'" + std::string(name) + "' is missing");
    }
  }
  SUBCASE("a table of positions that is no square, or has rows of another width") {
    GgufBuilder file = builder_of(pair.mmproj);
    file.tensor("v.position_embd.weight").ne[1] = 35;
    file.tensor("v.position_embd.weight").data.resize(35 * 8 * sizeof(float));
    check_refused(nullptr, &file, Code::kBadFile, "has 35 rows, which form no square");
    file.tensor("v.position_embd.weight").ne[1] = 36;
    file.tensor("v.position_embd.weight").ne[0] = 4;
    file.tensor("v.position_embd.weight").data.resize(36 * 4 * sizeof(float));
    check_refused(nullptr, &file, Code::kBadFile, "'v.position_embd.weight' has");
  }
  SUBCASE("sizes that do not fit") {
    GgufBuilder file = builder_of(pair.mmproj);
    test::set_count(file, "clip.vision.image_max_pixels", 63);
    check_refused(nullptr, &file, Code::kBadFile, "clip.vision.image_max_pixels is 63, less than the 64 of one row");
    GgufBuilder small = builder_of(pair.mmproj);
    test::set_count(small, "clip.vision.image_size", 7);
    check_refused(nullptr, &small, Code::kBadFile, "clip.vision.image_size 7 is less than the 8 pixels of a row");
  }
  SUBCASE("sections that are missing, too many, or of another head") {
    const std::string key = "paddleocr.rope.dimension_sections";
    GgufBuilder file = builder_of(pair.model);
    file.remove(key);
    check_refused(&file, nullptr, Code::kBadFile, key);
    file.add_i32_array(key, {2, 3, 2, 0});
    check_refused(&file, nullptr, Code::kBadFile, "rope.dimension_sections");
    test::without(file, key).add_i32_array(key, {2, 3, 3, 1});
    check_refused(&file, nullptr, Code::kUnsupported, "rope.dimension_sections holds 1 for a fourth coordinate");
  }
}

}  // namespace ocellus
