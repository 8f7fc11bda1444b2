/* An endless camera: the newest three frames stay in memory, each answer has a deadline. The frames are synthetic: a
 * bar that moves. usage: camera_loop MODEL.gguf MMPROJ.gguf FRAMES DEADLINE_MS */
#define _POSIX_C_SOURCE 199309L
#include <ocellus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kSide = 256 };
static uint8_t pixels[kSide * kSide * 3];

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int print_text(void* user, const char* text, int32_t text_bytes) {
  (void)user;
  return fwrite(text, 1, (size_t)text_bytes, stdout) != (size_t)text_bytes;
}

static ocellus_status answer(ocellus_session* session, const char* prompt) {
  const ocellus_frame frame = {
      .format = OCELLUS_RGB8, .width = kSide, .height = kSide, .plane = {pixels}, .stride_bytes = {kSide * 3}};
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = 32;
  params.on_text = print_text;
  ocellus_status status = ocellus_session_begin_turn(session);
  if (status == OCELLUS_OK) status = ocellus_session_add_image(session, &frame);
  if (status == OCELLUS_OK) status = ocellus_session_add_text(session, prompt, (int64_t)strlen(prompt), 0);
  if (status == OCELLUS_OK) status = ocellus_session_end_turn(session);
  return status == OCELLUS_OK ? ocellus_session_generate(session, &params, NULL) : status;
}

int main(int argc, char** argv) {
  if (argc != 5) return fprintf(stderr, "usage: camera_loop MODEL.gguf MMPROJ.gguf FRAMES DEADLINE_MS\n"), 2;
  ocellus_model* model = NULL;
  ocellus_engine* engine = NULL;
  ocellus_session* session = NULL;
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits.max_images = 3;
  config.limits.max_image_pixels = kSide * kSide;
  config.limits.cache.kv_bits = 2;
  config.limits.cache.compress_at = OCELLUS_COMPRESS_IMAGE_END; /* images keep slots of their own */
  ocellus_status status = ocellus_model_open(argv[1], argv[2], &model);
  if (status == OCELLUS_OK) status = ocellus_engine_create(model, &config, &engine);
  if (status == OCELLUS_OK) status = ocellus_session_open(engine, &session);
  if (status == OCELLUS_OK) status = ocellus_session_set_rolling(session, 3, 4);
  for (int i = 0; i < atoi(argv[3]) && status == OCELLUS_OK; ++i) {
    const int64_t captured = now_ns();
    for (int y = 0; y < kSide; ++y) memset(pixels + y * kSide * 3, y / 64 == i % 4 ? 230 : 20, kSide * 3);
    ocellus_session_set_deadline(session, captured + atoll(argv[4]) * 1000000);
    printf("%d: ", i);
    status = answer(session, "Describe this image.");
    printf("  [%s, %.1f ms old]\n", ocellus_status_name(status), (double)(now_ns() - captured) / 1e6);
    if (status == OCELLUS_DEADLINE) status = ocellus_session_reset(session); /* the next frame matters more */
  }
  if (status != OCELLUS_OK) fprintf(stderr, "%s: %s\n", ocellus_status_name(status), ocellus_last_error()->sentence);
  ocellus_session_close(session);
  ocellus_engine_destroy(engine);
  ocellus_model_close(model);
  return status;
}
