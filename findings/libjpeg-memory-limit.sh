#!/bin/sh
# Usage: sh findings/libjpeg-memory-limit.sh   (Debian 12, gcc; seconds)
. "$(dirname "$0")/steps"
say "max_memory_to_use makes libjpeg-turbo decode in so much memory; rows are read one by one, so little is needed." \
  "A progressive JPEG takes 3 bytes a pixel (4:2:0) before its first row, and with less allowed it is refused."
from_debian libjpeg62-turbo-dev 1:2.1.5 libjpeg62-turbo
compile -ljpeg <<'C'
#include <malloc.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <jpeglib.h>
enum { W = 1920, H = 1080 };
extern void *__libc_malloc(size_t), __libc_free(void *);
static long live, peak;
void *malloc(size_t n) {
  void *p = __libc_malloc(n);
  live += malloc_usable_size(p);
  if (live > peak) peak = live;
  return p;
}
void free(void *p) { live -= malloc_usable_size(p), __libc_free(p); }
static jmp_buf refused;
static char sentence[JMSG_LENGTH_MAX];
static void refuse(j_common_ptr c) { c->err->format_message(c, sentence), longjmp(refused, 1); }
static unsigned char row[W * 3], *rows = row;
static void run(int progressive, long limit) {
  struct jpeg_error_mgr errors;
  struct jpeg_compress_struct c = {.err = jpeg_std_error(&errors)};
  unsigned char *file = NULL;
  unsigned long bytes = 0;
  jpeg_create_compress(&c), jpeg_mem_dest(&c, &file, &bytes);
  c.image_width = W, c.image_height = H, c.input_components = 3, c.in_color_space = JCS_RGB;
  jpeg_set_defaults(&c);
  if (progressive) jpeg_simple_progression(&c);
  jpeg_start_compress(&c, TRUE);
  for (int y = 0; y < H; ++y) {
    for (int x = 0; x < W * 3; ++x) row[x] = x * 7 + y * 3;
    jpeg_write_scanlines(&c, &rows, 1);
  }
  jpeg_finish_compress(&c), jpeg_destroy_compress(&c);
  struct jpeg_decompress_struct d = {.err = jpeg_std_error(&errors)};
  errors.error_exit = refuse;
  live = peak = 0, sentence[0] = 0;
  jpeg_create_decompress(&d);
  if (limit) d.mem->max_memory_to_use = limit;
  if (!setjmp(refused)) {
    jpeg_mem_src(&d, file, bytes), jpeg_read_header(&d, TRUE), jpeg_start_decompress(&d);
    while (d.output_scanline < H) jpeg_read_scanlines(&d, &rows, 1);
  }
  printf("%s, limit %ld: %d rows, bytes a pixel: %.1f%s%s\n", progressive ? "progressive" : "baseline", limit,
         (int)d.output_scanline, (double)peak / (W * H), *sentence ? ", " : "", sentence);
  jpeg_destroy_decompress(&d);
}
int main(void) { run(0, 1000000), run(1, 0), run(1, 1000000); }
C
judge "baseline, limit 1000000: 1080 rows, bytes a pixel: 0.0
progressive, limit 0: 1080 rows, bytes a pixel: 3.1
progressive, limit 1000000: 0 rows, bytes a pixel: 0.0, Backing store not supported" "$("$folder/program")"
