// Clips: the words around their frames and which frames of a video those are, what is refused and leaves the session as
// it was, what a clip takes by the plan, and the cache methods on clips.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "runtime/branches/reduce/picture_reduction.h"
#include "runtime/branches/roll/roll.h"
#include "runtime/models/family.h"
#include "tests/support/clips.h"
#include "tests/support/packed_sessions.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::bound_on;
using test::error_of;
using test::family_limits;
using test::TestClip;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ocellus_limits clip_limits(int32_t frames) {
  ocellus_limits limits = family_limits(0);
  limits.max_clip_frames = frames;
  return limits;
}

Status add(Session& session, TestClip& clip, int32_t* failed) {
  const char question[] = "What is on the left?";
  const ocellus_part parts[] = {clip.part(), {OCELLUS_PART_TEXT, 0, question, sizeof question - 1, nullptr, nullptr}};
  return session.add_parts(parts, 2, failed);
}
void add(Session& session, TestClip& clip) {
  int32_t failed = 0;
  REQUIRE_MESSAGE(add(session, clip, &failed).ok(), last_failure().sentence);
}

/// Frames of different shapes, two a second.
void fill(TestClip& clip, int32_t frames) {
  for (int32_t i = 0; i < frames; ++i) clip.add_frame(0.5 * i, 40 + i, 31);
}

/// A clip of three frames and a question about it.
struct Talk {
  Talk(const Model& model, const ocellus_limits& limits) : engine(test::make_engine(model, limits)) {
    session = &test::open_session(*engine);
    TestClip clip;
    fill(clip, 3);
    add(*session, clip);
    logits = test::first_logits(*session);
    answer = test::answer_of(*session, test::default_params(8));
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    CHECK(answer.stats.image_count == 3);
  }
  std::unique_ptr<Engine> engine;
  Session* session = nullptr;
  std::vector<float> logits;
  test::Answer answer;
};

/// A session that clips are added to which cannot be.
class Refusals {
 public:
  Refusals()
      : model_(test::open_tiny_family("smolvlm")),
        engine_(test::make_engine(*model_, clip_limits(4))),
        all_(*engine_),
        session_(test::open_session(*engine_)) {}
  /// The status of a prompt whose clip of three frames was changed; the sentence says this.
  template <class Change>
  Code operator()(const char* says, Change change) const {
    CAPTURE(says);
    TestClip clip;
    fill(clip, 3);
    ocellus_part part = clip.part();
    change(clip, part);
    const int64_t rows = engine_->memory().chunk.row_count;
    const ocellus_part parts[] = {{OCELLUS_PART_TEXT, 0, "Look: ", 6, nullptr, nullptr}, part};
    int32_t failed = -1;
    const Status status = session_.add_parts(parts, 2, &failed);
    CHECK(failed == 1);
    CHECK(engine_->memory().chunk.row_count == rows);
    const std::string sentence = last_failure().sentence;
    CHECK_MESSAGE(sentence.find(says) != std::string::npos, sentence);
    return status.code();
  }

  void check_unharmed() const {
    TestClip good;
    fill(good, 3);
    add(session_, good);
    CHECK(test::first_logits(session_) == Talk(*model_, clip_limits(4)).logits);
    session_.reset();
    CHECK(test::FreeBlocks(*engine_) == all_);
  }

 private:
  std::unique_ptr<Model> model_;
  std::unique_ptr<Engine> engine_;
  test::FreeBlocks all_;
  Session& session_;
};

/// What is said before a frame of a clip.
std::string before(int32_t frames, int32_t frame, double second, double duration = 0) {
  ClipText text;
  std::vector<double> seconds(static_cast<size_t>(frames), second);
  find_family("SmolVLM").clips.write_before({frames, seconds.data(), duration}, frame, &text);
  return text.text;
}

