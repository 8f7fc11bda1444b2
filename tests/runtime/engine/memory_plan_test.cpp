// The plan is what happens: its total is what is allocated, its budget what decides, its advice what helps.

#include <doctest/doctest.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#include "tests/support/packed_sessions.h"
#include "tests/support/plans.h"

namespace ocellus {
namespace {

using test::board_limits;
using test::bundled_model;
using test::plan_of;

Status create(const ocellus_limits& limits, std::unique_ptr<Engine>* engine,
              const std::vector<ocellus_extent>& extents = {}) {
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits = limits;
  config.extents = extents.data();
  config.extent_count = static_cast<int32_t>(extents.size());
  return Engine::create(bundled_model(), config, engine);
}

ocellus_engine_stats stats_of(const Engine& engine) {
  ocellus_engine_stats stats;
  engine.describe(&stats);
  return stats;
}

/// The bytes "this plan needs", read from the sentence of a refusal.
int64_t needed_bytes(const char* sentence) {
  int64_t bytes = -1;
  REQUIRE_MESSAGE(std::sscanf(sentence, "this plan needs %" SCNd64 " bytes", &bytes) == 1, sentence);
  return bytes;
}

/// Uses everything the limits allow in every session: all images, then text until the session is full.
void use_everything(Engine& engine) {
  std::vector<Session*> sessions;
  for (int32_t i = 0; i < engine.shape().sessions; ++i) sessions.push_back(&test::open_session(engine));
  for (Session* session : sessions) {
    REQUIRE(session->begin_turn().ok());
    for (int32_t i = 0; i < engine.shape().pictures.per_session; ++i) {
      const Status status = test::add_board(*session, "images/113.png");
      REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
    }
    REQUIRE(session->end_turn().ok());
  }
  ocellus_generate_params params = test::default_params(1 << 20);
  params.ignore_end = 1;
  for (const test::Answer& answer : test::batch_answers(sessions, params)) {
    REQUIRE(answer.status.ok());
    CHECK(answer.stats.stop == OCELLUS_STOP_FULL);
    CHECK(answer.stats.image_count == engine.shape().pictures.per_session);
  }
}

/// The high-water marks of a run that used everything, as shares of the plan.
void check_high_water(const std::string& what, const ocellus_limits& limits) {
  CAPTURE(what);
  const ocellus_plan plan = plan_of(limits);
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
  CHECK(stats_of(*engine).arena_bytes == plan.total_bytes);
  CHECK(plan.total_bytes == plan.weights_bytes + plan.session_bytes + plan.scratch_bytes + plan.staging_bytes);
  use_everything(*engine);
  const ocellus_engine_stats stats = stats_of(*engine);
  const auto share = [](int64_t used, int64_t planned) {
    return 100.0 * static_cast<double>(used) / static_cast<double>(planned);
  };
  const double weights = share(stats.weights_high_water_bytes, plan.weights_bytes);
  const double session = share(stats.session_high_water_bytes, plan.session_bytes);
  const double scratch = share(stats.scratch_high_water_bytes, plan.scratch_bytes);
  MESSAGE(what << ": weights " << weights << "%, session " << session << "%, scratch " << scratch << "% of the plan");
  for (const double percent : {weights, session, scratch}) {
    CHECK(percent >= 99.0);
    CHECK(percent <= 100.0);
  }
}

/// Which phase the plan's scratch belongs to.
std::string largest_phase(const ocellus_limits& limits) {
  const ocellus_plan plan = plan_of(limits);
  for (const char* phase : {"text", "picture", "image", "prefill", "decode"}) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < plan.row_count; ++i)
      if (std::strcmp(plan.rows[i].phase, phase) == 0) bytes += plan.rows[i].bytes;
    if (bytes == plan.scratch_bytes) return phase;
  }
  return "none";
}

