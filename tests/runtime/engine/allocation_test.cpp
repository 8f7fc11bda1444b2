// After an engine is created nothing allocates: no heap, no mapping, no thread. Counted, not promised.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include "runtime/ocellus.h"
#include "tests/support/c_handles.h"
#include "tests/support/cache_texts.h"
#include "tests/support/call_counter.h"
#include "tests/support/family_goldens.h"
#include "tests/support/gif_files.h"
#ifdef OCELLUS_HAS_WEBP
#include "tests/support/webp_files.h"
#endif
#if OCELLUS_HAS_CUDA
#include <cuda_runtime.h>
#endif

namespace {

using namespace ocellus::test;

constexpr int32_t kSessions = 16;

/// Counts of a workload, so that the check can tell a quiet run from one that did nothing.
struct Work {
  int32_t images = 0;
  int32_t tokens = 0;
  int32_t resets = 0;
  int32_t batches = 0;
  int32_t refusals = 0;
  int32_t failures = 0;  // calls that should have worked
  int64_t text_bytes = 0;

  void expect(ocellus_status status) { failures += status != OCELLUS_OK; }
  void expect_refusal(ocellus_status got, ocellus_status wanted) {
    refusals += got == wanted;
    failures += got != wanted;
    failures += ocellus_last_error()->status != static_cast<int32_t>(wanted);
  }
};

ocellus_limits small_limits() {
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.thread_count = 2;
  limits.max_image_pixels = 65536;
  return limits;
}

int count_text(void* user, const char*, int32_t bytes) {
  *static_cast<int64_t*>(user) += bytes;
  return 0;
}

ocellus_generate_params params_for(Work& work, int32_t max_tokens) {
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = max_tokens;
  params.ignore_end = 1;
  params.on_text = count_text;
  params.user = &work.text_bytes;
  return params;
}

void add_turn(Work& work, ocellus_session* session, const std::vector<uint8_t>& picture, int32_t images) {
  work.expect(ocellus_session_begin_turn(session));
  for (int32_t i = 0; i < images; ++i, ++work.images)
    work.expect(ocellus_session_add_encoded_image(session, picture.data(), static_cast<int64_t>(picture.size())));
  const char prompt[] = "What is on the left, and which colour has it?";
  work.expect(ocellus_session_add_text(session, prompt, sizeof prompt - 1, 0));
  work.expect(ocellus_session_end_turn(session));
}

void generate(Work& work, ocellus_session* session, const ocellus_generate_params& params) {
  ocellus_generate_stats stats;
  work.expect(ocellus_session_generate(session, &params, &stats));
  work.tokens += stats.generated_tokens;
}

/// A forced answer, read on by the model.
void score(Work& work, ocellus_session* session, const std::vector<uint8_t>& picture) {
  const int32_t tokens[] = {297, 330, 438, 389, 20};
  float values[5] = {};
  work.expect(ocellus_session_reset(session));
  add_turn(work, session, picture, 1);
  work.expect(ocellus_session_score(session, tokens, 5, values, nullptr));
  for (const float value : values) work.failures += !(value < 0);
  generate(work, session, params_for(work, 4));
}

/// Greedy, sampled with every filter, in a batch, and whatever is refused.
void work_hard(Work& work, ocellus_session* const* sessions, const std::vector<std::vector<uint8_t>>& pictures) {
  ocellus_generate_params sampled = params_for(work, 100);
  sampled.temperature = 0.8f;
  sampled.top_k = 100;
  sampled.top_p = 0.9f;
  sampled.min_p = 0.01f;
  sampled.repetition_penalty = 1.2f;
  for (int32_t round = 0; round < 20; ++round, ++work.resets) {
    work.expect(ocellus_session_reset(sessions[0]));
    if (round % 5 != 0) continue;
    add_turn(work, sessions[0], pictures[static_cast<size_t>(round / 5) % pictures.size()], 4);
    generate(work, sessions[0], round == 5 ? sampled : params_for(work, 100));
  }
  score(work, sessions[0], pictures[0]);
  for (const int32_t count : {2, 4, kSessions}) {
    for (int i = 0; i < count; ++i) work.expect(ocellus_session_reset(sessions[i]));
    for (int i = 0; i < count; ++i) add_turn(work, sessions[i], pictures[0], 1);
    ocellus_generate_params params[kSessions];
    for (int i = 0; i < count; ++i) params[i] = i % 2 == 0 ? params_for(work, 60 - i) : sampled;
    ocellus_generate_stats stats[kSessions];
    work.expect(ocellus_batch_generate(sessions, params, stats, count));
    for (int i = 0; i < count; ++i) work.tokens += stats[i].generated_tokens;
    ++work.batches;
  }
}

void be_refused(Work& work, ocellus_session* session, const std::vector<uint8_t>& picture) {
  work.expect(ocellus_session_reset(session));
  work.expect_refusal(ocellus_session_add_encoded_image(session, picture.data(), 60), OCELLUS_BAD_IMAGE);
  work.expect_refusal(ocellus_session_add_encoded_image(session, "8BPS\0\1..", 8), OCELLUS_UNSUPPORTED);
  work.expect_refusal(
      ocellus_session_add_encoded_image(session, picture.data(), static_cast<int64_t>(picture.size() / 2)),
      OCELLUS_BAD_IMAGE);
  add_turn(work, session, picture, 4);
  work.expect_refusal(ocellus_session_add_encoded_image(session, picture.data(), static_cast<int64_t>(picture.size())),
                      OCELLUS_FULL);
  ocellus_session_cancel(session);
  ocellus_generate_params params = params_for(work, 4);
  work.expect_refusal(ocellus_session_generate(session, &params, nullptr), OCELLUS_CANCELLED);
  add_turn(work, session, picture, 1);
  params.deadline_ns = 1;
  work.expect_refusal(ocellus_session_generate(session, &params, nullptr), OCELLUS_DEADLINE);
  add_turn(work, session, picture, 1);
  params = params_for(work, 1 << 20);
  generate(work, session, params);  // until the session is full
  work.expect_refusal(ocellus_session_begin_turn(session), OCELLUS_FULL);
}

/// Turns of which the newest two pictures stay, or short conversations in which all tokens compete; now and then one is
/// cancelled.
void go_on(Work& work, ocellus_session* session, const std::vector<std::vector<uint8_t>>& pictures, bool rolling,
           std::string_view evict) {
  if (rolling) work.expect(ocellus_session_set_rolling(session, 2, 16));
  for (int32_t turn = 0; turn < 15; ++turn) {
    if (!rolling && turn % 2 == 0) work.expect(ocellus_session_reset(session));
    add_turn(work, session, pictures[static_cast<size_t>(turn) % pictures.size()], 1 + turn % 2);
    generate(work, session, params_for(work, 12));
    int32_t count = 0, layer = 0;
    if (evict == "david") work.expect(ocellus_session_get_ncar(session, nullptr, 0, &count, &layer));
    if (turn % 5 != 4) continue;
    add_turn(work, session, pictures[0], 1);
    ocellus_session_cancel(session);
    const ocellus_generate_params params = params_for(work, 4);
    work.expect_refusal(ocellus_session_generate(session, &params, nullptr), OCELLUS_CANCELLED);
  }
}

struct Setting {
  std::string_view evict;
  bool rolling;
  int32_t bits, lean;
  ocellus_reuse reuse = OCELLUS_REUSE_NONE;
  std::string_view scheme = "per-image:tau-low=0";
};

void set_limits(const Setting& setting, ocellus_limits* limits) {
  limits->thread_count = 2;
  limits->max_images = 4;
  limits->max_text_tokens = 200;
  limits->max_image_pixels = 65536;
  limits->max_prompt_rows = 150;
  limits->lean = setting.lean;
  limits->cache.kv_bits = setting.bits;
  ocellus::test::set_text(limits->cache.kv_scheme, setting.scheme);
  if (setting.lean != 0 && setting.bits < 16) {  // layers of different bits, and small scales
    ocellus::test::add_option(limits->cache.kv_scheme, "scales=6");
    for (const uint8_t of_layer : {2, 1, 1, 1, 1, 1, 2, 4})
      limits->cache.layer_bits[limits->cache.layer_bits_count++] = of_layer;
    limits->cache.layer_value_bits[0] = 1;
    limits->cache.layer_value_bits[1] = 4;
  }
  ocellus::test::set_text(limits->cache.evict, setting.evict);
  limits->cache.keep = setting.evict == "none" ? 1.0f : 0.5f;
  limits->reuse = setting.reuse;
  limits->reuse_rows = 8;
  limits->cache.compress_at = setting.rolling ? OCELLUS_COMPRESS_IMAGE_END : OCELLUS_COMPRESS_BEFORE_SUFFIX;
}

}  // namespace

