// Stack use of a calling thread. Its stack is painted beforehand; overwritten paint was used.
#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "platform/device.h"
#include "runtime/ocellus.h"
#include "tests/support/cache_texts.h"
#include "tests/support/goldens.h"
#include "tests/support/small_run.h"

namespace ocellus {
namespace {

constexpr size_t kLargeStack = size_t{8} << 20;
constexpr uint8_t kPaint = 0xC5;

/// Memory for one thread's stack, with an inaccessible page below it.
class PaintedStack {
 public:
  explicit PaintedStack(size_t bytes) : bytes_(bytes) {
    void* const all = mmap(nullptr, bytes + kGuard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(all != MAP_FAILED);
    all_ = static_cast<uint8_t*>(all);
    REQUIRE(mprotect(all_, kGuard, PROT_NONE) == 0);
    std::memset(lowest(), kPaint, bytes);
  }
  ~PaintedStack() { munmap(all_, bytes_ + kGuard); }
  PaintedStack(const PaintedStack&) = delete;
  PaintedStack& operator=(const PaintedStack&) = delete;

  uint8_t* lowest() const { return all_ + kGuard; }
  size_t bytes() const { return bytes_; }
  /// The most that was in use at a time, the thread's own record at the top of it included.
  int64_t used() const {
    size_t untouched = 0;
    while (untouched < bytes_ && lowest()[untouched] == kPaint) ++untouched;
    return static_cast<int64_t>(bytes_ - untouched);
  }
  /// Runs work(context) on a thread that has this stack and no other.
  void run(void* (*work)(void*), void* context) const {
    pthread_attr_t attributes;
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstack(&attributes, lowest(), bytes_) == 0);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, &attributes, work, context) == 0);
    REQUIRE(pthread_join(thread, nullptr) == 0);
    pthread_attr_destroy(&attributes);
  }

 private:
  static constexpr size_t kGuard = 4096;
  size_t bytes_;
  uint8_t* all_ = nullptr;
};

/// All that an application does, in order; the marks say how deep the stack was by then.
struct Life {
  const PaintedStack* stack = nullptr;
  std::string model_path, mmproj_path, library_path;
  std::vector<uint8_t> png, jpeg;
  ocellus_limits limits;
  bool uses_library = false;

  ocellus_status worst = OCELLUS_OK;
  std::string sentence, text;
  std::vector<std::pair<const char*, int64_t>> marks;

  void expect(ocellus_status status) {
    if (status == OCELLUS_OK || worst != OCELLUS_OK) return;
    worst = status;
    sentence = ocellus_last_error()->sentence;
  }
  void mark(const char* what) { marks.emplace_back(what, stack->used()); }

  static int collect(void* user, const char* piece, int32_t bytes) {
    static_cast<Life*>(user)->text.append(piece, static_cast<size_t>(bytes));
    return 0;
  }
  void add_turn(ocellus_session* session, const std::vector<uint8_t>& picture, const char* question) {
    expect(ocellus_session_begin_turn(session));
    expect(ocellus_session_add_encoded_image(session, picture.data(), static_cast<int64_t>(picture.size())));
    expect(ocellus_session_add_text(session, question, static_cast<int64_t>(std::strlen(question)), 0));
    expect(ocellus_session_end_turn(session));
  }

