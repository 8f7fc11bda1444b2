#!/bin/sh
# Usage: sh findings/libwebp-heap.sh   (Debian 12, gcc; seconds)
. "$(dirname "$0")/steps"
say "libwebp decodes in memory that the caller gives, and scaling down while it decodes keeps that small." \
  "It has no hook for its memory; a lossless picture takes 4 bytes a pixel of the heap, scaled to a tenth as well."
from_debian libwebp-dev 1.2.4 libwebp7
compile -lwebp <<'C'
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <webp/decode.h>
#include <webp/encode.h>
enum { W = 1920, H = 1080 };
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), __libc_free(void *);
static long live, peak, calls;
static void *count(void *p) {
  live += malloc_usable_size(p), ++calls;
  if (live > peak) peak = live;
  return p;
}
void *malloc(size_t n) { return count(__libc_malloc(n)); }
void *calloc(size_t n, size_t m) { return count(__libc_calloc(n, m)); }
void free(void *p) { live -= malloc_usable_size(p), __libc_free(p); }
static unsigned char rgb[W * H * 3], out[W * H * 3];
static void decode(const char *name, const unsigned char *file, size_t bytes, int width, int height) {
  WebPDecoderConfig config;
  WebPInitDecoderConfig(&config);
  config.output.colorspace = MODE_RGB, config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out, config.output.u.RGBA.stride = width * 3, config.output.u.RGBA.size = sizeof out;
  config.options.use_scaling = width < W, config.options.scaled_width = width, config.options.scaled_height = height;
  live = peak = calls = 0;
  const int status = WebPDecode(file, bytes, &config);
  printf("%s to %d x %d: status %d, heap calls: %s, bytes a pixel: %.0f\n", name, width, height, status,
         calls > 0 ? "yes" : "no", (double)peak / (W * H));
}
int main(void) {
  for (int i = 0; i < W * H * 3; ++i) rgb[i] = i % (W * 3) * 7 + i / (W * 3) * 3 + i % 5;
  unsigned char *lossy, *lossless;
  const size_t a = WebPEncodeRGB(rgb, W, H, W * 3, 80, &lossy), b = WebPEncodeLosslessRGB(rgb, W, H, W * 3, &lossless);
  decode("lossy", lossy, a, W, H);
  decode("lossless", lossless, b, W, H);
  decode("lossless", lossless, b, W / 10, H / 10);
}
C
judge "lossy to 1920 x 1080: status 0, heap calls: yes, bytes a pixel: 0
lossless to 1920 x 1080: status 0, heap calls: yes, bytes a pixel: 4
lossless to 192 x 108: status 0, heap calls: yes, bytes a pixel: 4" "$("$folder/program")"