TEST_CASE("the counters see every way to allocate") {
  // Volatile pointers keep the compiler from leaving pairs of calls out.
  void* volatile memory = nullptr;
  {
    const CallCounter counter;
    memory = std::malloc(10);
    memory = std::realloc(memory, 20);
    std::free(memory);
    memory = std::calloc(2, 3);
    std::free(memory);
    memory = std::aligned_alloc(64, 64);
    std::free(memory);
    memory = new int(1);
    delete static_cast<int*>(memory);
    memory = new char[100];
    delete[] static_cast<char*>(memory);
    memory = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ::munmap(memory, 4096);
    memory = ::sbrk(0);
    std::thread([] {}).join();
    memory = ::strdup("a copy that libc makes");
    std::free(memory);
  }
  CHECK(calls_of(kMalloc) >= 2);  // ours, and libc's own
  CHECK(calls_of(kRealloc) == 1);
  CHECK(calls_of(kCalloc) >= 1);
  CHECK(calls_of(kAligned) == 1);
  CHECK(calls_of(kNew) >= 3);
  CHECK(calls_of(kFree) >= 7);
  CHECK(calls_of(kMap) >= 2);
  CHECK(calls_of(kBreak) == 1);
  CHECK(calls_of(kThread) == 1);
  const int64_t before = calls_of(kMalloc);
  memory = std::malloc(10);
  std::free(memory);
  CHECK(calls_of(kMalloc) == before);  // not counting
#if OCELLUS_HAS_CUDA
  if (ocellus_gpu_count() == 0) return;
  {
    const CallCounter counter;
    if (cudaMalloc(const_cast<void**>(&memory), 256) == cudaSuccess) (void)cudaFree(memory);
  }
  CHECK(calls_of(kCuda) == 1);
#endif
}