/// Memory of a caller, with bands around it that must stay untouched.
class CallerMemory {
 public:
  explicit CallerMemory(int64_t bytes)
      : bytes_(bytes), all_(static_cast<size_t>(aligned_bytes(bytes) + 2 * kBand + kRowAlignment)) {
    void* start = all_.data();
    size_t room = all_.size();
    memory_ = static_cast<std::byte*>(std::align(kRowAlignment, 1, start, room));
    std::memset(memory_, kByte, kBand);
    std::memset(memory_ + kBand + bytes_, kByte, kBand);
  }
  CallerMemory(const CallerMemory&) = delete;
  CallerMemory& operator=(const CallerMemory&) = delete;

  ocellus_extent extent(int64_t shift = 0) const { return {memory_ + kBand + shift, bytes_ - shift}; }
  bool intact() const {
    for (int64_t i = 0; i < kBand; ++i)
      if (memory_[i] != std::byte{kByte} || memory_[kBand + bytes_ + i] != std::byte{kByte}) return false;
    return true;
  }

 private:
  static constexpr int64_t kBand = 4096;
  static constexpr uint8_t kByte = 0xA7;
  int64_t bytes_;
  test::Vector<std::byte> all_;  // a GPU can use it, too
  std::byte* memory_;
};

std::string caption(Engine& engine) {
  Session& session = test::open_session(engine);
  REQUIRE_MESSAGE(test::add_turn(session, "<image>What is on the left?", {"images/115.png"}).ok(),
                  last_failure().sentence);
  const test::Answer answer = test::answer_of(session);
  REQUIRE(answer.status.ok());
  session.close();
  return answer.text;
}

/// Creates an engine in extents of these sizes; the answer, or the sentence of the refusal.
std::string caption_in_extents(const ocellus_limits& limits, const std::vector<int64_t>& sizes, Code expected) {
  std::vector<std::unique_ptr<CallerMemory>> memory;
  std::vector<ocellus_extent> extents;
  for (const int64_t bytes : sizes) {
    memory.push_back(std::make_unique<CallerMemory>(bytes));
    extents.push_back(memory.back()->extent());
  }
  std::unique_ptr<Engine> engine;
  const Status status = create(limits, &engine, extents);
  CHECK_MESSAGE(status.code() == expected, last_failure().sentence);
  const std::string result = status.ok() ? caption(*engine) : last_failure().sentence;
  engine.reset();
  for (const auto& piece : memory) CHECK(piece->intact());
  return result;
}

/// Makes the change that a text is about.
void apply_change(const std::string& text, ocellus_limits* limits) {
  const auto has = [&](const char* name) { return text.find(name) != std::string::npos; };
  const long long value = std::atoll(text.c_str() + std::min(text.find_first_of("0123456789"), text.size()));
  const auto set = [&](const char* name, auto ocellus_limits::*field) {
    if (has(name)) limits->*field = static_cast<std::remove_reference_t<decltype(limits->*field)>>(value);
    return has(name);
  };
  if (has("(lean)")) {
    limits->lean = 1;
  } else if (has("no images")) {
    limits->max_images = 0;
  } else if (has("(kv_bits)")) {
    limits->cache.kv_bits = static_cast<int32_t>(value);
  } else if (has("by david")) {
    test::set_text(limits->cache.evict, "david");
    limits->cache.keep = static_cast<float>(value) / 100.0f;
  } else {
    CHECK_MESSAGE(
        (set("(max_images)", &ocellus_limits::max_images) || set("(max_sessions)", &ocellus_limits::max_sessions) ||
         set("(max_text_tokens)", &ocellus_limits::max_text_tokens) ||
         set("(max_image_pixels)", &ocellus_limits::max_image_pixels) ||
         set("(max_whole_pixels)", &ocellus_limits::max_whole_pixels) ||
         set("(max_prompt_rows)", &ocellus_limits::max_prompt_rows)),
        text);
  }
}

/// Makes the change or the two that an advice is about.
ocellus_limits apply_advice(ocellus_limits limits, const std::string& text) {
  const size_t second = text.find(", and ");
  apply_change(text.substr(0, second), &limits);
  if (second != std::string::npos) apply_change(text.substr(second), &limits);
  return limits;
}

}  // namespace

