// Clips in `ocellus watch`: which ones a model takes, their plan, and answers about them.
#include <doctest/doctest.h>

#include "apps/base/failure.h"
#include "apps/watch/clip_pace.h"
#include "apps/watch/narrator.h"

namespace ocellus::app {
namespace {

constexpr int32_t kWidth = 64, kHeight = 48;
constexpr int64_t kSecond = 1'000'000'000;

CommonOptions tiny_pair(const std::string& family) {
  const std::string folder = OCELLUS_SOURCE_DIR "/tests/data/families/" + family;
  CommonOptions options;
  options.model.path = folder + "/model.gguf";
  options.model.mmproj_path = folder + "/mmproj.gguf";
  options.limits.device = OCELLUS_DEVICE_CPU;
  options.params.max_tokens = 8;
  options.quiet = true;
  return options;
}

std::string refusal(const Model& model, const ClipWish& wish) {
  try {
    choose_clip_pace(model, wish);
  } catch (const Failure& failure) {
    CHECK(failure.exit_code() == kExitUsage);
    return failure.what();
  }
  return "";
}

TEST_CASE("clips have the model's rate unless another one is given, and whole pairs") {
  const Model pairs = open_model(tiny_pair("qwen3-vl")), singles = open_model(tiny_pair("smolvlm"));
  CHECK(choose_clip_pace(pairs, {}).frames == 0);
  const ClipPace pace = choose_clip_pace(pairs, {.frames = 4});
  CHECK(pace.frames == 4);
  CHECK(pace.group == 2);
  CHECK(pace.frames_per_second == 2);
  CHECK(choose_clip_pace(pairs, {.frames = 4, .frames_per_second = 30}).frames_per_second == 30);
  CHECK(choose_clip_pace(singles, {.frames = 3}).frames_per_second == 1);
  CHECK(choose_clip_pace(singles, {.frames = 3}).group == 1);
  CHECK(refusal(pairs, {.frames = 3}) == "--clip-frames 3: the model reads frames in pairs; give an even number.");
}

TEST_CASE("what takes no clips is refused in a sentence that names both") {
  CHECK(refusal(open_model(tiny_pair("llava-1.5")), {.frames = 2}) ==
        "--clip-frames 2: the model takes no clips; without the flag each frame is a picture.");
  CHECK(
      refusal(open_model(tiny_pair("qwen3-vl")), {.frames = 2, .with_rolling_memory = true}) ==
      "--clip-frames 2 does not go with --memory rolling, which reads frames one by one as they come: leave one out.");
}

Frame frame_at(double second, uint8_t shade) {
  Frame frame;
  frame.kind = FrameKind::kPixels;
  frame.pixel_format = OCELLUS_RGB8;
  frame.width = kWidth;
  frame.height = kHeight;
  frame.captured_ns = kSecond + static_cast<int64_t>(second * 1e9);
  for (int32_t i = 0; i < 3 * kWidth * kHeight; ++i) frame.bytes.push_back(static_cast<uint8_t>(shade * (i % 97)));
  return frame;
}

struct Watching {
  explicit Watching(const std::string& family, int32_t clip_frames, int32_t memory_frames = 2)
      : model(open_model(tiny_pair(family))), options(options_for(model, family, clip_frames)) {
    settings.frames = memory_frames;
  }
  static NarratorOptions options_for(const Model& model, const std::string& family, int32_t clip_frames) {
    return {.common = tiny_pair(family),
            .memory = clip_frames > 0 ? MemoryKind::kClip : MemoryKind::kReplay,
            .clips = choose_clip_pace(model, {.frames = clip_frames}),
            .image_pixels = kWidth * kHeight};
  }
  int64_t kv_bytes() const { return bytes_of("kv image blocks"); }
  int64_t bytes_of(const std::string& row) const {
    const ocellus_plan plan = Narrator::plan(model, options, settings);
    for (int32_t i = 0; i < plan.row_count; ++i) {
      if (row == plan.rows[i].name) return plan.rows[i].bytes;
    }
    return 0;
  }
  Model model;
  NarratorOptions options;
  WatchSettings settings;
};

TEST_CASE("a pair is planned as one picture, for the larger of a caption's clip and the memory") {
  const int64_t pair = Watching("qwen3-vl", 2, 2).kv_bytes();
  CHECK(pair > 0);
  CHECK(Watching("qwen3-vl", 2, 1).kv_bytes() == pair);
  CHECK(Watching("qwen3-vl", 2, 8).kv_bytes() == 4 * pair);
  CHECK(Watching("qwen3-vl", 8, 2).kv_bytes() == 4 * pair);
  CHECK(Watching("smolvlm", 2, 8).kv_bytes() == 4 * Watching("smolvlm", 2, 2).kv_bytes());
}

TEST_CASE("a caption is about the clip, with the times of its frames") {
  Watching watching("qwen3-vl", 2);
  Narrator narrator(watching.model, watching.options, watching.settings);
  const Frame first = frame_at(0, 1), second = frame_at(1, 5), late = frame_at(9, 5);
  const auto caption = [&](const std::vector<const Frame*>& frames) {
    const TurnPart shown = {.frame = frames.back(), .clip = make_clip(frames)};
    const TurnAnswer answer = narrator.caption(shown, "What is it?", 0, nullptr);
    CHECK(answer.status == OCELLUS_OK);
    CHECK(answer.stats.image_tokens == 12);  // 4 x 3 rows, of a pair or of a frame alone
    return answer.text;
  };
  const std::string both = caption({&first, &second});
  CHECK(both == caption({&first, &second}));
  CHECK(both != caption({&second}));
  CHECK(both != caption({&second, &first}));
  CHECK(both != caption({&first, &late}));
}

TEST_CASE("a question is about the frames in memory as one clip, and names those whose time is in the answer") {
  Watching watching("qwen3-vl", 2, 3);
  Narrator narrator(watching.model, watching.options, watching.settings);
  FrameMemory& memory = narrator.memory();
  const auto ask = [&] {
    QuestionAnswer answer;
    memory.ask("What changed?", narrator.options(), nullptr, {}, &answer);
    CHECK(answer.tokens > 0);
    std::vector<double> seconds;
    for (const AskedFrame& frame : answer.frames) seconds.push_back(frame.seconds.value_or(-1));
    return seconds;
  };
  for (int64_t i = 0; i < 5; ++i) {
    const Frame frame = frame_at(static_cast<double>(i * i), static_cast<uint8_t>(i));
    memory.remember(i + 1, frame.captured_ns, frame);
  }
  CHECK(ask() == std::vector<double>{0, 5, 12});
  CHECK(memory.frame_bytes() == 3 * 3 * kWidth * kHeight);
  Frame small = frame_at(30, 1);
  small.width = kWidth / 2;
  small.bytes.resize(small.bytes.size() / 2);
  memory.remember(6, small.captured_ns, small);
  CHECK(ask() == std::vector<double>{0});  // frames of other sizes are in no clip with it
}

TEST_CASE("the record of a clip holds its frames and their times") {
  Record record;
  CHECK_FALSE(record_json(record).contains("clip"));
  record.clip = {{.sequence = 3, .captured_ns = kSecond}, {.sequence = 9, .captured_ns = 2 * kSecond, .seconds = 1}};
  const auto json = record_json(record);
  REQUIRE(json["clip"].size() == 2);
  CHECK(json["clip"][0]["sequence"] == 3);
  CHECK(json["clip"][1]["capture_ns"] == 2 * kSecond);
  CHECK(json["clip"][1]["seconds"] == 1);
  CHECK(json["clip"][1]["at_ms"].get<int64_t>() - json["clip"][0]["at_ms"].get<int64_t>() >= 999);
  QuestionAnswer answer;
  answer.frames = {{.id = 1}, {.id = 2, .seconds = 0.5}};
  CHECK_FALSE(question_answer_json(answer)["frames"][0].contains("seconds"));
  CHECK(question_answer_json(answer)["frames"][1]["seconds"] == 0.5);
}

}  // namespace
}  // namespace ocellus::app
