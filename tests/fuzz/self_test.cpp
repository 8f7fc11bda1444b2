#include "tests/fuzz/self_test.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "tests/fuzz/byte_changes.h"
#include "tests/fuzz/heap_watch.h"
#include "tests/fuzz/worker_watch.h"

namespace ocellus::fuzz {
namespace {

constexpr uint8_t kSound = 0, kCrash = 1, kSlow = 2, kLarge = 3;

std::vector<Bytes> make_sound_seeds() { return {{kSound}, {kSound, 7}, {kSound, 8}}; }
std::vector<Bytes> make_bad_seeds() { return {{kSound}, {kCrash}, {kSlow}, {kLarge}, {kSound}, {kSound}}; }

void keep(Bytes&, Random&) {}

bool run(const uint8_t* data, size_t size) {
  const uint8_t kind = size == 0 ? kSound : data[0];
  if (kind == kCrash) std::abort();
  if (kind == kSlow) std::this_thread::sleep_for(std::chrono::minutes(10));
  const std::unique_ptr<uint8_t[]> block(new uint8_t[kind == kLarge ? size_t{2} << 20 : 1]);
  block[0] = kind;
  return block[0] == kSound;
}

bool read_behind(const uint8_t* data, size_t size) { return data[size] == 0; }

RunCounts count(const Target& target, const std::string& folder, int64_t runs, int64_t run_ms = 60'000) {
  RunPlan plan;
  plan.runs = runs;
  plan.jobs = 2;
  plan.run_ms = run_ms;
  plan.faults_folder = folder;
  return run_target(target, plan);
}

}  // namespace

void test_worker_watch(const std::string& faults_folder) {
  Target target = {.name = "self-test", .make_seeds = make_sound_seeds, .mutate = keep, .run = run};
  target.most_heap_bytes = int64_t{1} << 20;
  require(count(target, faults_folder, 3).faults() == 0, "sound inputs are no faults");
  require(count(target, faults_folder, 3).accepted == 3, "sound inputs are accepted");
  target.make_seeds = make_bad_seeds;
  const RunCounts counts = count(target, faults_folder, 6, /*run_ms=*/3000);
  require(counts.crashes == 1, "a crash is counted, and the work goes on");
  require(counts.timeouts == 1, "an input that takes too long is counted, and the work goes on");
  require(counts.executions == 6 && counts.accepted == 3, "every input has its turn");
  require(counts.over_memory == (can_watch_heap() ? 1 : 0), "an input that takes too much heap is counted");
  if (can_watch_heap()) {
    target.make_seeds = make_sound_seeds;
    target.run = read_behind;
    require(count(target, faults_folder, 1).crashes == 1, "a read behind the input is counted");
  }
  target.mutate = change_bytes;
  for (int64_t run = 0; run < 100; ++run)
    require(make_input(target, make_bad_seeds(), 5, run) == make_input(target, make_bad_seeds(), 5, run),
            "a run can be repeated");
  for (const Target& one : all_targets()) require(!one.make_seeds().empty(), "every target has seeds");
  std::printf("faults are noticed\n");
}

}  // namespace ocellus::fuzz