TEST_CASE("a run that uses everything reaches the plan within one percent, in every lifetime" *
          doctest::test_suite("long")) {
  ocellus_limits small = board_limits(3, 160);
  small.max_prompt_rows = 72;
  small.max_whole_pixels = 1;  // else a picture that is held whole takes most
  CHECK(largest_phase(small) == "image");
  check_high_water("small prompt chunks", small);

  ocellus_limits prefill = board_limits(8, 400);
  prefill.thread_count = 1;
  check_high_water("one thread, whole prompts", prefill);

  ocellus_limits many = board_limits(1, 40);
  many.max_sessions = 5;
  check_high_water("five sessions", many);

  ocellus_limits lean = board_limits(3, 160);
  lean.max_prompt_rows = 96;
  lean.lean = 1;
  check_high_water("lean", lean);

  ocellus_limits by_layer = board_limits(3, 160);
  test::set_layer_bits(&by_layer.cache);
  check_high_water("bits by layer, small scales", by_layer);

  ocellus_limits linked = board_limits(3, 160);
  linked.reuse = OCELLUS_REUSE_MPIC;
  linked.reuse_rows = 16;
  linked.cache.kv_bits = 2;
  check_high_water("linked images", linked);
  linked.library = 1;
  linked.library_cache_bytes = 1 << 20;
  check_high_water("linked images with a library", linked);
  linked.shared_images = 1;  // of one picture, which all images are
  check_high_water("shared linked images with a library", linked);
  linked.library_cache_bytes = linked.library = linked.shared_images = 0;
  linked.reuse = OCELLUS_REUSE_CARRY;
  linked.cache.kv_bits = 16;
  check_high_water("linked images that carry their change", linked);
  linked.reuse = OCELLUS_REUSE_BLEND;
  check_high_water("linked images of which the most changed rows are read", linked);
  linked.reuse = OCELLUS_REUSE_PREFIX;
  check_high_water("images that are read in context", linked);

  ocellus_limits text_only = board_limits(0, 900);
  CHECK(largest_phase(text_only) != "image");
  const ocellus_plan plan = plan_of(text_only);
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(text_only);
  Session& session = test::open_session(*engine);
  const std::vector<TokenId> tokens(900, 297);
  REQUIRE(session.add_tokens(tokens.data(), 900).ok());
  REQUIRE(test::answer_of(session, test::default_params(100)).status.ok());
  CHECK(stats_of(*engine).scratch_high_water_bytes == plan.scratch_bytes);
  CHECK(stats_of(*engine).session_high_water_bytes >= plan.session_bytes * 99 / 100);
}

TEST_CASE("the plan grows with every limit") {
  ocellus_limits base = board_limits(2, 200);
  base.device = OCELLUS_DEVICE_CPU;  // threads do not matter to a GPU
  const auto check_growth = [&](const char* name, auto ocellus_limits::*field, const std::vector<int64_t>& values) {
    CAPTURE(name);
    int64_t before = 0;
    for (const int64_t value : values) {
      ocellus_limits limits = base;
      limits.*field = static_cast<std::remove_reference_t<decltype(limits.*field)>>(value);
      const int64_t total = plan_of(limits).total_bytes;
      CHECK(total >= before);
      before = total;
    }
    ocellus_limits least = base;
    least.*field = static_cast<std::remove_reference_t<decltype(least.*field)>>(values.front());
    CHECK(before > plan_of(least).total_bytes);
  };
  std::vector<int64_t> counts;
  for (int64_t i = 1; i <= 70; ++i) counts.push_back(i);
  check_growth("threads", &ocellus_limits::thread_count, counts);
  check_growth("sessions", &ocellus_limits::max_sessions, counts);
  check_growth("images", &ocellus_limits::max_images, counts);
  check_growth("text tokens", &ocellus_limits::max_text_tokens,
               {1, 2, 15, 16, 17, 100, 255, 256, 257, 1000, 5000, 100000});
  check_growth("prompt rows", &ocellus_limits::max_prompt_rows, {1, 80, 100, 127, 128, 129, 200, 300, 339, 340});
  check_growth("pixels", &ocellus_limits::max_image_pixels, {1, 1000, 65536, 1 << 20, 1 << 21, 1 << 24, 1 << 28});
}

