// Promises to real-time callers: threads have the requested settings, memory stays in place, and frames cause no page
// fault, allocation or mapping. The program counts calls, so it is the one of allocation_test.cpp.
#include <doctest/doctest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/ocellus.h"
#include "tests/support/call_counter.h"
#include "tests/support/goldens.h"

namespace {

using namespace ocellus::test;

struct Model {
  ocellus_model* handle = nullptr;
  Model() {
    const ModelPair pair = bundled_pair();
    REQUIRE(ocellus_model_open(pair.model.c_str(), pair.mmproj.c_str(), &handle) == OCELLUS_OK);
  }
  ~Model() { ocellus_model_close(handle); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
};

ocellus_engine_config cpu_config(int32_t threads) {
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits.device = OCELLUS_DEVICE_CPU;
  config.limits.thread_count = threads;
  config.limits.max_text_tokens = 96;
  config.limits.max_tiles = 1;
  config.limits.max_image_pixels = 320 * 240;
  return config;
}

/// A camera's frame, another one every time.
struct Camera {
  static constexpr int32_t kWidth = 320, kHeight = 240;
  std::vector<uint8_t> pixels = std::vector<uint8_t>(kWidth * kHeight * 3 / 2, 128);

  ocellus_frame next(int32_t number) {
    for (int32_t i = 0; i < kWidth * kHeight; ++i) pixels[static_cast<size_t>(i)] = static_cast<uint8_t>(i * number);
    ocellus_frame frame = {};
    frame.format = OCELLUS_NV12;
    frame.width = kWidth;
    frame.height = kHeight;
    frame.plane[0] = pixels.data();
    frame.plane[1] = pixels.data() + kWidth * kHeight;
    frame.stride_bytes[0] = frame.stride_bytes[1] = kWidth;
    return frame;
  }
};

/// Describes one frame in a few words; the number of calls that failed.
int32_t describe(ocellus_session* session, const ocellus_frame& frame) {
  const char prompt[] = "What is on the left?";
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = 8;
  params.ignore_end = 1;
  ocellus_generate_stats stats;
  int32_t failures = 0;
  failures += ocellus_session_reset(session) != OCELLUS_OK;
  failures += ocellus_session_begin_turn(session) != OCELLUS_OK;
  failures += ocellus_session_add_image(session, &frame) != OCELLUS_OK;
  failures += ocellus_session_add_text(session, prompt, sizeof prompt - 1, 0) != OCELLUS_OK;
  failures += ocellus_session_end_turn(session) != OCELLUS_OK;
  failures += ocellus_session_generate(session, &params, &stats) != OCELLUS_OK || stats.generated_tokens != 8;
  return failures;
}

struct Faults {
  int64_t minor, major;
};
Faults faults_so_far() {
  rusage use = {};
  ::getrusage(RUSAGE_SELF, &use);
  return {use.ru_minflt, use.ru_majflt};
}

/// After a few frames, many more: what they cost beside time.
void check_steady_frames(ocellus_engine* engine, int32_t frames) {
  ocellus_session* session = nullptr;
  REQUIRE(ocellus_session_open(engine, &session) == OCELLUS_OK);
  Camera camera;
  int32_t failures = 0;
  const Faults at_first = faults_so_far();
  failures += describe(session, camera.next(1));
  const Faults after_first = faults_so_far();
  for (int32_t i = 2; i < 5; ++i) failures += describe(session, camera.next(i));
  Faults before, after;
  {
    const CallCounter counter;
    before = faults_so_far();
    for (int32_t i = 0; i < frames; ++i) failures += describe(session, camera.next(i));
    after = faults_so_far();
  }
  MESSAGE("the first frame took " << after_first.minor - at_first.minor << " minor faults");
  CHECK(failures == 0);
  CHECK(report_calls() == 0);
  CHECK(after.minor - before.minor == 0);
  CHECK(after.major - before.major == 0);
  ocellus_session_close(session);
}

struct ThreadFacts {
  std::string cpus;  // as the system lists them
  int policy = 0;
  int priority = 0;
  uint64_t blocked_signals = 0;
};

/// The process's threads whose names begin with "ocellus-".
std::map<std::string, ThreadFacts> named_threads() {
  std::map<std::string, ThreadFacts> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name, line;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name.rfind("ocellus-", 0) != 0) continue;
    ThreadFacts facts;
    std::ifstream status(task.path() / "status");
    while (std::getline(status, line)) {
      if (line.rfind("Cpus_allowed_list:\t", 0) == 0) facts.cpus = line.substr(19);
      if (line.rfind("SigBlk:\t", 0) == 0) facts.blocked_signals = std::stoull(line.substr(8), nullptr, 16);
    }
    const pid_t id = std::stoi(task.path().filename().string());
    sched_param param = {};
    facts.policy = sched_getscheduler(id) & ~SCHED_RESET_ON_FORK;
    sched_getparam(id, &param);
    facts.priority = param.sched_priority;
    found[name] = facts;
  }
  return found;
}

