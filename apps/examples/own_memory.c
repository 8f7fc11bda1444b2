/* The program's own memory instead of the engine's: planned, allocated once, passed in, kept after the engine.
 * usage: own_memory MODEL.gguf MMPROJ.gguf */
#define _POSIX_C_SOURCE 200112L
#include <ocellus.h>
#include <stdio.h>
#include <stdlib.h>

static ocellus_plan plan; /* 16 KB: not for the stack */

static int fail(const char* step) {
  fprintf(stderr, "%s: %s\n", step, ocellus_last_error()->sentence);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: own_memory MODEL.gguf MMPROJ.gguf\n"), 2;
  ocellus_model* model = NULL;
  if (ocellus_model_open(argv[1], argv[2], &model)) return fail("model");

  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits.device = OCELLUS_DEVICE_CPU;
  config.limits.max_images = 4;
  if (ocellus_plan_memory(model, &config.limits, &plan)) return fail("plan");
  void* memory = NULL;
  if (posix_memalign(&memory, 4096, (size_t)plan.total_bytes) != 0) return fprintf(stderr, "no memory\n"), 1;
  const ocellus_extent extent = {memory, plan.total_bytes};
  config.extents = &extent;
  config.extent_count = 1;

  ocellus_engine* engine = NULL;
  ocellus_engine_stats stats;
  if (ocellus_engine_create(model, &config, &engine)) return fail("engine");
  if (ocellus_engine_get_stats(engine, &stats)) return fail("stats");
  printf("planned %lld bytes, handed in as many, weights use %lld of them\n", (long long)plan.total_bytes,
         (long long)stats.weights_high_water_bytes);
  ocellus_engine_destroy(engine);
  ocellus_model_close(model);
  free(memory);
  return 0;
}