TEST_CASE("any budget from 110% of the plan down to nothing fits or names the exact bytes, which then fit" *
          doctest::test_suite("long")) {
  const ocellus_limits limits = board_limits(1, 64);
  const int64_t total = plan_of(limits).total_bytes;
  std::set<int64_t> named;
  std::string answer;
  for (int step = 0; step <= 200; ++step) {
    CAPTURE(step);
    ocellus_limits tight = limits;
    tight.budget_bytes = std::max<int64_t>(total * 11 / 10 * (200 - step) / 200, 1);  // 0 would mean no budget
    std::unique_ptr<Engine> engine;
    const Status status = create(tight, &engine);
    CHECK(status.ok() == (tight.budget_bytes >= total));
    if (status.ok()) {
      const std::string text = caption(*engine);
      if (answer.empty()) answer = text;
      CHECK(text == answer);
    } else {
      CHECK(status.code() == Code::kOverBudget);
      named.insert(needed_bytes(last_failure().sentence));
    }
  }
  CHECK(named == std::set<int64_t>{total});
  ocellus_limits exact = limits;
  std::unique_ptr<Engine> engine;
  exact.budget_bytes = total - 1;
  CHECK(create(exact, &engine).code() == Code::kOverBudget);
  exact.budget_bytes = total;
  REQUIRE(create(exact, &engine).ok());
  CHECK(caption(*engine) == answer);
}

TEST_CASE("every advice makes the plan fit, and the verdict says what is missing") {
  ocellus_limits limits = board_limits(8, 600);
  limits.max_sessions = 3;
  limits.max_image_pixels = 1920 * 1080;
  const int64_t total = plan_of(limits).total_bytes;
  std::set<std::string> kinds;
  bool pairs = false;
  for (int64_t budget = total - 1; budget > 0; budget -= total / 40) {
    CAPTURE(budget);
    limits.budget_bytes = budget;
    const ocellus_plan plan = plan_of(limits);
    CHECK(plan.fits == 0);
    CHECK(plan.total_bytes == total);
    CHECK(plan.shortfall_bytes == total - budget);
    REQUIRE(plan.advice_count > 0);
    for (int32_t i = 0; i < plan.advice_count; ++i) {
      const ocellus_advice& advice = plan.advice[i];
      CAPTURE(advice.text);
      if (advice.total_bytes == 0) continue;  // no two changes are enough
      const ocellus_limits changed = apply_advice(limits, advice.text);
      const ocellus_plan smaller = plan_of(changed);
      CHECK(smaller.fits == 1);
      CHECK(smaller.total_bytes == advice.total_bytes);
      CHECK((advice.keeps_images == 0 || changed.max_images * changed.max_sessions == 24));
      kinds.insert(std::string(advice.text).substr(0, 9));
      pairs |= std::strstr(advice.text, ", and ") != nullptr;
    }
  }
  CHECK(kinds.size() >= 3);
  CHECK(pairs);
  CHECK(kinds.count("visual ke") == 1);
  CHECK(std::any_of(kinds.begin(), kinds.end(), [](const std::string& kind) { return kind.find("% of") < 5; }));
  limits.budget_bytes = total;
  const ocellus_plan fitting = plan_of(limits);
  CHECK(fitting.fits == 1);
  CHECK(fitting.shortfall_bytes == 0);
  CHECK(fitting.advice_count == 0);
}

/// Returns the total allocated on a GPU with memory of its own, without needing one.
int64_t total_on_cuda(ocellus_limits limits) {
  limits.device = OCELLUS_DEVICE_CUDA;
  limits.gpu_memory = OCELLUS_GPU_MEMORY_DEVICE;
  return plan_of(limits).total_bytes;
}

TEST_CASE("on a GPU, too, memory for photographs grows with their sides only, unless they are to be resized there") {
  ocellus_limits limits = board_limits(1, 64);
  limits.max_image_pixels = 1920 * 1080;
  const int64_t usual = total_on_cuda(limits);
  limits.max_image_pixels = 4000 * 3000;
  CHECK(total_on_cuda(limits) - usual < 10'000'000);
  limits.max_gpu_pixels = limits.max_image_pixels;
  CHECK(total_on_cuda(limits) - usual > 10'000'000);
}

