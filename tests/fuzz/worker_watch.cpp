#include "tests/fuzz/worker_watch.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <thread>

#include "tests/fuzz/byte_changes.h"
#include "tests/fuzz/heap_watch.h"

namespace ocellus::fuzz {
namespace {

constexpr size_t kSlotInputBytes = size_t{1} << 20;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Messages from a worker to its watcher, in shared memory.
struct Slot {
  std::atomic<int64_t> run;         // the one under way, or the next
  std::atomic<int64_t> started_ns;  // start of the current run; 0: none
  int64_t executions, accepted, over_memory, worst_ns, worst_heap_bytes;
  size_t input_bytes;
  uint8_t input[kSlotInputBytes];
};

struct Unmap {
  size_t bytes;
  void operator()(Slot* slots) const { ::munmap(slots, bytes); }
};

std::unique_ptr<Slot, Unmap> share_slots(int count) {
  const size_t bytes = sizeof(Slot) * static_cast<size_t>(count);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "there is memory to share with the workers");
  return {static_cast<Slot*>(memory), Unmap{bytes}};
}

void keep_input(const Target& target, const RunPlan& plan, const char* what, const Slot& slot) {
  const std::string name =
      std::string(what) + "-" + target.name + "-" + std::to_string(plan.seed) + "-" + std::to_string(slot.run.load());
  std::ofstream file(plan.faults_folder + "/" + name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(slot.input), static_cast<std::streamsize>(slot.input_bytes));
  std::fprintf(stderr, "%s: %s at an input of %zu bytes, kept as %s/%s\n", target.name, what, slot.input_bytes,
               plan.faults_folder.c_str(), name.c_str());
}

void run_once(const Target& target, const RunPlan& plan, const Bytes& input, Slot* slot) {
  slot->input_bytes = std::min(input.size(), kSlotInputBytes);
  std::copy_n(input.begin(), slot->input_bytes, slot->input);
  const int64_t start = now_ns();
  slot->started_ns = start;
  begin_heap_watch();
  const bool accepted = run_exactly(target, input);
  const int64_t heap_bytes = end_heap_watch();
  slot->started_ns = 0;
  slot->worst_ns = std::max(slot->worst_ns, now_ns() - start);
  slot->worst_heap_bytes = std::max(slot->worst_heap_bytes, heap_bytes);
  ++slot->executions;
  slot->accepted += accepted ? 1 : 0;
  if (heap_bytes <= target.most_heap_bytes) return;
  ++slot->over_memory;
  keep_input(target, plan, "over-memory", *slot);
}

[[noreturn]] void work(const Target& target, const RunPlan& plan, int64_t deadline_ns, Slot* slot) {
  const std::vector<Bytes> seeds = target.make_seeds();
  for (; slot->run < plan.runs && now_ns() < deadline_ns; slot->run += plan.jobs)
    run_once(target, plan, make_input(target, seeds, plan.seed, slot->run), slot);
  std::exit(0);  // LeakSanitizer looks now
}

// A worker and what became of it.
class Worker {
 public:
  Worker(const Target& target, const RunPlan& plan, int64_t deadline_ns, int job, Slot* slot)
      : target_(target), plan_(plan), deadline_ns_(deadline_ns), slot_(slot) {
    slot_->run = job;
    start();
  }

  bool is_running() const { return process_ > 0; }

  void look(RunCounts* counts) {
    if (!is_running()) return;
    const int64_t started = slot_->started_ns;
    const bool is_late = started != 0 && now_ns() - started > plan_.run_ms * 1'000'000;
    if (is_late) ::kill(process_, SIGKILL);
    int status = 0;
    if (::waitpid(process_, &status, is_late ? 0 : WNOHANG) != process_) return;
    process_ = 0;
    if (!is_late && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    ++(is_late ? counts->timeouts : counts->crashes);
    keep_input(target_, plan_, is_late ? "timeout" : "crash", *slot_);
    if (slot_->started_ns == 0) return;  // it died at its end: a leak
    slot_->started_ns = 0;
    ++slot_->executions;
    slot_->run += plan_.jobs;
    if (counts->faults() < kMaxFaults) start();
  }

 private:
  void start() {
    std::fflush(nullptr);
    process_ = ::fork();
    require(process_ >= 0, "a worker can be started");
    if (process_ == 0) work(target_, plan_, deadline_ns_, slot_);
  }

  const Target& target_;
  const RunPlan& plan_;
  const int64_t deadline_ns_;
  Slot* const slot_;
  pid_t process_ = 0;
};

}  // namespace

bool run_exactly(const Target& target, const Bytes& input) {
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[input.size()]);
  std::copy(input.begin(), input.end(), exact.get());
  return target.run(exact.get(), input.size());
}

Bytes make_input(const Target& target, const std::vector<Bytes>& seeds, uint64_t seed, int64_t run) {
  const auto number = static_cast<uint64_t>(run);
  if (number < seeds.size()) return seeds[number];
  Random random(Random(seed).bits() ^ Random(number).bits());
  Bytes input = seeds[pick_index(seeds.size(), random)];
  do {
    once_in(8, random) ? change_bytes(input, random) : target.mutate(input, random);
  } while (once_in(2, random));
  if (input.size() > target.most_bytes) input.resize(target.most_bytes);
  return input;
}

RunCounts run_target(const Target& target, const RunPlan& plan) {
  const auto slots = share_slots(plan.jobs);
  const int64_t start = now_ns();
  const int64_t deadline = plan.seconds == 0 ? INT64_MAX : start + plan.seconds * 1'000'000'000;
  RunCounts counts;
  std::vector<std::unique_ptr<Worker>> workers;
  for (int job = 0; job < plan.jobs; ++job)
    workers.push_back(std::make_unique<Worker>(target, plan, deadline, job, slots.get() + job));
  const auto is_running = [](const auto& worker) { return worker->is_running(); };
  while (std::any_of(workers.begin(), workers.end(), is_running)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (const auto& worker : workers) worker->look(&counts);
  }
  for (int job = 0; job < plan.jobs; ++job) {
    const Slot& slot = slots.get()[job];
    counts.executions += slot.executions;
    counts.accepted += slot.accepted;
    counts.over_memory += slot.over_memory;
    counts.worst_ns = std::max(counts.worst_ns, slot.worst_ns);
    counts.worst_heap_bytes = std::max(counts.worst_heap_bytes, slot.worst_heap_bytes);
  }
  if (!can_watch_heap()) counts.worst_heap_bytes = -1;
  counts.seconds = static_cast<double>(now_ns() - start) * 1e-9;
  return counts;
}

}  // namespace ocellus::fuzz
