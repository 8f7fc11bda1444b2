// Speed of encoding views of a public model's shape on a GPU: the tower and the projector, as an engine runs them.
//
//   vision_bench [SHAPE] [VIEWS]           default: SmolVLM-256M, 16 views of 512 x 512
//   vision_bench SHAPE WIDTHxHEIGHT        a picture, for shapes that take any size
//
// One JSON line: milliseconds for all views together, median of 20.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "runtime/engine/engine.h"
#include "tools/bench/gpu_timing.h"

namespace {

using namespace ocellus;
using bench::require;

double encode_ms(Engine& engine, int32_t views, Size size) {
  const ArenaScope scope(engine.arena());
  VisionScratch scratch;
  require(engine.take_scratch(&scratch));
  WaitingViews& waiting = engine.memory().pictures.waiting;
  const auto rows = static_cast<int32_t>(ViewBatch(engine.vision().config, 1, size).tokens());
  for (int32_t i = 0; i < views; ++i)
    waiting.add({{.first = i * int64_t{rows}, .cols = rows, .from_stride = rows}, size});
  Queue& queue = engine.queue();
  constexpr Queue::Timer kTimer{0};
  queue.start_timer(kTimer);
  require(waiting.encode(engine.vision(), scratch, engine.memory().chunk.inputs, nullptr, queue));
  queue.stop_timer(kTimer);
  const double ms = queue.timer_ms(kTimer);
  require(queue.finish());
  return ms;
}

}  // namespace

int main(int argument_count, char** arguments) {
  const char* shape = argument_count > 1 ? arguments[1] : "SmolVLM-256M";
  Size picture;
  const bool is_size = argument_count > 2 && std::sscanf(arguments[2], "%dx%d", &picture.width, &picture.height) == 2;
  const int32_t views = is_size ? 1 : argument_count > 2 ? std::atoi(arguments[2]) : 16;
  if (cuda_device_count() == 0) return std::puts("vision_bench: there is no GPU"), 0;
  Model model;
  require(model.open_shape(shape, "F16"));
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits.device = OCELLUS_DEVICE_CUDA;
  config.limits.max_images = 2;
  config.limits.max_encode_views = views;
  if (is_size) {
    config.limits.max_image_pixels = int64_t{picture.width} * picture.height;
    config.limits.max_image_rows = 16384;
  }
  std::unique_ptr<Engine> engine;
  require(Engine::create(model, config, &engine));
  ViewPlan plan;
  if (is_size) require(plan_views(engine->shape().pictures.preprocess, picture.width, picture.height, &plan));
  const Size size = is_size ? plan.view_size() : engine->vision().config.view_size();
  std::vector<double> times;
  for (int i = -3; i < 20; ++i) {
    const double ms = encode_ms(*engine, views, size);
    if (i >= 0) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  std::printf(
      "{\"bench\": \"vision\", \"shape\": \"%s\", \"views\": %d, \"width\": %d, \"height\": %d, \"ms_median\": %.4f, "
      "\"ms_least\": %.4f}\n",
      shape, views, size.width, size.height, times[times.size() / 2], times.front());
  return 0;
}