TEST_CASE("16 pictures in 2 bits fit 44 MB and 32 fit 48 MB where the engine is lean: weights and all") {
  for (const int32_t images : {16, 32}) {
    const int64_t bytes = images == 16 ? 44'000'000 : 48'000'000;
    // Questions that name every picture, and long answers.
    ocellus_limits limits = board_limits(images, images == 16 ? 160 : 240);
    limits.device = OCELLUS_DEVICE_CPU;
    limits.max_prompt_rows = 96;
    limits.max_whole_pixels = 1;  // boards come row by row
    limits.cache.kv_bits = 2;
    const int64_t usual = plan_of(limits).total_bytes;
    limits.lean = 1;
    const int64_t on_cpu = plan_of(limits).total_bytes, on_cuda = total_on_cuda(limits);
    MESSAGE(images << " pictures: " << usual << " bytes, lean " << on_cpu << ", on CUDA " << on_cuda);
    CHECK(on_cpu < usual);
    CHECK(on_cpu <= bytes);
    CHECK(on_cuda <= bytes);
    limits.lean = 0;
    limits.budget_bytes = on_cpu;
    const ocellus_plan tight = plan_of(limits);
    REQUIRE(tight.advice_count > 0);
    CHECK(plan_of(apply_advice(limits, tight.advice[0].text)).total_bytes == on_cpu);
    limits.lean = 1;
    CHECK(plan_of(limits).advice_count == 0);
  }
}

TEST_CASE("images_in_budget is exact") {
  ocellus_limits limits = board_limits(1, 200);
  CHECK(plan_of(limits).images_in_budget == -1);
  for (const int64_t budget : {30'000'000, 45'000'000, 60'000'000, 80'000'001, 123'456'789, 512'000'000}) {
    CAPTURE(budget);
    limits.budget_bytes = budget;
    limits.max_images = 1;
    const int32_t count = plan_of(limits).images_in_budget;
    limits.max_images = count;
    if (count > 0) CHECK(plan_of(limits).fits == 1);
    limits.max_images = count + 1;
    CHECK(plan_of(limits).fits == 0);
  }
  limits.max_images = 40;
  const int64_t total = plan_of(limits).total_bytes;
  limits.max_images = 1;
  limits.budget_bytes = total;
  CHECK(plan_of(limits).images_in_budget == 40);
  limits.budget_bytes = total - 1;
  CHECK(plan_of(limits).images_in_budget == 39);
}

TEST_CASE("the bundled model keeps its size") {
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.device = OCELLUS_DEVICE_CPU;
  limits.thread_count = 2;
  const ocellus_plan plan = plan_of(limits);
  MESSAGE("weights " << plan.weights_bytes << ", session " << plan.session_bytes << ", scratch " << plan.scratch_bytes);
  const auto within_percent = [](int64_t bytes, int64_t pinned) { return std::abs(bytes - pinned) * 100 <= pinned; };
  CHECK(within_percent(plan.weights_bytes, 37'240'000));
  CHECK(within_percent(plan.session_bytes, 6'060'000));
  CHECK(within_percent(plan.scratch_bytes, 11'081'000));
  CHECK(plan.kv_bytes_per_token == 8192);
  CHECK(plan.kv_bytes_per_image == 64 * plan.kv_bytes_per_token);
}

TEST_CASE("an engine lives in memory its caller gives") {
  const ocellus_limits limits = board_limits(1, 64);
  const ocellus_plan plan = plan_of(limits);
  const int64_t total = plan.total_bytes - plan.staging_bytes;  // staging is always the engine's own
  const std::string answer = caption(*test::make_bundled_engine(limits));
  CHECK(caption_in_extents(limits, {total}, Code::kOk) == answer);
  CHECK(caption_in_extents(limits, {plan.weights_bytes, plan.session_bytes, plan.scratch_bytes}, Code::kOk) == answer);
  CHECK(caption_in_extents(limits, {total / 3 + 1000, total / 3 + 77, total}, Code::kOk) == answer);

  const std::string short_by_a_row = caption_in_extents(limits, {total - kRowAlignment}, Code::kOverBudget);
  CHECK(needed_bytes(short_by_a_row.c_str()) == total);
  CHECK(short_by_a_row.find(std::to_string(total - kRowAlignment)) != std::string::npos);
  CHECK(needed_bytes(caption_in_extents(limits, {total / 2, total / 2 - kRowAlignment}, Code::kOverBudget).c_str()) ==
        total);

  // Enough bytes, but in pieces too small for a row: refused at creation, by the row's name.
  const std::string crumbs = caption_in_extents(limits, std::vector<int64_t>(8, total / 6), Code::kOverBudget);
  CHECK(crumbs.find("text weights") != std::string::npos);
  const int64_t half = aligned_bytes(plan.scratch_bytes / 2);
  const std::string split =
      caption_in_extents(limits, {plan.weights_bytes + plan.session_bytes, half, half}, Code::kOverBudget);
  CHECK(split.find("give fewer or larger memory extents") != std::string::npos);
}

