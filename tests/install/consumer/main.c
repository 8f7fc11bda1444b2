/* The smallest honest user of the installed library: one picture, one sentence about it.
 * usage: consumer MODEL.gguf MMPROJ.gguf PICTURE */
#include <ocellus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int report(const char* step) {
  fprintf(stderr, "%s: %s\n", step, ocellus_last_error()->sentence);
  return 1;
}

static void* read_file(const char* path, int64_t* byte_count) {
  FILE* file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  *byte_count = ftell(file);
  rewind(file);
  void* bytes = malloc((size_t)*byte_count);
  if (bytes && fread(bytes, 1, (size_t)*byte_count, file) != (size_t)*byte_count) {
    free(bytes);
    bytes = NULL;
  }
  fclose(file);
  return bytes;
}

static int print_text(void* user, const char* text, int32_t text_bytes) {
  fwrite(text, 1, (size_t)text_bytes, (FILE*)user);
  return 0;
}

static int describe(ocellus_session* session, const void* picture, int64_t byte_count) {
  const char* prompt = "Describe this image.";
  if (ocellus_session_begin_turn(session)) return report("begin_turn");
  if (ocellus_session_add_encoded_image(session, picture, byte_count)) return report("add_image");
  if (ocellus_session_add_text(session, prompt, (int64_t)strlen(prompt), 0)) return report("add_text");
  if (ocellus_session_end_turn(session)) return report("end_turn");

  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.on_text = print_text;
  params.user = stdout;
  if (ocellus_session_generate(session, &params, NULL)) return report("generate");
  printf("\n");
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "usage: consumer MODEL.gguf MMPROJ.gguf PICTURE\n"), 2;
  int64_t byte_count = 0;
  void* picture = read_file(argv[3], &byte_count);
  if (!picture) return fprintf(stderr, "%s cannot be read\n", argv[3]), 4;

  ocellus_model* model = NULL;
  ocellus_engine* engine = NULL;
  ocellus_session* session = NULL;
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  int failed = 0;
  if (ocellus_model_open(argv[1], argv[2], &model)) {
    failed = report("model_open");
  } else if (ocellus_engine_create(model, &config, &engine)) {
    failed = report("engine_create");
  } else if (ocellus_session_open(engine, &session)) {
    failed = report("session_open");
  } else {
    failed = describe(session, picture, byte_count);
    ocellus_session_close(session);
  }
  ocellus_engine_destroy(engine);
  ocellus_model_close(model);
  free(picture);
  return failed;
}
