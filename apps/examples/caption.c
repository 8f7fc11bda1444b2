/* One picture, one sentence about it. usage: caption MODEL.gguf MMPROJ.gguf PICTURE */
#include <ocellus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print_text(void* user, const char* text, int32_t text_bytes) {
  (void)user;
  fwrite(text, 1, (size_t)text_bytes, stdout);
  return 0;
}

static ocellus_status describe(ocellus_session* session, const void* picture, int64_t picture_bytes) {
  const char* prompt = "Describe this image.";
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.on_text = print_text;
  ocellus_status status = ocellus_session_begin_turn(session);
  if (status == OCELLUS_OK) status = ocellus_session_add_encoded_image(session, picture, picture_bytes);
  if (status == OCELLUS_OK) status = ocellus_session_add_text(session, prompt, (int64_t)strlen(prompt), 0);
  if (status == OCELLUS_OK) status = ocellus_session_end_turn(session);
  if (status == OCELLUS_OK) status = ocellus_session_generate(session, &params, NULL);
  return status;
}

int main(int argc, char** argv) {
  static unsigned char picture[64 << 20];
  FILE* file = argc == 4 ? fopen(argv[3], "rb") : NULL;
  if (file == NULL) return fprintf(stderr, "usage: caption MODEL.gguf MMPROJ.gguf PICTURE\n"), 2;
  const size_t picture_bytes = fread(picture, 1, sizeof(picture), file);
  fclose(file);

  ocellus_model* model = NULL;
  ocellus_engine* engine = NULL;
  ocellus_session* session = NULL;
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  ocellus_image_facts facts;
  ocellus_status status = ocellus_image_probe(picture, (int64_t)picture_bytes, &facts);
  if (status == OCELLUS_OK) {
    config.limits.max_image_pixels = (int64_t)facts.width * facts.height;
    config.limits.max_whole_pixels = facts.whole_pixels;
    status = ocellus_model_open(argv[1], argv[2], &model);
  }
  if (status == OCELLUS_OK) status = ocellus_engine_create(model, &config, &engine);
  if (status == OCELLUS_OK) status = ocellus_session_open(engine, &session);
  if (status == OCELLUS_OK) status = describe(session, picture, (int64_t)picture_bytes);
  printf("\n");
  if (status != OCELLUS_OK) fprintf(stderr, "%s: %s\n", ocellus_status_name(status), ocellus_last_error()->sentence);
  ocellus_session_close(session);
  ocellus_engine_destroy(engine);
  ocellus_model_close(model);
  return status;
}