  void talk(ocellus_engine* engine) {
    ocellus_session* sessions[2] = {};
    for (ocellus_session*& session : sessions) expect(ocellus_session_open(engine, &session));
    if (worst != OCELLUS_OK) return;
    ocellus_generate_params params[2];
    ocellus_generate_stats stats[2];
    for (ocellus_generate_params& each : params) {
      ocellus_generate_params_init(&each);
      each.max_tokens = 24;
      each.temperature = 0.8f;
      each.top_k = 40;
      each.on_text = collect;
      each.user = this;
    }
    add_turn(sessions[0], png, "Describe this image.");
    mark("a PNG is added");
    expect(ocellus_session_generate(sessions[0], &params[0], &stats[0]));
    mark("an answer");
    for (ocellus_session* session : sessions) add_turn(session, jpeg, "What is on the left?");
    mark("a JPEG is added");
    expect(ocellus_batch_generate(sessions, params, stats, 2));
    mark("answers together");
    for (ocellus_session* session : sessions) ocellus_session_close(session);
  }
  void use_library(ocellus_engine* engine) {
    ocellus_library* library = nullptr;
    ocellus_session* session = nullptr;
    expect(ocellus_library_open(library_path.c_str(), 0, &library));
    expect(ocellus_session_open(engine, &session));
    if (worst != OCELLUS_OK) return;
    expect(ocellus_session_set_library(session, library, "ann"));
    mark("a library is opened");
    ocellus_generate_params params;
    ocellus_generate_params_init(&params);
    params.max_tokens = 8;
    for (int32_t round = 0; round < 2; ++round) {
      expect(ocellus_session_reset(session));
      add_turn(session, png, "What is on the left?");
      expect(ocellus_session_generate(session, &params, nullptr));
    }
    ocellus_library_hit hits[2];
    int32_t count = 0;
    expect(ocellus_session_search_library(session, png.data(), static_cast<int64_t>(png.size()), hits, 2, &count));
    expect(ocellus_library_search_text(library, "ann", "star", 4, hits, 2, &count));
    ocellus_library_report report;
    expect(ocellus_library_verify(library, &report));
    expect(ocellus_library_collect_garbage(library, &report));
    mark("a library is used");
    ocellus_session_close(session);
    ocellus_library_close(library);
  }
  void live() {
    ocellus_model* model = nullptr;
    expect(ocellus_model_open(model_path.c_str(), mmproj_path.c_str(), &model));
    mark("a model is opened");
    ocellus_plan plan;
    expect(ocellus_plan_memory(model, &limits, &plan));
    mark("a plan");
    ocellus_engine_config config;
    ocellus_engine_config_init(&config);
    config.limits = limits;
    ocellus_engine* engine = nullptr;
    if (worst == OCELLUS_OK) expect(ocellus_engine_create(model, &config, &engine));
    mark("an engine");
    if (worst == OCELLUS_OK) uses_library ? use_library(engine) : talk(engine);
    ocellus_engine_destroy(engine);
    ocellus_model_close(model);
  }
  static void* start(void* self) {
    static_cast<Life*>(self)->live();
    return nullptr;
  }
};

/// Goes away with what is in it.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "ocellus-stack-XXXXXX").string()) {
    REQUIRE(mkdtemp(path_.data()) != nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Life make_life(const PaintedStack& stack, const Folder& folder) {
  Life life;
  const test::ModelPair pair = test::bundled_pair();
  life.stack = &stack;
  life.model_path = pair.model;
  life.mmproj_path = pair.mmproj;
  life.library_path = folder.path() + "/library";
  life.png = test::read_bytes(test::kShapeboardDir + "images/115.png");
  life.jpeg = test::read_bytes(std::string(OCELLUS_SOURCE_DIR) + "/apps/samples/board_01.jpg");
  ocellus_limits_init(&life.limits);
  life.limits.thread_count = 2;
  life.limits.max_sessions = 2;
  life.limits.max_images = 2;
  life.limits.max_text_tokens = 300;
  return life;
}

struct Kind {
  const char* name;
  void (*set)(ocellus_limits* limits);
  bool uses_library;
};
constexpr Kind kKinds[] = {
    {"plain", [](ocellus_limits*) {}, false},
    {"two bits", [](ocellus_limits* limits) { limits->cache.kv_bits = 2; }, false},
    {"H2O",
     [](ocellus_limits* limits) {
       test::set_text(limits->cache.evict, "h2o");
       limits->cache.keep = 0.5f;
     },
     false},
    {"a library",
     [](ocellus_limits* limits) {
       limits->reuse = OCELLUS_REUSE_SPREAD;
       limits->reuse_rows = 8;
       limits->library = 1;
     },
     true},
};

}  // namespace

TEST_CASE("a session's whole life takes no more stack than the header says" * doctest::test_suite("long")) {
  for (const Kind& kind : kKinds) {
    CAPTURE(kind.name);
    for (const bool exact : {false, true}) {
      CAPTURE(exact);
      const PaintedStack stack(exact ? size_t{OCELLUS_STACK_BYTES} : kLargeStack);
      const Folder folder;
      Life life = make_life(stack, folder);
      kind.set(&life.limits);
      life.uses_library = kind.uses_library;
      stack.run(Life::start, &life);
      REQUIRE_MESSAGE(life.worst == OCELLUS_OK, life.sentence);
      std::string used;
      for (const auto& [what, bytes] : life.marks) used += std::string(", ") + what + " " + std::to_string(bytes);
      if (!exact) MESSAGE("bytes of stack, at most so far: " << std::string(kind.name) << used);
      if (test::is_sanitized() || built_with_cuda())
        break;  // CUDA takes what it likes, without a GPU, too: the numbers are to be read
      CHECK(life.marks.back().second < OCELLUS_STACK_BYTES * 3 / 4);
    }
  }
}

}  // namespace ocellus