TEST_CASE("memory extents that cannot be used are refused by name") {
  const ocellus_limits limits = board_limits(1, 64);
  const int64_t total = plan_of(limits).total_bytes;
  const CallerMemory memory(total + 4096);
  std::unique_ptr<Engine> engine;
  CHECK(create(limits, &engine, {memory.extent(64)}).code() == Code::kBadArgument);
  CHECK(std::string(last_failure().sentence).find("256") != std::string::npos);
  CHECK(create(limits, &engine, {{nullptr, total}}).code() == Code::kBadArgument);
  CHECK(create(limits, &engine, {{memory.extent().data, 0}}).code() == Code::kBadArgument);
  CHECK(create(limits, &engine, std::vector<ocellus_extent>(9, {memory.extent().data, 4096})).code() ==
        Code::kBadArgument);
  CHECK(engine == nullptr);
  CHECK(memory.intact());
}

TEST_CASE("limits out of range are named") {
  const auto refusal = [](auto ocellus_limits::*field, int64_t value) -> std::string {
    ocellus_limits limits = board_limits(1, 64);
    limits.*field = static_cast<std::remove_reference_t<decltype(limits.*field)>>(value);
    ocellus_plan plan;
    const Status status = plan_memory(bundled_model(), limits, &plan);
    if (status.ok()) return "";
    CHECK((status.code() == Code::kBadArgument || status.code() == Code::kUnsupported));
    return last_failure().sentence;
  };
  CHECK(refusal(&ocellus_limits::struct_bytes, 4).find("ocellus_limits_init") != std::string::npos);
  CHECK(refusal(&ocellus_limits::device, OCELLUS_DEVICE_CPU) == "");
  CHECK(refusal(&ocellus_limits::device, 3).find("device") != std::string::npos);
  CHECK(refusal(&ocellus_limits::lean, 1) == "");
  CHECK(refusal(&ocellus_limits::lean, 2).find("lean") != std::string::npos);
  CHECK(refusal(&ocellus_limits::lean, -1).find("lean") != std::string::npos);
  CHECK(refusal(&ocellus_limits::max_sessions, 0).find("sessions") != std::string::npos);
  CHECK(refusal(&ocellus_limits::max_sessions, 1025).find("sessions") != std::string::npos);
  CHECK(refusal(&ocellus_limits::max_images, -1).find("images") != std::string::npos);
  CHECK(refusal(&ocellus_limits::max_text_tokens, 0).find("text tokens") != std::string::npos);
  CHECK(refusal(&ocellus_limits::max_prompt_rows, -1).find("prompt") != std::string::npos);
  CHECK(refusal(&ocellus_limits::max_tiles, -1).find("tiles") != std::string::npos);
  CHECK(refusal(&ocellus_limits::max_image_pixels, 0).find("pixels") != std::string::npos);
  CHECK(refusal(&ocellus_limits::max_gpu_pixels, -1).find("pixels") != std::string::npos);
  CHECK(refusal(&ocellus_limits::max_whole_pixels, -1).find("as a whole") != std::string::npos);
  CHECK(refusal(&ocellus_limits::thread_count, 257).find("threads") != std::string::npos);
  CHECK(refusal(&ocellus_limits::budget_bytes, -1).find("budget") != std::string::npos);
}

}  // namespace ocellus