int64_t status_kilobytes(const char* field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(field, 0) == 0) return std::stoll(line.substr(std::strlen(field)));
  return -1;
}

/// The CPUs that this process may use, in order.
std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

bool may_set_priority() {
  const sched_param param{.sched_priority = 1};
  const pid_t child = ::fork();
  if (child == 0) ::_exit(sched_setscheduler(0, SCHED_FIFO, &param) == 0 ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Runs `body` in a child process that has none of the privileges this one may have; its exit status. What the child
/// finds out goes to the parent as that number, since the test framework's records stay in the child.
int run_without_privileges(rlim_t locked_bytes, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    rlimit lock = {};
    ::getrlimit(RLIMIT_MEMLOCK, &lock);
    lock.rlim_max = std::min(lock.rlim_max, locked_bytes);  // no limit may be raised
    lock.rlim_cur = lock.rlim_max;
    const rlimit priority{0, 0};
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2] = {};
    if (::setrlimit(RLIMIT_MEMLOCK, &lock) != 0 || ::setrlimit(RLIMIT_RTPRIO, &priority) != 0 ||
        ::syscall(SYS_capset, &header, none) != 0)
      ::_exit(90);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 91;
}

bool sentence_has(const char* text) { return std::strstr(ocellus_last_error()->sentence, text) != nullptr; }

/// Returns 0 if creation fails as expected and leaves nothing allocated, else the number of the fault.
int fail_to_create(const ocellus_model* model, const ocellus_engine_config& config, ocellus_status wanted,
                   std::initializer_list<const char*> words) {
  ocellus_engine* engine = nullptr;
  if (ocellus_engine_create(model, &config, &engine) != wanted) return 1;
  if (engine != nullptr) return 2;
  for (const char* word : words)
    if (!sentence_has(word)) return std::fprintf(stderr, "%s\n", ocellus_last_error()->sentence), 3;
  if (status_kilobytes("VmLck:") != 0) return 4;
  if (!named_threads().empty()) return 5;
  return 0;
}

}  // namespace

TEST_CASE("a hundred frames take no page fault, no allocation and no mapping") {
  const Model model;
  ocellus_engine_config config = cpu_config(2);
  config.prefault = 1;
  ocellus_engine* engine = nullptr;
  REQUIRE(ocellus_engine_create(model.handle, &config, &engine) == OCELLUS_OK);
  check_steady_frames(engine, 100);
  ocellus_engine_destroy(engine);
}

TEST_CASE("neither do they in the caller's own memory") {
  const Model model;
  ocellus_engine_config config = cpu_config(2);
  config.prefault = 1;
  const auto plan = std::make_unique<ocellus_plan>();
  REQUIRE(ocellus_plan_memory(model.handle, &config.limits, plan.get()) == OCELLUS_OK);
  const auto bytes = static_cast<size_t>(plan->total_bytes);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const ocellus_extent extent{memory, plan->total_bytes};
  config.extents = &extent;
  config.extent_count = 1;
  ocellus_engine* engine = nullptr;
  REQUIRE(ocellus_engine_create(model.handle, &config, &engine) == OCELLUS_OK);
  check_steady_frames(engine, 20);
  ocellus_engine_destroy(engine);
  ::munmap(memory, bytes);
}

TEST_CASE("locked memory is locked while the engine lives") {
  const Model model;
  ocellus_engine_config config = cpu_config(2);
  config.lock_memory = config.prefault = 1;
  ocellus_engine* engine = nullptr;
  const ocellus_status status = ocellus_engine_create(model.handle, &config, &engine);
  if (status == OCELLUS_IO && sentence_has("RLIMIT_MEMLOCK")) {
    MESSAGE("skipped: " << std::string(ocellus_last_error()->sentence));
    return;
  }
  REQUIRE(status == OCELLUS_OK);
  ocellus_engine_stats stats;
  REQUIRE(ocellus_engine_get_stats(engine, &stats) == OCELLUS_OK);
  CHECK(status_kilobytes("VmLck:") * 1024 >= stats.arena_bytes + (128 << 10));
  check_steady_frames(engine, 20);
  ocellus_engine_destroy(engine);
  CHECK(status_kilobytes("VmLck:") == 0);
}

TEST_CASE("memory that may not be locked is refused with the limit and the bytes, and nothing stays") {
  const Model model;
  ocellus_engine_config config = cpu_config(2);
  config.lock_memory = 1;
  ocellus_plan plan;
  REQUIRE(ocellus_plan_memory(model.handle, &config.limits, &plan) == OCELLUS_OK);
  const std::string needed = std::to_string(plan.total_bytes + (256 << 10));
  // Not even a stack; stacks, but not the rest.
  for (const rlim_t allowed : {rlim_t{4096}, rlim_t{4} << 20}) {
    const int outcome = run_without_privileges(allowed, [&] {
      return fail_to_create(model.handle, config, OCELLUS_IO,
                            {"RLIMIT_MEMLOCK is ", std::to_string(allowed).c_str(), needed.c_str(), "CAP_IPC_LOCK"});
    });
    CHECK(outcome == 0);
  }
}