TEST_CASE("an engine allocates when it is created and never again") {
  const ModelPair pair = bundled_pair();
  ocellus_model* model = nullptr;
  REQUIRE(ocellus_model_open(pair.model.c_str(), pair.mmproj.c_str(), &model) == OCELLUS_OK);
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits.thread_count = 2;
  config.limits.max_sessions = kSessions;
  config.limits.max_images = 4;
  config.limits.max_text_tokens = 200;
  config.limits.max_image_pixels = 65536;
  config.limits.max_prompt_rows = 150;           // prompts are read in several chunks
  const bool has_gpu = ocellus_gpu_count() > 0;  // to look for one makes the driver start, not the engine
  ocellus_engine* engine = nullptr;
  {
    const CallCounter counter;
    REQUIRE(ocellus_engine_create(model, &config, &engine) == OCELLUS_OK);
  }
  CHECK(total_calls() > 0);
  if (!has_gpu) {                // CUDA maps memory and starts threads of its own
    CHECK(calls_of(kMap) == 1);  // the one allocation
    CHECK(calls_of(kThread) == 1);
  }
  std::vector<std::vector<uint8_t>> pictures = {{}, {}, {}, ocellus::testing::make_interlaced_gif()};
  const char* const names[] = {"tests/data/shapeboard/images/115.png", "apps/samples/board_01.jpg",
                               "apps/samples/board_02.png"};
  for (int i = 0; i < 3; ++i) pictures[i] = read_bytes(kSourceDir + "/" + names[i]);
#ifdef OCELLUS_HAS_WEBP
  std::vector<uint8_t> rgba(size_t{4} * 200 * 120);  // lossy colours and lossless alpha
  for (size_t i = 0; i < rgba.size(); ++i) rgba[i] = static_cast<uint8_t>(i * i / 97);
  pictures[2] = ocellus::testing::encode_webp(rgba, 200, 120, true, {});
  REQUIRE(!pictures[2].empty());
#endif
  Work work;
  const int64_t device_bytes = free_device_bytes();
  {
    const CallCounter counter;
    ocellus_session* sessions[kSessions] = {};
    for (ocellus_session*& session : sessions) work.expect(ocellus_session_open(engine, &session));
    work_hard(work, sessions, pictures);
    be_refused(work, sessions[0], pictures[0]);
    for (ocellus_session* session : sessions) ocellus_session_close(session);
  }
  CHECK(report_calls() == 0);
  if (driver_calls() != 0) MESSAGE("the CUDA driver made " << driver_calls() << " calls of its own");
  CHECK(driver_calls() <= kMaxDriverCalls);
  CHECK(free_device_bytes() == device_bytes);
  MESSAGE(work.images << " images, " << work.tokens << " tokens, " << work.resets << " resets");
  CHECK(work.failures == 0);
  CHECK(work.images >= 20);
  CHECK(work.tokens >= 500);
  CHECK(work.resets >= 20);
  CHECK(work.batches == 3);
  CHECK(work.refusals == 7);
  CHECK(work.text_bytes > 500);
  ocellus_engine_destroy(engine);
  ocellus_model_close(model);
}

