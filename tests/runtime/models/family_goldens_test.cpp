// Every vision-language family against transformers, on the tiny random pairs of tests/data/families: ids of prompts,
// pixels, rows of the tower and of the projector, logits, greedy tokens.
//
// A family is tested once its folder's name stands in kFamilies. To make the goldens again, or those of a new family
// (a recipe of tools/convert/family_recipes.py):
//
//   pip install torch torchvision transformers==5.24.0 'pillow<13' num2words -r tools/convert/requirements.txt
//   python3 tools/convert/make_family_goldens.py tests/data/families [NAME...]
#include "tests/support/family_goldens.h"

#include <doctest/doctest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mm/tower/vision_tower.h"
#include "mm/views/clip_views.h"
#include "runtime/engine/picture_source.h"
#include "tests/support/clips.h"
#include "tests/support/pairs.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus {
namespace {

using nlohmann::json;
using test::TestPicture;

constexpr const char* kFamilies[] = {
    "smolvlm",      "smolvlm2-video", "llava-1.5",   "llava-1.6-vicuna", "llava-1.6-mistral", "internvl2.5",
    "internvl3",    "internvl3.5",    "internvl-6b", "qwen2-vl",         "qwen2.5-vl",        "qwen3-vl",
    "cosmos3-edge", "gemma3",         "gemma4",      "gemma4-pictures",  "ministral3",        "pixtral",
    "lfm2-vl",      "lightonocr",     "paddleocr"};

/// Differences between float32 arithmetic and ours: keys and values rounded to f16, on CUDA activations, too; by name
/// on some CPUs all factors to bf16.
struct Bounds {
  double rows, logits;
  double distance;  // of first logits
  double gap;       // greedy tokens are compared up to the first whose two best logits lie closer
};
constexpr Bounds kCpu = {.rows = 5e-4, .logits = 1.5e-3, .distance = 1e-2, .gap = 1e-2};
constexpr Bounds kCuda = {.rows = 1e-2, .logits = 2e-2, .distance = 2e-1, .gap = 2e-1};
constexpr Bounds kPairs = {.rows = 2e-2, .logits = 4e-2, .distance = 4e-1, .gap = 3e-1};

const Bounds& bounds_on(Engine& engine) { return engine.queue().on_cuda() ? kCuda : kCpu; }

/// A picture of a prompt, or a pair of frames of a clip.
struct Shown {
  std::vector<TestPicture> frames;
  bool is_of_clip = false;
};

TestPicture picture_of(const json& part) { return {part[0], part[1], part.size() > 2 ? part[2].get<int>() : 0}; }

/// [width, height] or, in families that take frames in pairs, [[width, height, shift], ...].
std::vector<Shown> pictures_of(const json& golden) {
  std::vector<Shown> pictures;
  for (const json& part : golden["prompt"]) {
    if (!part.is_array()) continue;
    Shown shown;
    shown.is_of_clip = part[0].is_array();
    if (!shown.is_of_clip) shown.frames.push_back(picture_of(part));
    for (const json& frame : part)
      if (shown.is_of_clip) shown.frames.push_back(picture_of(frame));
    pictures.push_back(shown);
  }
  return pictures;
}

void add_prompt(Session& session, const json& golden) {
  for (const json& part : golden["prompt"]) {
    Status status;
    if (part.is_string()) {
      status = session.add_text(part.get<std::string>(), true);
    } else if (part.is_array()) {
      status = session.add_frame(TestPicture(part[0], part[1]).frame());
    } else {
      const std::vector<TokenId> said = part["ids"];
      status = session.add_tokens(said.data(), std::ssize(said));
    }
    REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  }
}

/// Ids of the rows that wait in the chunk, -1 for those of pictures.
std::vector<int32_t> waiting_ids(Engine& engine) {
  const PromptChunk& chunk = engine.memory().chunk;
  const int32_t* ids = chunk.token_ids.host.data;
  return {ids, ids + chunk.row_count};
}

/// Rows of pictures that wait in the chunk, one after the other; or, from part 1 on, what joins them after a layer.
std::vector<float> waiting_image_rows(Engine& engine, int64_t part = 0) {
  const PromptChunk& chunk = engine.memory().chunk;
  std::vector<float> rows;
  for (int64_t i = 0; i < chunk.piece_count; ++i) {
    const Piece& piece = chunk.pieces.data[i];
    if (piece.kind != RowKind::kImage) continue;
    const int64_t values = piece.row_count * chunk.inputs.cols;
    const std::vector<float> some = test::download({chunk.inputs.row(piece.first_row), 1, values}, engine.queue());
    for (size_t row = 0; row < some.size(); row += static_cast<size_t>(chunk.inputs.cols)) {
      const auto begin = some.begin() + static_cast<std::ptrdiff_t>(row) + part * chunk.hidden.cols;
      rows.insert(rows.end(), begin, begin + chunk.hidden.cols);
    }
  }
  return rows;
}

/// Hashes the 8-bit RGB pixels that became these planes.
std::string hash_pixels(const std::vector<float>& planes, const PreprocessConfig& config) {
  const std::vector<uint8_t> pixels = testing::pixels_of(planes, config);
  char text[17];
  const auto hash = testing::fnv(pixels.data(), std::ssize(pixels));
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

/// Rows of patches that the tower gives for a view of one or two frames, without the class row, in the order in which
/// they are joined.
std::vector<float> tower_rows(Engine& engine, const std::vector<float>& planes, Size size, int32_t frames) {
  const VisionModel& vision = engine.vision();
  const ViewBatch batch(vision.config, 1, size, frames);
  const ArenaScope scope(engine.arena());
  VisionScratch scratch;
  REQUIRE(engine.take_scratch(&scratch).ok());
  const DeviceView<float> pixels = engine.memory().pictures.waiting.next_pixels(batch, scratch);
  const test::Vector<float> source = test::visible(planes);
  engine.queue().copy(pixels.data, source.data(), std::ssize(source) * static_cast<int64_t>(sizeof(float)));
  const Status status = encode_views({.model = vision,
                                      .pixels = pixels,
                                      .batch = batch,
                                      .scratch = scratch,
                                      .out = engine.memory().chunk.inputs,
                                      .layers = {.end = vision.config.layer_count}},
                                     engine.queue());
  const DeviceView<float> hidden = scratch.hidden.slice_rows(0, batch.rows());
  // The last norm of a tower with views of any size is its projector's in transformers.
  if (!vision.config.any_size && vision.final_norm.weight != nullptr)
    apply_norm(vision.final_norm, vision.config.epsilon, hidden, hidden, engine.queue());
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  PatchGrid joined = batch.grid;
  joined.window = 0;
  std::vector<float> rows;
  for (int32_t i = 0; i < joined.count(); ++i) {
    const int64_t row = batch.lead + batch.grid.index(joined.place(i));
    const std::vector<float> one = test::download({scratch.hidden.row(row), 1, scratch.hidden.cols}, engine.queue());
    rows.insert(rows.end(), one.begin(), one.end());
  }
  return rows;
}

/// Pixels, which are the same bits as Pillow's, and the rows of the tower.
void check_views(Engine& engine, const json& golden, double bound) {
  std::vector<int> view_counts;
  std::vector<std::string> hashes;
  std::vector<float> pixels, tower;
  for (const Shown& shown : pictures_of(golden)) {
    const PreprocessConfig& all = engine.shape().pictures.preprocess;
    const PreprocessConfig config = shown.is_of_clip ? of_clip(all) : all;
    std::vector<std::vector<float>> views;  // of all frames
    for (const TestPicture& frame : shown.frames) {
      const std::vector<testing::Planes> planes = testing::render_views(config, frame.image());
      views.resize(std::max(views.size(), planes.size()));
      for (size_t i = 0; i < planes.size(); ++i) {
        hashes.push_back(hash_pixels(planes[i], config));
        views[i].insert(views[i].end(), planes[i].begin(), planes[i].end());
      }
    }
    view_counts.push_back(static_cast<int>(views.size()));
    const RgbImage first = shown.frames[0].image();
    const ViewPlan plan = testing::plan_of(config, first.width, first.height);
    for (size_t i = 0; i < views.size(); ++i) {
      const std::vector<float>& view = views[i];
      pixels.insert(pixels.end(), view.begin(), view.end());
      const Size size = plan.view_size(static_cast<int32_t>(i));
      const std::vector<float> rows = tower_rows(engine, view, size, static_cast<int32_t>(shown.frames.size()));
      tower.insert(tower.end(), rows.begin(), rows.end());
    }
  }
  CHECK(view_counts == golden["views"].get<std::vector<int>>());
  CHECK(hashes == golden["pixels"].get<std::vector<std::string>>());
  CHECK(test::sampled_error(pixels, golden["pixel_values"]) < 1e-5);  // six digits are stored
  CHECK(test::sampled_error(tower, golden["tower"]) < bound);
}

/// Returns the session's tokens, ignoring end tokens.
std::vector<TokenId> greedy_tokens(Session& session, int32_t count) {
  int32_t* recent = session.engine().memory().recent_tokens.row(session.index());  // a ring
  std::fill_n(recent, kRecentTokens, kNoToken);
  ocellus_generate_params params = test::default_params(count);
  params.ignore_end = 1;
  REQUIRE_MESSAGE(test::answer_of(session, params).status.ok(), last_failure().sentence);
  int64_t at = 0;
  while (recent[at] != kNoToken || recent[(at + 1) % kRecentTokens] == kNoToken) at = (at + 1) % kRecentTokens;
  std::vector<TokenId> said;
  for (int32_t i = 1; i <= count; ++i) said.push_back(recent[(at + i) % kRecentTokens]);
  return said;
}

/// As many as can be told apart.
void check_tokens(Session& session, const json& golden, double least_gap) {
  const std::vector<TokenId> expected = golden["tokens"];
  const std::vector<double> gaps = golden["gaps"];
  const std::vector<TokenId> said = greedy_tokens(session, static_cast<int32_t>(expected.size()));
  for (size_t i = 0; i < expected.size() && gaps[i] > least_gap; ++i) {
    CAPTURE(i);
    CHECK(said[i] == expected[i]);
  }
}

/// A video's frames, as {"seconds": its length, "frames": [second, width, height] or with a shift each}.
Status add_clip(Session& session, const json& video) {
  test::TestClip clip;
  for (const json& frame : video["frames"])
    clip.add_frame(frame[0], frame[1], frame[2], frame.size() > 3 ? frame[3].get<int>() : 0);
  clip.duration = video["seconds"];
  int32_t failed = 0;
  return session.add_parts(&clip.part(), 1, &failed);
}

std::vector<TokenId> said_in(const json& golden) {
  std::vector<TokenId> said;
  for (const json& part : golden["prompt"])
    if (part.is_object()) said = part["ids"].get<std::vector<TokenId>>();
  if (!said.empty()) said.pop_back();  // the template ends the answer
  return said;
}

/// Adds turns by the chat template, and what the model is taken to have said between them.
void add_turns(Session& session, const std::string& family_system, const json& golden) {
  const std::vector<TokenId> said = said_in(golden);
  const std::string system = golden.value("system", family_system);
  if (!system.empty()) REQUIRE_MESSAGE(session.add_system(system).ok(), last_failure().sentence);
  for (size_t i = 0; i < golden["turns"].size(); ++i) {
    Status status = i == 0 ? Status() : session.add_tokens(said.data(), std::ssize(said));
    if (status.ok()) status = session.begin_turn();
    for (const json& part : golden["turns"][i]) {
      if (!status.ok()) break;
      if (part.is_object())
        status = add_clip(session, part);
      else
        status = part.is_string() ? session.add_text(part.get<std::string>(), false)
                                  : session.add_frame(TestPicture(part[0], part[1]).frame());
    }
    if (status.ok()) status = session.end_turn();
    REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  }
}

bool has_clip(const json& golden) {
  for (const json& turn : golden["turns"])
    for (const json& part : turn)
      if (part.is_object()) return true;
  return false;
}

/// Returns the distance of the first logits.
double check_case(Engine& engine, Session& session, const std::string& system, const json& golden,
                  const Bounds& bounds) {
  const auto name = golden["name"].get<std::string>();
  CAPTURE(name);
  session.reset();
  if (has_clip(golden))
    add_turns(session, system, golden);
  else
    add_prompt(session, golden);
  REQUIRE(session.prompt().text().flush().ok());
  CHECK(waiting_ids(engine) == test::expanded_ids(golden));
  if (golden.contains("views"))
    CHECK(test::sampled_error(waiting_image_rows(engine), golden["projector"]) < bounds.rows);
  for (size_t i = 0; golden.contains("deepstack") && i < golden["deepstack"].size(); ++i)
    CHECK(test::sampled_error(waiting_image_rows(engine, static_cast<int64_t>(i) + 1), golden["deepstack"][i]) <
          bounds.rows);
  const std::vector<float> logits = test::first_logits(session);
  CHECK(test::sampled_error(logits, golden["logits"]) < bounds.logits);
  const double distance = test::sampled_distance(logits, golden["logits"]);
  check_tokens(session, golden, bounds.gap);
  if (golden.contains("views")) check_views(engine, golden, bounds.rows);
  return distance;
}

/// Maximum rows of the pictures, counted before the engine is made, as commands do that know them.
int32_t counted_rows(const Model& model, const json& goldens, const ocellus_limits& limits) {
  PictureShape shape;
  shape.limits = image_limits(limits);
  shape.preprocess = preprocess_config(model.vision(), limits);
  int64_t most = 0;
  for (const json& golden : goldens) {
    for (const Shown& shown : pictures_of(golden)) {
      const RgbImage image = shown.frames[0].image();
      ViewPlan plan;
      REQUIRE(plan_picture(shape, {.width = image.width, .height = image.height}, &plan).ok());
      most = std::max(most, plan.row_count());
    }
  }
  return static_cast<int32_t>(most);
}

enum class Sizes { kUnknown, kKnown };

struct LoadedFamily {
  explicit LoadedFamily(const std::string& name, Sizes sizes = Sizes::kUnknown,
                        ocellus_cpu_math cpu_math = OCELLUS_CPU_MATH_F16) {
    const json family = test::read_family(name);
    goldens = family["cases"];
    system = family["system"];
    const test::ModelPair pair = test::family_pair(name);
    REQUIRE_MESSAGE(model.open(pair.model.c_str(), pair.mmproj.c_str()).ok(), last_failure().sentence);
    ocellus_limits limits = test::picture_limits(2, 256);
    limits.cpu_math = cpu_math;
    limits.max_image_pixels = 640 * 480;
    limits.max_image_rows = family.value("most_rows", 0);
    for (const json& golden : goldens)
      if (has_clip(golden)) limits.max_clip_frames = 12;
    if (has_clip(goldens[0])) limits.max_images = 0;  // all are clips
    if (sizes == Sizes::kKnown) limits.planned_image_rows = counted_rows(model, goldens, limits);
    engine = test::make_engine(model, limits);
    session = &test::open_session(*engine);
  }

  json goldens;
  std::string system;
  Model model;
  std::unique_ptr<Engine> engine;
  Session* session = nullptr;
};

void check_families(ocellus_cpu_math cpu_math, const Bounds& on_cpu) {
  for (const std::string name : kFamilies) {
    CAPTURE(name);
    const LoadedFamily family(name, Sizes::kUnknown, cpu_math);
    Engine& engine = *family.engine;
    const Bounds& bounds = engine.queue().on_cuda() ? kCuda : on_cpu;
    REQUIRE(family.goldens.size() >= 4);
    double distance = 0.0;
    for (const json& golden : family.goldens)
      distance = std::max(distance, check_case(engine, *family.session, family.system, golden, bounds));
    MESSAGE(name << ": first logits within " << distance);
    CHECK(distance < bounds.distance);
  }
}

}  // namespace

TEST_CASE("every family reads prompts, pictures and turns as transformers does") {
  check_families(OCELLUS_CPU_MATH_F16, kCpu);
}

TEST_CASE("every family reads them so with products of bf16, less closely") {
  if (test::takes_pairs(WeightFormat::kF16, 8, CpuMath::kBf16)) check_families(OCELLUS_CPU_MATH_BF16, kPairs);
}

TEST_CASE("an arithmetic of the CPU that there is not is refused") {
  const LoadedFamily family("smolvlm");
  ocellus_limits limits = test::picture_limits(1, 16);
  limits.cpu_math = 2;
  EngineShape shape;
  CHECK(resolve_shape(family.model, limits, &shape).code() == Code::kBadArgument);
  CHECK(std::string(last_failure().sentence).find("cpu_math") != std::string::npos);
}

TEST_CASE("pictures whose rows were counted for the plan are read as transformers reads them") {
  for (const std::string name : {"qwen2-vl", "qwen2.5-vl", "qwen3-vl", "cosmos3-edge", "gemma4", "gemma4-pictures",
                                 "ministral3", "pixtral", "lightonocr", "paddleocr"}) {
    CAPTURE(name);
    const LoadedFamily family(name, Sizes::kKnown);
    Engine& engine = *family.engine;
    CHECK(engine.shape().pictures.preprocess.planned_rows > 0);
    for (const json& golden : family.goldens)
      if (!has_clip(golden)) check_case(engine, *family.session, family.system, golden, bounds_on(engine));
  }
}

}  // namespace ocellus