TEST_CASE("threads are named and run with the priority and on the CPUs that were asked for") {
  const Model model;
  const std::vector<int> cpus = usable_cpus();
  ocellus_engine_config config = cpu_config(3);
  config.thread_cpus[cpus.back() / 64] = uint64_t{1} << cpus.back() % 64;
  const bool may = may_set_priority();
  config.thread_priority = may ? 7 : 0;
  if (!may) MESSAGE("without priority: this process may not set one");
  ocellus_engine* engine = nullptr;
  REQUIRE_MESSAGE(ocellus_engine_create(model.handle, &config, &engine) == OCELLUS_OK, ocellus_last_error()->sentence);
  const auto threads = named_threads();
  REQUIRE(threads.size() == 2);
  for (const char* name : {"ocellus-1", "ocellus-2"}) {
    CAPTURE(name);
    REQUIRE(threads.count(name) == 1);
    const ThreadFacts& facts = threads.at(name);
    CHECK(facts.cpus == std::to_string(cpus.back()));
    CHECK(facts.policy == (may ? SCHED_FIFO : SCHED_OTHER));
    CHECK(facts.priority == config.thread_priority);
    CHECK((facts.blocked_signals >> (SIGINT - 1) & 1) == 1);
    CHECK((facts.blocked_signals >> (SIGSEGV - 1) & 1) == 0);
  }
  CHECK(sched_getscheduler(0) == SCHED_OTHER);  // the caller is as it was
  CHECK(usable_cpus() == cpus);
  ocellus_session* session = nullptr;
  REQUIRE(ocellus_session_open(engine, &session) == OCELLUS_OK);
  Camera camera;
  CHECK(describe(session, camera.next(3)) == 0);
  ocellus_engine_destroy(engine);
  CHECK(named_threads().empty());
}

TEST_CASE("a caller of higher priority than the workers it shares a CPU with does not keep them from working") {
  if (!may_set_priority()) {
    MESSAGE("skipped: this process may not set priorities");
    return;
  }
  const Model model;
  const int cpu = usable_cpus().front();
  ocellus_engine_config config = cpu_config(3);
  config.thread_priority = 5;
  config.thread_cpus[cpu / 64] = uint64_t{1} << cpu % 64;
  // In a child, so that a caller that never comes back ends with its time and not with the tests'.
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    const sched_param high{.sched_priority = 20};
    ocellus_engine* engine = nullptr;
    ocellus_session* session = nullptr;
    if (ocellus_engine_create(model.handle, &config, &engine) != OCELLUS_OK) ::_exit(1);
    if (ocellus_session_open(engine, &session) != OCELLUS_OK) ::_exit(2);
    if (sched_setaffinity(0, sizeof one, &one) != 0 || sched_setscheduler(0, SCHED_FIFO, &high) != 0) ::_exit(3);
    Camera camera;
    int failures = 0;
    for (int32_t i = 0; i < 20; ++i) failures += describe(session, camera.next(i));
    ocellus_engine_destroy(engine);
    ::_exit(failures == 0 ? 0 : 4);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a priority that may not be had is refused with the limit that stands in the way") {
  const Model model;
  ocellus_engine_config config = cpu_config(2);
  config.thread_priority = 10;
  const int outcome = run_without_privileges(RLIM_INFINITY, [&] {
    return fail_to_create(model.handle, config, OCELLUS_IO, {"priority 10", "RLIMIT_RTPRIO", "CAP_SYS_NICE"});
  });
  CHECK(outcome == 0);
}

TEST_CASE("priorities and CPUs that do not exist are refused") {
  const Model model;
  ocellus_engine* engine = nullptr;
  for (const int32_t priority : {-1, 100, INT32_MAX}) {
    ocellus_engine_config config = cpu_config(1);
    config.thread_priority = priority;
    CHECK(ocellus_engine_create(model.handle, &config, &engine) == OCELLUS_BAD_ARGUMENT);
    CHECK(sentence_has("priority is 1 to 99"));
  }
  ocellus_engine_config config = cpu_config(2);
  const int64_t count = ::sysconf(_SC_NPROCESSORS_CONF);
  if (count <= 255) {
    config.thread_cpus[0] = 1;
    config.thread_cpus[3] = uint64_t{1} << 63;
    CHECK(ocellus_engine_create(model.handle, &config, &engine) == OCELLUS_BAD_ARGUMENT);
    CHECK(sentence_has("CPU 255"));
  }
  CHECK(engine == nullptr);
  CHECK(named_threads().empty());
}