TEST_CASE("packed caches, eviction, rolling contexts, linked images and lean engines allocate nothing either") {
  const ModelPair pair = bundled_pair();
  ocellus_model* model = nullptr;
  REQUIRE(ocellus_model_open(pair.model.c_str(), pair.mmproj.c_str(), &model) == OCELLUS_OK);
  std::vector<std::vector<uint8_t>> pictures;
  for (const char* name : {"tests/data/shapeboard/images/115.png", "apps/samples/board_01.jpg"})
    pictures.push_back(read_bytes(kSourceDir + "/" + name));
  for (const Setting& setting :
       {Setting{"snapkv", true, 2, 0}, Setting{"david", false, 2, 0}, Setting{"snapkv", true, 2, 1},
        Setting{"david", false, 2, 1}, Setting{"h2o", false, 16, 0}, Setting{"streaming-llm", false, 16, 0},
        Setting{"elastic:merge=clusters,ranking=shared,metric=moving-average", false, 16, 1},
        Setting{"none", false, 16, 0, OCELLUS_REUSE_CARRY}, Setting{"none", false, 16, 0, OCELLUS_REUSE_BLEND},
        Setting{"none", false, 2, 0, OCELLUS_REUSE_PREFIX}, Setting{"none", false, 2, 1, OCELLUS_REUSE_MPIC},
        Setting{"none", false, 4, 0, OCELLUS_REUSE_NONE, "kivi:residual=20"},
        Setting{"none", false, 1, 0, OCELLUS_REUSE_NONE, "calibquant:tau-high=2"},
        Setting{"snapkv", false, 2, 0, OCELLUS_REUSE_NONE, "calibquant"}}) {
    CAPTURE(setting.evict);
    ocellus_engine_config config;
    ocellus_engine_config_init(&config);
    set_limits(setting, &config.limits);
    ocellus_engine* engine = nullptr;
    REQUIRE(ocellus_engine_create(model, &config, &engine) == OCELLUS_OK);
    ocellus_session* session = nullptr;
    REQUIRE(ocellus_session_open(engine, &session) == OCELLUS_OK);
    Work work;
    const int64_t device_bytes = free_device_bytes();
    {
      const CallCounter counter;
      go_on(work, session, pictures, setting.rolling, setting.evict);
    }
    CHECK(report_calls() == 0);
    CHECK(driver_calls() <= kMaxDriverCalls);
    CHECK(free_device_bytes() == device_bytes);
    CHECK(work.failures == 0);
    CHECK(work.images == 25);
    CHECK(work.tokens == 180);
    CHECK(work.refusals == 3);
    ocellus_engine_destroy(engine);
  }
  ocellus_model_close(model);
}