std::vector<int32_t> sample(const Model& model, int32_t frame_count, double duration, int32_t most,
                            ocellus_clip_sampling sampling = OCELLUS_CLIP_AS_AUTHORS) {
  std::vector<int32_t> indices(static_cast<size_t>(most));
  int32_t count = 0;
  REQUIRE_MESSAGE(sample_clip(model, sampling, frame_count, duration, most, indices.data(), &count).ok(),
                  last_failure().sentence);
  indices.resize(static_cast<size_t>(count));
  return indices;
}

/// A video and the frames that another program takes of it: their number, and a sum in which each place counts.
struct Sampled {
  int32_t frames;
  double rate;
  int32_t most, count;
  uint32_t sum;
};

void check_samples(const char* family, ocellus_clip_sampling sampling, std::span<const Sampled> videos) {
  const std::unique_ptr<Model> model = test::open_tiny_family(family);
  for (const Sampled& video : videos) {
    CAPTURE(video.frames);
    CAPTURE(video.rate);
    const std::vector<int32_t> indices = sample(*model, video.frames, video.frames / video.rate, video.most, sampling);
    CHECK(std::ssize(indices) == video.count);
    const auto add = [](uint32_t sum, int32_t index) { return sum * 31 + static_cast<uint32_t>(index); };
    CHECK(std::accumulate(indices.begin(), indices.end(), 0u, add) == video.sum);
  }
}

}  // namespace

TEST_CASE("the words around a clip's frames are those of transformers' processor") {
  const auto counted = [](int32_t frames) {
    const std::string text = before(frames, 0, 0), start = "You are provided the following series of ";
    REQUIRE(text.rfind(start, 0) == 0);
    return text.substr(start.size(),
                       text.find(" frames from a 0:00:00 [H:MM:SS] video.\n\nFrame from 00:00:") - start.size());
  };
  // As num2words 0.5.14 has them.
  const std::pair<int32_t, const char*> kWords[] = {{1, "one"},
                                                    {13, "thirteen"},
                                                    {20, "twenty"},
                                                    {21, "twenty-one"},
                                                    {64, "sixty-four"},
                                                    {90, "ninety"},
                                                    {99, "ninety-nine"},
                                                    {100, "one hundred"},
                                                    {101, "one hundred and one"},
                                                    {110, "one hundred and ten"},
                                                    {115, "one hundred and fifteen"},
                                                    {342, "three hundred and forty-two"},
                                                    {700, "seven hundred"},
                                                    {999, "nine hundred and ninety-nine"}};
  for (const auto& [frames, words] : kWords) CHECK(counted(frames) == words);
  CHECK(before(2, 0, 61.9, 3725.5) ==
        "You are provided the following series of two frames from a 1:02:05 [H:MM:SS] video.\n\nFrame from 01:01:");
  CHECK(before(2, 1, 61.9) == "\nFrame from 01:01:");
  CHECK(before(2, 1, 86399) == "\nFrame from 1439:59:");
  CHECK(before(999, 0, 86399).size() + 1 < sizeof(ClipText::text));
}

