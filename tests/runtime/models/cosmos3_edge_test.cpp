// Cosmos3-Edge besides its goldens: sizes of pictures and of frames, which frames of a video it takes, its prompts, and
// files that lie.
#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <vector>

#include "mm/views/clip_views.h"
#include "runtime/models/family.h"
#include "tests/support/failure.h"
#include "tests/support/small_pair.h"
#include "tests/support/temporary_file.h"
#include "tests/support/text_sink.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::GgufBuilder;
using test::TextSink;

Size size_of(const PreprocessConfig& config, Size picture) {
  return testing::plan_of(config, picture.width, picture.height).view_size();
}

std::vector<int32_t> sample(int32_t frame_count, double duration, int32_t most) {
  std::vector<int32_t> indices(static_cast<size_t>(most));
  const ClipRules& clips = find_family("Cosmos3-Edge").clips;
  indices.resize(static_cast<size_t>(clips.sample(frame_count, duration, most, indices.data())));
  return indices;
}

using Messages = std::vector<std::tuple<Role, const char*>>;

/// A conversation after which the model answers. `jinja`: marks of the template.
std::string render(const char* jinja, const Messages& messages) {
  TextSink sink;
  MessageState state;
  MessageWriter writer(find_layout("Cosmos3-Edge", ChatTemplate::kChatMl, jinja), state, sink);
  for (const auto& [role, text] : messages) {
    REQUIRE(writer.begin(role).ok());
    REQUIRE(writer.add_text(text, false).ok());
  }
  REQUIRE(writer.end().ok());
  REQUIRE(writer.open_answer().ok());
  return sink.text;
}

void check_refused(GgufBuilder& file, const std::string& says) {
  CAPTURE(says);
  const test::TemporaryFile mmproj(file);
  Model model;
  test::clear_failure();
  CHECK(model.open(test::family_pair("cosmos3-edge").model.c_str(), mmproj.c_str()).code() == Code::kBadFile);
  const std::string sentence = last_failure().sentence;
  CHECK_MESSAGE(sentence.find(says) != std::string::npos, sentence);
}

}  // namespace

TEST_CASE("pictures and frames of Cosmos3-Edge get the sizes that the published code gives them") {
  Model model;
  REQUIRE_MESSAGE(model.open_shape("Cosmos3-Edge", "Q8_0").ok(), last_failure().sentence);
  // As smart_resize of transformers 5.24 has them, at most 1280 rows a picture and 24576 a clip.
  const PreprocessConfig pictures = preprocess_config(model.vision(), test::family_limits());
  CHECK(size_of(pictures, {640, 480}) == Size{640, 480});
  CHECK(size_of(pictures, {1920, 1080}) == Size{1504, 832});
  CHECK(size_of(pictures, {4000, 3000}) == Size{1312, 960});
  CHECK(size_of(pictures, {720, 560}) == Size{704, 576});
  CHECK(size_of(pictures, {100, 40}) == Size{416, 192});
  CHECK(size_of(pictures, {31, 300}) == Size{96, 800});
  CHECK(size_of(pictures, {20, 2000}) == Size{32, 3200});
  CHECK(size_of(pictures, {4, 700}) == Size{32, 5600});
  CHECK(size_of(pictures, {5, 3}) == Size{352, 224});
  CHECK(size_of(pictures, {1, 1}) == Size{256, 256});
  const auto frame = [&](int32_t frames, Size size) {
    ocellus_limits limits = test::family_limits(0);
    limits.max_clip_frames = frames;
    limits.max_image_rows = 16384;
    return size_of(of_clip(preprocess_config(model.vision(), limits)), size);
  };
  CHECK(frame(4, {640, 480}) == Size{640, 480});
  CHECK(frame(4, {1920, 1080}) == Size{1920, 1088});
  CHECK(frame(16, {1920, 1080}) == Size{1664, 928});
  CHECK(frame(64, {1920, 1080}) == Size{832, 448});
  CHECK(frame(768, {1920, 1080}) == Size{224, 128});
  CHECK(frame(4, {100, 40}) == Size{96, 32});
  CHECK(frame(4, {5, 3}) == Size{64, 32});
  CHECK(frame(4, {31, 300}) == Size{32, 320});
}

TEST_CASE("Cosmos3-Edge takes two frames a second, each with its time") {
  using Indices = std::vector<int32_t>;
  CHECK(sample(90, 3.0, 768) == Indices{0, 18, 36, 53, 71, 89});
  CHECK(sample(75, 2.5, 768) == Indices{0, 18, 37, 56, 74});
  CHECK(sample(5, 0.2, 768) == Indices{0, 1, 3, 4});
  CHECK(sample(3, 0.1, 768) == Indices{0, 1, 2});
  CHECK(sample(1, 0.04, 768) == Indices{0});
  const double seconds[] = {0.25, 61.75, 3600};
  ClipText text;
  for (const auto& [at, says] : {std::tuple(0, "<0.2 seconds>"), {1, "<61.8 seconds>"}, {2, "<3600.0 seconds>"}}) {
    find_family("Cosmos3-Edge").clips.write_before({3, seconds, 0}, at, &text);
    CHECK(std::string(text.text) == says);
  }
}

TEST_CASE("conversations of Cosmos3-Edge begin with a system message, and answers that were given with no thought") {
  const Messages turns = {{Role::kUser, " Q1 "}, {Role::kAnswer, " A1\n"}, {Role::kUser, "Q2"}};
  CHECK(render("'<think></think>'", turns) ==
        "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n Q1 <|im_end|>\n<|im_start|>assistant\n<think></think>A1"
        "<|im_end|>\n<|im_start|>user\nQ2<|im_end|>\n<|im_start|>assistant\n");
  CHECK(render("", {{Role::kSystem, "S"}, {Role::kUser, "Q1"}, {Role::kAnswer, "A1"}, {Role::kSystem, "T"}}) ==
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ1<|im_end|>\n<|im_start|>assistant\nA1<|im_end|>\n"
        "<|im_start|>system\nT<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("files of Cosmos3-Edge that lie are refused with the key or tensor at fault") {
  GgufFile opened;
  REQUIRE(opened.open(test::family_pair("cosmos3-edge").mmproj.c_str()).ok());
  for (const char* name : {"v.position_embd.weight", "v.post_ln.weight", "mm.input_norm.weight", "mm.input_norm.bias",
                           "mm.0.weight", "mm.2.weight", "v.blk.1.ln2.bias"}) {
    GgufBuilder file(opened);
    file.remove_tensor(name);
    check_refused(file, "'" + std::string(name) + "' is missing");
  }
  GgufBuilder merged(opened);
  test::set_count(merged, "clip.vision.spatial_merge_size", 1);
  check_refused(merged, "'mm.0.weight' has shape");
  GgufBuilder norm(opened);
  norm.tensor("mm.input_norm.weight").ne[0] = 8;
  norm.tensor("mm.input_norm.weight").data.resize(8 * sizeof(float));
  check_refused(norm, "'mm.input_norm.weight' has 1 x 8 values, but 16 are needed");
}

}  // namespace ocellus