TEST_CASE("pictures of every family that has tiles, or takes them at any size, allocate nothing either") {
  const std::vector<uint8_t> picture = read_bytes(kSourceDir + "/apps/samples/board_01.jpg");
  for (const std::string name : {"smolvlm", "llava-1.6-mistral", "internvl3", "qwen2-vl", "qwen2.5-vl", "qwen3-vl",
                                 "cosmos3-edge", "gemma4", "lightonocr", "paddleocr"}) {
    CAPTURE(name);
    const ModelPair pair = family_pair(name);
    ocellus_limits limits = small_limits();
    limits.max_images = 2;
    const CHandles opened(pair, limits);
    ocellus_session* const session = opened.session;
    Work work;
    ocellus_generate_stats stats;
    const ocellus_generate_params params = params_for(work, 12);
    {
      const CallCounter counter;
      add_turn(work, session, picture, 2);
      work.expect(ocellus_session_generate(session, &params, &stats));
    }
    CHECK(report_calls() == 0);
    CHECK(driver_calls() <= kMaxDriverCalls);
    CHECK(work.failures == 0);
    CHECK(stats.generated_tokens == 12);
    CHECK(stats.image_count == 2);
    ocellus_model_facts facts;
    REQUIRE(ocellus_model_get_facts(opened.model, &facts) == OCELLUS_OK);
    CHECK(stats.image_tokens > 2 * (facts.any_image_size != 0 ? 1 : facts.tokens_per_view));  // there were tiles
  }
}

namespace {

/// Adds clips of three frames of one picture, and ones that are refused.
void check_clips(const ModelPair& pair) {
  ocellus_limits limits = small_limits();
  limits.max_images = 0;
  limits.max_clip_frames = 3;
  limits.max_text_tokens = 64;
  const CHandles opened(pair, limits);
  ocellus_session* const session = opened.session;
  const std::vector<uint8_t> picture = read_bytes(kSourceDir + "/apps/samples/board_01.jpg");
  const ocellus_part frame = {OCELLUS_PART_IMAGE, 0, picture.data(), std::ssize(picture), nullptr, nullptr};
  const ocellus_part frames[] = {frame, frame, frame};
  const double seconds[] = {0, 1.5, 4}, backwards[] = {0, 1.5, 1};
  const ocellus_clip clip = {3, frames, seconds, 5}, wrong = {3, frames, backwards, 5};
  const auto part_of = [](const ocellus_clip& some) {
    return ocellus_part{OCELLUS_PART_CLIP, 0, nullptr, 0, nullptr, &some};
  };
  const ocellus_part good = part_of(clip), bad = part_of(wrong);
  Work work;
  {
    const CallCounter counter;
    for (int32_t i = 0; i < 3; ++i, ++work.images) {
      work.expect(ocellus_session_reset(session));
      work.expect(ocellus_session_begin_turn(session));
      work.expect_refusal(ocellus_session_add_parts(session, &bad, 1, nullptr), OCELLUS_BAD_ARGUMENT);
      work.expect(ocellus_session_add_parts(session, &good, 1, nullptr));
      work.expect_refusal(ocellus_session_add_parts(session, &good, 1, nullptr), OCELLUS_FULL);
      work.expect(ocellus_session_end_turn(session));
      generate(work, session, params_for(work, 12));
    }
  }
  CHECK(report_calls() == 0);
  CHECK(driver_calls() <= kMaxDriverCalls);
  CHECK(work.failures == 0);
  CHECK(work.refusals == 6);
  CHECK(work.tokens == 36);
}

}  // namespace