TEST_CASE("frames of a video are those that transformers' processor takes") {
  const std::unique_ptr<Model> model = test::open_tiny_family("smolvlm");
  using Indices = std::vector<int32_t>;
  // As SmolVLMVideoProcessor.sample_frames of transformers 5.17 has them, at a frame a second.
  CHECK(sample(*model, 90, 3.0, 64) == Indices{0, 44, 89});
  CHECK(sample(*model, 1, 0.04, 64) == Indices{0});
  CHECK(sample(*model, 75, 2.5, 64) == Indices{0, 74});
  CHECK(sample(*model, 105, 3.5, 64) == Indices{0, 34, 69, 104});
  CHECK(sample(*model, 300, 10.0, 4) == Indices{30, 110, 190, 270});
  CHECK(sample(*model, 24, 1.0, 64) == Indices{0});
  CHECK(sample(*model, 10, 20.0, 64) == Indices{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(sample(*model, 150, 5.0, 1) == Indices{30});
  CHECK(sample(*model, 108000, 3600.0, 8) == Indices{30, 15450, 30870, 46290, 61710, 77130, 92550, 107970});
  CHECK(sample(*model, 7, 100.0, 5) == Indices{0, 1, 3, 4, 6});
  CHECK(sample(*model, 2, 400.0, 3) == Indices{0, 1});
  const Indices long_one = sample(*model, 3000, 100.0, 64);
  CHECK(long_one.size() == 64);
  CHECK(std::accumulate(long_one.begin(), long_one.end(), 0) == 95979);
  int32_t count = 7, index = 0;
  CHECK(sample_clip(*model, OCELLUS_CLIP_AS_AUTHORS, 0, 1, 1, &index, &count).code() == Code::kBadArgument);
  CHECK(sample_clip(*model, OCELLUS_CLIP_AS_AUTHORS, 1, kNan, 1, &index, &count).code() == Code::kBadArgument);
  CHECK(sample_clip(*model, OCELLUS_CLIP_AS_AUTHORS, 1, 86400, 1, &index, &count).code() == Code::kBadArgument);
  CHECK(sample_clip(*model, OCELLUS_CLIP_AS_AUTHORS, 1, 1, 0, &index, &count).code() == Code::kBadArgument);
  CHECK(count == 7);
}

// Of the videos drawn at random, among which were all that earlier rules sampled in another way.
TEST_CASE("clips are sampled as transformers 5.24.0 samples those of SmolVLM2, and of Gemma 4") {
  const Sampled smolvlm[] = {
      {590, 7, 64, 64, 461325221u},      {3849, 15, 64, 64, 1105783668u}, {1337, 15, 64, 64, 4291338367u},
      {2074, 30, 64, 64, 3805788639u},   {2292, 30, 64, 64, 1790727055u}, {541, 7, 64, 64, 2503350733u},
      {1992, 25, 64, 64, 857824123u},    {3609, 25, 64, 64, 1468132607u}, {10638, 60, 64, 64, 2738963294u},
      {12930, 25, 64, 64, 3485947600u},  {4149, 60, 64, 64, 3754096254u}, {11178, 30, 64, 64, 3454757876u},
      {5, 0.5, 64, 5, 31810u},           {189, 5, 16, 16, 3639321151u},   {47089, 1, 16, 16, 3015549849u},
      {1285, 1, 200, 200, 1318121481u},  {241, 5, 16, 16, 2209211612u},   {10381, 12.5, 16, 16, 1821978868u},
      {158, 12.5, 200, 13, 4158815759u}, {12742, 12.5, 1, 1, 12u}};
  const Sampled gemma4[] = {
      {300, 25, 4, 4, 76950u},         {7, 25, 5, 5, 31842u},           {3, 25, 32, 3, 33u},
      {1000, 25, 64, 32, 1426082032u}, {3001, 25, 16, 16, 1921282012u}, {122, 25, 14, 14, 2653538333u},
      {294, 25, 18, 18, 754317363u},   {183, 25, 21, 21, 2629956407u}};
  for (const ocellus_clip_sampling sampling : {OCELLUS_CLIP_AS_AUTHORS, OCELLUS_CLIP_AS_TRANSFORMERS}) {
    check_samples("smolvlm", sampling, smolvlm);
    check_samples("gemma4", sampling, gemma4);
  }
  // 590 frames at 7 a second: a second is left out at either end, which is 7 frames.
  const std::vector<int32_t> few = sample(*test::open_tiny_family("smolvlm"), 590, 590.0 / 7, 64);
  CHECK(std::vector<int32_t>(few.begin(), few.begin() + 4) == std::vector<int32_t>{7, 16, 25, 34});
}

TEST_CASE("Qwen's clips are sampled as by qwen-vl-utils 0.0.14, or by choice as by transformers 5.24.0") {
  using Indices = std::vector<int32_t>;
  const Sampled utils[] = {{25, 12.5, 768, 4, 8208u},
                           {27822, 30, 768, 768, 408571015u},
                           {29430, 10, 768, 768, 2159834287u},
                           {15095, 5, 768, 768, 4216585668u},
                           {26420, 60, 9, 8, 3043656504u},
                           {8123, 7, 9, 8, 4094704288u},
                           {9, 30, 9, 4, 3046u},
                           {25753, 7, 768, 768, 1030228839u},
                           {7, 50, 9, 4, 2052u},
                           {11, 7, 768, 4, 3110u},
                           {12083, 0.5, 64, 64, 185234296u},
                           {4, 23.976, 64, 4, 1026u},
                           {20, 0.5, 64, 20, 1804121098u},
                           {195, 29.97, 9, 8, 735000560u}};
  const Sampled qwen2[] = {
      {25, 12.5, 768, 4, 6156u},        {2008, 7, 9, 8, 1638632428u},   {1487, 12, 9, 8, 3548368711u},
      {46, 1, 64, 46, 92861463u},       {2908, 60, 64, 64, 334337836u}, {425, 29.97, 64, 28, 1248735828u},
      {369, 12.5, 64, 58, 2294932728u}, {1884, 10, 64, 64, 158438700u}, {1080, 29.97, 64, 64, 2496475928u},
      {6, 0.5, 768, 6, 986115u},        {597, 60, 9, 8, 1436734890u},   {95, 2, 64, 64, 2964193295u}};
  const Sampled qwen3[] = {
      {25, 12.5, 768, 4, 8208u},        {25, 10, 768, 5, 190860u},      {19010, 25, 64, 64, 1833249592u},
      {31, 15, 64, 4, 10260u},          {16714, 5, 9, 9, 2808075620u},  {17, 23.976, 9, 4, 5162u},
      {233, 0.5, 768, 233, 296933108u}, {28, 7, 9, 8, 3790596048u},     {57, 10, 768, 11, 3156195420u},
      {37412, 60, 9, 9, 3504815762u},   {14, 0.5, 64, 14, 1657623559u}, {321, 12.5, 64, 51, 1372097760u},
      {6361, 7, 768, 768, 4120664876u}};
  for (const char* const family : {"qwen2-vl", "qwen2.5-vl", "qwen3-vl"}) {
    CAPTURE(family);
    const bool is_third = std::string(family) == "qwen3-vl";
    check_samples(family, OCELLUS_CLIP_AS_AUTHORS, utils);
    check_samples(family, OCELLUS_CLIP_AS_TRANSFORMERS, is_third ? std::span<const Sampled>(qwen3) : qwen2);
    const std::unique_ptr<Model> model = test::open_tiny_family(family);
    CHECK(sample(*model, 25, 2, 768) == Indices{0, 8, 16, 24});
    CHECK(sample(*model, 25, 2, 768, OCELLUS_CLIP_AS_TRANSFORMERS) ==
          (is_third ? Indices{0, 8, 16, 24} : Indices{0, 6, 12, 18}));
    CHECK(sample(*model, 1, 0.5, 768, OCELLUS_CLIP_AS_TRANSFORMERS) == Indices{0});
    int32_t index = 0, count = 0;
    CHECK(sample_clip(*model, 2, 1, 1, 1, &index, &count).code() == Code::kBadArgument);
  }
}

TEST_CASE("a clip whose times cannot be is refused by one sentence and leaves the session as it was") {
  const Refusals refused;
  for (const double second : {kNan, kInfinity, -0.5, 86400.0}) {
    const auto time = [&](TestClip& clip, ocellus_part&) { clip.seconds[2] = second; };
    CHECK(refused("the time of a clip's frame must be 0 to less than 86400 seconds", time) == Code::kBadArgument);
    const auto duration = [&](TestClip& clip, ocellus_part&) { clip.clip.duration = second; };
    CHECK(refused("the duration of a clip must be 0 to less than 86400 seconds", duration) == Code::kBadArgument);
  }
  const auto none = [](TestClip& clip, ocellus_part&) { clip.clip.seconds = nullptr; };
  CHECK(refused("a clip has frames and their times, not null", none) == Code::kBadArgument);
  const auto back = [](TestClip& clip, ocellus_part&) { clip.seconds[2] = 0.25; };
  CHECK(refused("the times of a clip go back: frame 2 at 0.5 s, frame 3 at 0.25 s", back) == Code::kBadArgument);
  const auto brief = [](TestClip& clip, ocellus_part&) { clip.clip.duration = 0.75; };
  CHECK(refused("a clip of 0.75 s has a frame at 1 s", brief) == Code::kBadArgument);
  refused.check_unharmed();
}

TEST_CASE("a clip whose frames cannot be is refused by one sentence and leaves the session as it was") {
  const Refusals refused;
  const auto none = [](TestClip&, ocellus_part& part) { part.clip = nullptr; };
  CHECK(refused("a part that is a clip has none", none) == Code::kBadArgument);
  for (const int32_t count : {0, -1, 1000}) {
    const auto change = [&](TestClip& clip, ocellus_part&) { clip.clip.frame_count = count; };
    CHECK(refused("a clip has 1 to 999 frames, not ", change) == Code::kBadArgument);
  }
  const auto no_frames = [](TestClip& clip, ocellus_part&) { clip.clip.frames = nullptr; };
  CHECK(refused("a clip has frames and their times, not null", no_frames) == Code::kBadArgument);
  const auto text = [](TestClip& clip, ocellus_part&) { clip.frames[1].kind = OCELLUS_PART_TEXT; };
  CHECK(refused("frame 2 of the clip is no picture but a part of kind 0", text) == Code::kBadArgument);
  const auto itself = [](TestClip& clip, ocellus_part&) { clip.frames[0].kind = OCELLUS_PART_CLIP; };
  CHECK(refused("frame 1 of the clip is no picture but a part of kind 3", itself) == Code::kBadArgument);
  const auto empty = [](TestClip& clip, ocellus_part&) { clip.frames[2].frame = nullptr; };
  CHECK(refused("frame 3 of the clip: a part that is a frame has none", empty) == Code::kBadArgument);
  ocellus_frame nothing = {};
  const auto no_size = [&](TestClip& clip, ocellus_part&) {
    nothing = *clip.frames[2].frame;
    nothing.width = 0;
    clip.frames[2].frame = &nothing;
  };
  CHECK(refused("frame 3 of the clip: ", no_size) == Code::kBadImage);
  const auto no_picture = [](TestClip& clip, ocellus_part&) {
    clip.frames[1] = {OCELLUS_PART_IMAGE, 0, "\xff\xd8\xff", 3, nullptr, nullptr};
  };
  CHECK(refused("frame 2 of the clip: ", no_picture) == Code::kBadImage);
  TestClip many;
  fill(many, 5);
  const auto too_many = [&](TestClip&, ocellus_part& part) { part = many.part(); };
  CHECK(refused("a clip has 5 frames, and 4 were planned: plan more frames of clips", too_many) == Code::kFull);
  refused.check_unharmed();
}

TEST_CASE("clips are refused where none were planned, and by families that take none") {
  const std::unique_ptr<Model> smolvlm = test::open_tiny_family("smolvlm");
  const std::unique_ptr<Engine> engine = test::make_engine(*smolvlm, family_limits(3));
  TestClip clip;
  fill(clip, 1);
  int32_t failed = -1;
  CHECK(add(test::open_session(*engine), clip, &failed).code() == Code::kFull);
  CHECK(std::string(last_failure().sentence) == "a clip has 1 frame, and 0 were planned: plan more frames of clips");

  const std::unique_ptr<Model> llava = test::open_tiny_family("llava-1.5");
  ocellus_plan plan;
  CHECK(plan_memory(*llava, clip_limits(2), &plan).code() == Code::kUnsupported);
  CHECK(std::string(last_failure().sentence) == "LLaVA-1.5 takes no clips: add the frames as pictures");
  int32_t index = 0, count = 0;
  CHECK(sample_clip(*llava, OCELLUS_CLIP_AS_AUTHORS, 1, 1, 1, &index, &count).code() == Code::kUnsupported);
  ocellus_model_facts facts;
  llava->describe(&facts);
  CHECK(facts.clip_frames == 0);
  smolvlm->describe(&facts);
  CHECK(facts.clip_frames == 64);

  ocellus_limits limits = clip_limits(1000);
  CHECK(plan_memory(*smolvlm, limits, &plan).code() == Code::kBadArgument);
  limits = clip_limits(2);
  limits.max_tiles = 2;
  CHECK(plan_memory(*smolvlm, limits, &plan).code() == Code::kBadArgument);
  CHECK(std::string(last_failure().sentence) ==
        "a clip (max_clip_frames) has frames of one view each: plan no clips, or at most one tile (max_tiles)");
}

TEST_CASE("the plan of clips is what the engine takes, and holds the longest words of so many frames") {
  const std::unique_ptr<Model> model = test::open_tiny_family("smolvlm");
  for (const int32_t frames : {1, 2, 21, 30}) {
    CAPTURE(frames);
    ocellus_limits limits = clip_limits(frames);
    limits.max_text_tokens = 1;
    ocellus_plan plan;
    REQUIRE_MESSAGE(plan_memory(*model, limits, &plan).ok(), last_failure().sentence);
    const std::unique_ptr<Engine> engine = test::make_engine(*model, limits);
    ocellus_engine_stats stats;
    engine->describe(&stats);
    CHECK(stats.arena_bytes == plan.total_bytes);
    Session& session = test::open_session(*engine);
    for (const int32_t fewer : {0, 1}) {  // words of a smaller count are longer at times
      TestClip clip;
      for (int32_t i = 0; i < std::max(frames - fewer, 1); ++i) clip.add_frame(86000 + i, 30, 20);
      session.reset();
      int32_t failed = 0;
      CHECK_MESSAGE(session.add_parts(&clip.part(), 1, &failed).ok(), last_failure().sentence);
      test::first_logits(session);
    }
    engine->describe(&stats);
    CHECK(stats.session_high_water_bytes <= plan.session_bytes);
    CHECK(stats.scratch_high_water_bytes <= plan.scratch_bytes);
  }
  // A frame is one view, an image as many as the model cuts it into.
  ocellus_plan clips, images;
  REQUIRE(plan_memory(*model, clip_limits(8), &clips).ok());
  REQUIRE(plan_memory(*model, family_limits(8), &images).ok());
  CHECK(clips.kv_bytes_per_image < images.kv_bytes_per_image / 4);
  CHECK(clips.total_bytes < images.total_bytes);
  // Without them the advice is the same as without images, and fewer frames are advised where fewer fit.
  ocellus_limits limits = clip_limits(200);
  limits.budget_bytes = clips.total_bytes;
  REQUIRE(plan_memory(*model, limits, &images).ok());
  CHECK(images.fits == 0);
  CHECK(images.images_in_budget >= 8);
  bool advised = false;
  for (int32_t i = 0; i < images.advice_count; ++i)
    advised |=
        std::string(images.advice[i].text).find("frames of clips per session instead of 200") != std::string::npos;
  CHECK(advised);
}

TEST_CASE("of a clip's frames the first stays whole, and of the others the rows that changed") {
  const std::unique_ptr<Model> model = test::open_tiny_family("smolvlm");
  const int64_t rows = model->vision().tokens_per_view();
  ocellus_limits limits = clip_limits(4);
  test::set_text(limits.reduce, "evs");
  limits.reduce_keep = 0.5f;
  const auto engine = test::make_engine(*model, limits);
  Session& session = test::open_session(*engine);
  TestClip clip;
  for (int32_t i = 0; i < 4; ++i) clip.add_frame(0.5 * i, 40, i == 2 ? 30 : 31, i == 2 ? 7 : 0);  // one differs
  add(session, clip);
  std::vector<int64_t> image_rows;
  const int64_t all_rows = engine->memory().chunk.row_count;
  for (int64_t row = 0; row < all_rows; ++row)
    if (!engine->memory().chunk.is_text(row)) image_rows.push_back(row);
  REQUIRE(std::ssize(image_rows) == 4 * rows);
  (void)test::first_logits(session);
  CHECK(session.cache().rows() == all_rows - 2 * rows);
  CHECK(session.cache().image_count() == 4);
  const int32_t* const kept = reduction_of(*engine).picks.host.data;
  const int32_t* const end = kept + session.cache().rows();
  for (int64_t i = 0; i < 2 * rows; ++i) {
    CHECK(std::binary_search(kept, end, image_rows[static_cast<size_t>(i)]) == (i < rows));
  }
  const test::Answer answer = test::answer_of(session, test::default_params(4));
  CHECK_MESSAGE(answer.status.ok(), last_failure().sentence);

  session.reset();
  TestClip brief;  // too short for a whole first frame
  brief.add_frame(0, 40, 31);
  add(session, brief);
  const int64_t brief_rows = engine->memory().chunk.row_count;
  CHECK(test::answer_of(session, test::default_params(4)).status.ok());
  CHECK(reduction_of(*engine).picks.host.data[brief_rows - rows / 2 - 1] == brief_rows - 1);
  session.reset();
  CHECK(session.add_frame(test::TestPicture(40, 31, 0).frame()).code() == Code::kUnsupported);
}

TEST_CASE("reductions of clips need clips whose frames are read together") {
  const std::unique_ptr<Model> model = test::open_tiny_family("smolvlm");
  ocellus_limits limits = clip_limits(4);
  test::set_text(limits.reduce, "evs");
  limits.reduce_keep = 0.5f;
  limits.cache.compress_at = OCELLUS_COMPRESS_IMAGE_END;
  ocellus_plan plan;
  CHECK(plan_memory(*model, limits, &plan).ok());  // nothing is compressed
  test::set_text(limits.cache.evict, "snapkv");
  limits.cache.keep = 0.5f;
  CHECK(plan_memory(*model, limits, &plan).code() == Code::kBadArgument);
}

TEST_CASE("frames of clips are packed, dropped, linked and released as pictures are") {
  const std::unique_ptr<Model> model = test::open_tiny_family("smolvlm");
  const Talk plain(*model, clip_limits(3));
  const bool on_cuda = plain.engine->queue().on_cuda();

  ocellus_limits limits = clip_limits(3);
  limits.reuse = OCELLUS_REUSE_MPIC;
  limits.reuse_rows = -1;
  const Talk linked(*model, limits);
  CHECK(error_of(linked.logits, plain.logits) < bound_on(*plain.engine, 1e-3, 2e-2));
  if (!on_cuda) CHECK(linked.answer.text == plain.answer.text);
  limits.reuse_rows = 1;
  CHECK(Talk(*model, limits).session->next_position() == plain.session->next_position());

  if (test::can_pack(*model)) {
    limits = clip_limits(3);
    limits.cache.kv_bits = 8;
    limits.cache.compress_at = OCELLUS_COMPRESS_IMAGE_END;
    CHECK(error_of(Talk(*model, limits).logits, plain.logits) < 5e-2);
  }
  limits = clip_limits(3);
  test::set_text(limits.cache.evict, "snapkv");
  limits.cache.keep = 0.5f;
  const Talk evicted(*model, limits);
  const int64_t rows = 3 * plain.engine->model().vision().tokens_per_view();
  const KeptPrompt& all = evicted.session->cache().kept().rows(0);
  CHECK(all.rows - all.text_rows == rows);

  const std::unique_ptr<Engine> engine = test::make_engine(*model, clip_limits(3));
  Session& session = test::open_session(*engine);
  REQUIRE_MESSAGE(set_rolling(session, 3, 16).ok(), last_failure().sentence);
  for (int turn = 0; turn < 4; ++turn) {
    TestClip clip;
    fill(clip, 2);
    add(session, clip);
    REQUIRE_MESSAGE(test::answer_of(session, test::default_params(4)).status.ok(), last_failure().sentence);
    CHECK(session.cache().image_count() == (turn == 0 ? 2 : 3));
  }
}

}  // namespace ocellus
