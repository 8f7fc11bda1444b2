// Delay of calls after their deadline: frames are described with deadlines at random times within the duration of a
// frame, so that every part of the work is interrupted somewhere.
//
//   deadline_bench MODEL.gguf MMPROJ.gguf [cpu|cuda] [frames] [priority]
//
// `priority`: SCHED_FIFO of this thread and the workers, for a machine with other load; memory is then locked. Prints
// one JSON object: for each interrupted call the number of times and the delay in microseconds.
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/ocellus.h"

namespace {

constexpr int32_t kWidth = 640, kHeight = 480, kTokens = 32;

int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void require(ocellus_status status) {
  if (status == OCELLUS_OK) return;
  std::fprintf(stderr, "%s\n", ocellus_last_error()->sentence);
  std::exit(1);
}

struct Outcome {
  const char* cut = nullptr;  // the call that the deadline ended; null: the frame was finished in time
  int64_t end_ns = 0;
};

class Frames {
 public:
  explicit Frames(ocellus_session* session) : session_(session), pixels_(kWidth * kHeight * 3 / 2, 128) {
    frame_.format = OCELLUS_NV12;
    frame_.width = kWidth;
    frame_.height = kHeight;
    frame_.plane[0] = pixels_.data();
    frame_.plane[1] = pixels_.data() + kWidth * kHeight;
    frame_.stride_bytes[0] = frame_.stride_bytes[1] = kWidth;
  }

  /// `deadline_ns` 0: no deadline.
  Outcome describe(int64_t deadline_ns) {
    ++count_;
    for (int32_t i = 0; i < kWidth * kHeight; ++i) pixels_[static_cast<size_t>(i)] = static_cast<uint8_t>(i * count_);
    require(ocellus_session_reset(session_));
    ocellus_session_set_deadline(session_, deadline_ns);
    static constexpr char prompt[] = "Describe this image.";
    const std::pair<const char*, ocellus_status (*)(Frames&)> calls[] = {
        {"begin_turn", [](Frames& f) { return ocellus_session_begin_turn(f.session_); }},
        {"add_image", [](Frames& f) { return ocellus_session_add_image(f.session_, &f.frame_); }},
        {"add_text", [](Frames& f) { return ocellus_session_add_text(f.session_, prompt, sizeof prompt - 1, 0); }},
        {"end_turn", [](Frames& f) { return ocellus_session_end_turn(f.session_); }},
        {"generate", [](Frames& f) { return f.generate(); }}};
    for (const auto& [name, call] : calls) {
      const ocellus_status status = call(*this);
      const int64_t end_ns = now_ns();
      if (status == OCELLUS_DEADLINE) return {name, end_ns};
      require(status);
    }
    return {nullptr, now_ns()};
  }

 private:
  ocellus_status generate() {
    ocellus_generate_params params;
    ocellus_generate_params_init(&params);
    params.max_tokens = kTokens;
    params.ignore_end = 1;
    return ocellus_session_generate(session_, &params, nullptr);
  }

  ocellus_session* session_;
  ocellus_frame frame_ = {};
  std::vector<uint8_t> pixels_;
  int32_t count_ = 0;
};

void print_late(const std::string& name, std::vector<double> late_us, const char* end) {
  std::sort(late_us.begin(), late_us.end());
  const size_t count = late_us.size();
  const auto at = [&](double share) { return late_us[std::min(count - 1, static_cast<size_t>(share * count))]; };
  std::printf("  \"%s\": {\"count\": %zu, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}%s\n", name.c_str(),
              count, at(0.5), at(0.99), late_us.back(), end);
}

void measure(ocellus_session* session, int32_t frame_count) {
  Frames frames(session);
  std::vector<double> whole_ms;
  for (int32_t i = 0; i < 12; ++i) {
    const timespec pause{0, 20'000'000};
    nanosleep(&pause, nullptr);
    const int64_t start = now_ns();
    const Outcome outcome = frames.describe(0);
    if (i >= 3) whole_ms.push_back(static_cast<double>(outcome.end_ns - start) * 1e-6);
  }
  std::sort(whole_ms.begin(), whole_ms.end());
  const double frame_ms = whole_ms[whole_ms.size() / 2];
  std::mt19937 random(7);
  std::uniform_real_distribution<double> within(0, frame_ms * 1e6);
  std::map<std::string, std::vector<double>> late_us;
  std::vector<double> all;
  for (int32_t i = 0; i < frame_count; ++i) {
    // The system stops real-time threads that have used 95 % of a second: pause, as a camera does.
    const timespec pause{0, static_cast<int64_t>(frame_ms * 0.2e6)};
    nanosleep(&pause, nullptr);
    const int64_t deadline = now_ns() + static_cast<int64_t>(within(random));
    const Outcome outcome = frames.describe(deadline);
    if (outcome.cut == nullptr) continue;
    all.push_back(static_cast<double>(outcome.end_ns - deadline) * 1e-3);
    late_us[outcome.cut].push_back(all.back());
  }
  std::printf("{\"frames\": %d, \"whole_frame_ms\": %.2f, \"in_time\": %zu, \"late\": {\n", frame_count, frame_ms,
              static_cast<size_t>(frame_count) - all.size());
  for (const auto& [name, values] : late_us) print_late(name, values, ",");
  if (!all.empty()) print_late("all", all, "");
  std::printf("}}\n");
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 3) {
    std::fprintf(stderr, "usage: deadline_bench MODEL.gguf MMPROJ.gguf [cpu|cuda] [frames] [priority]\n");
    return 2;
  }
  const bool on_gpu = argument_count > 3 && std::string(arguments[3]) == "cuda";
  const int32_t frames = argument_count > 4 ? std::atoi(arguments[4]) : 500;
  const int32_t priority = argument_count > 5 ? std::atoi(arguments[5]) : 0;
  ocellus_model* model = nullptr;
  require(ocellus_model_open(arguments[1], arguments[2], &model));
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits.device = on_gpu ? OCELLUS_DEVICE_CUDA : OCELLUS_DEVICE_CPU;
  config.limits.thread_count = 2;
  config.limits.max_image_pixels = kWidth * kHeight;
  config.limits.max_text_tokens = 128;
  config.prefault = 1;
  config.lock_memory = priority > 0 ? 1 : 0;
  config.thread_priority = priority;
  ocellus_engine* engine = nullptr;
  require(ocellus_engine_create(model, &config, &engine));
  const sched_param param{.sched_priority = priority};
  if (priority > 0 && sched_setscheduler(0, SCHED_FIFO, &param) != 0) std::perror("sched_setscheduler");
  ocellus_session* session = nullptr;
  require(ocellus_session_open(engine, &session));
  measure(session, frames);
  ocellus_engine_destroy(engine);
  ocellus_model_close(model);
}
