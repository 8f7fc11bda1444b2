/* How many pictures fit in a given amount of memory, by bits of the cache? Loads no weights.
 * usage: budget MODEL.gguf MMPROJ.gguf MEGABYTES... */
#include <ocellus.h>
#include <stdio.h>
#include <stdlib.h>

static ocellus_plan plan; /* 16 KB: not for the stack */

int main(int argc, char** argv) {
  static const int32_t bits[] = {16, 4, 2};
  ocellus_model* model = NULL;
  if (argc < 4) return fprintf(stderr, "usage: budget MODEL.gguf MMPROJ.gguf MEGABYTES...\n"), 2;
  if (ocellus_model_open(argv[1], argv[2], &model)) return fprintf(stderr, "%s\n", ocellus_last_error()->sentence), 4;

  for (int i = 3; i < argc; ++i) {
    const long long megabytes = atoll(argv[i]);
    if (megabytes < 1 || megabytes > 1000000) {
      fprintf(stderr, "%s: write a number of megabytes from 1 to 1000000\n", argv[i]);
      ocellus_model_close(model);
      return 2;
    }
    for (int k = 0; k < 3; ++k) {
      ocellus_limits limits;
      ocellus_limits_init(&limits);
      limits.max_image_pixels = 640 * 480;
      limits.lean = 1;
      limits.budget_bytes = megabytes * 1000000;
      limits.cache.kv_bits = bits[k];
      if (ocellus_plan_memory(model, &limits, &plan)) {
        fprintf(stderr, "%s\n", ocellus_last_error()->sentence);
        ocellus_model_close(model);
        return 1;
      }
      printf("%s MB, %2d bits: ", argv[i], (int)bits[k]);
      if (plan.fits) {
        printf("%d pictures of %lld bytes\n", (int)plan.images_in_budget, (long long)plan.kv_bytes_per_image);
      } else {
        printf("%lld bytes are missing; %s\n", (long long)plan.shortfall_bytes, plan.advice[0].text);
      }
    }
  }
  ocellus_model_close(model);
  return 0;
}