TEST_CASE("clips allocate nothing either, nor do those that are refused") {
  const std::string pairs = kSourceDir + "/tests/data/families/qwen3-vl";
  check_clips(bundled_pair());
  check_clips({pairs + "/model.gguf", pairs + "/mmproj.gguf"});
}

TEST_CASE("images that the library's memory tier holds allocate nothing, however they are added") {
  const ModelPair pair = bundled_pair();
  ocellus_model* model = nullptr;
  REQUIRE(ocellus_model_open(pair.model.c_str(), pair.mmproj.c_str(), &model) == OCELLUS_OK);
  std::string folder = (std::filesystem::temp_directory_path() / "ocellus-library-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  ocellus_library* library = nullptr;
  REQUIRE(ocellus_library_open(folder.c_str(), 0, &library) == OCELLUS_OK);
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  set_limits({"none", false, 16, 0, OCELLUS_REUSE_CARRY}, &config.limits);
  config.limits.library = 1;
  config.limits.library_cache_bytes = int64_t{8} << 20;
  ocellus_engine* engine = nullptr;
  REQUIRE(ocellus_engine_create(model, &config, &engine) == OCELLUS_OK);
  ocellus_session* session = nullptr;
  REQUIRE(ocellus_session_open(engine, &session) == OCELLUS_OK);
  REQUIRE(ocellus_session_set_library(session, library, "ann") == OCELLUS_OK);
  const std::vector<uint8_t> picture = read_bytes(kSourceDir + "/apps/samples/board_01.jpg");
  const std::vector<uint8_t> other = read_bytes(kSourceDir + "/tests/data/shapeboard/images/115.png");
  Work work;
  ocellus_generate_stats stats = {};
  const auto talk = [&] {
    const auto part = [](const std::vector<uint8_t>& bytes) {
      return ocellus_part{OCELLUS_PART_IMAGE, 0, bytes.data(), static_cast<int64_t>(bytes.size()), nullptr, nullptr};
    };
    const ocellus_part parts[] = {part(picture), {OCELLUS_PART_TEXT, 0, " and ", 5, nullptr, nullptr}, part(other)};
    work.expect(ocellus_session_reset(session));
    work.expect(ocellus_session_begin_turn(session));
    work.expect(ocellus_session_add_parts(session, parts, 3, nullptr));
    work.images += 2;
    work.expect(ocellus_session_end_turn(session));
    const ocellus_generate_params params = params_for(work, 8);
    work.expect(ocellus_session_generate(session, &params, &stats));
  };
  for (int32_t i = 0; i < 3; ++i) talk();  // computed; read, or found where they were put; remembered
  {
    const CallCounter counter;
    for (int32_t i = 0; i < 20; ++i) {
      talk();
      work.failures += stats.library_memory_hits != 2;
      add_turn(work, session, picture, 1);
      generate(work, session, params_for(work, 4));
    }
  }
  CHECK(report_calls() == 0);
  CHECK(driver_calls() <= kMaxDriverCalls);
  CHECK(work.failures == 0);
  CHECK(work.images == 66);
  ocellus_session_close(session);
  ocellus_engine_destroy(engine);
  ocellus_library_close(library);
  ocellus_model_close(model);
  std::filesystem::remove_all(folder);
}
