#!/bin/sh
# Usage: sh findings/stb-image-memory.sh   (Debian 12, gcc, PyPI; half a minute)
. "$(dirname "$0")/steps"
say "To decode a picture to RGB takes its 3 bytes a pixel, and a little more." \
  "stb_image holds whole pictures: 4.5 to 12 bytes a pixel at its peak, by format. Only BMP takes 3."
from_debian libstb-dev 0.0~git20220908
from_pypi pillow==13.0.0 numpy==2.4.6
"$python" - "$folder" <<'PYTHON'
import sys
import numpy as np
from PIL import Image
x, y = np.meshgrid(np.arange(1920), np.arange(1080))
image = Image.fromarray(np.stack([(x * 7 + y * 3 + c) % 256 for c in range(3)], -1).astype(np.uint8))
for name, options in (("1.png", {}), ("2.jpg", {}), ("3.jpg", {"progressive": True}), ("4.gif", {}), ("5.bmp", {})):
    image.save(f"{sys.argv[1]}/{name}", **options)
PYTHON
compile -lm <<'C'
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
static long live, peak;
static void *added(void *p) {
  live += malloc_usable_size(p);
  if (live > peak) peak = live;
  return p;
}
static void *take(size_t n) { return added(malloc(n)); }
static void give(void *p) { live -= malloc_usable_size(p), free(p); }
static void *resize(void *p, size_t n) { return live -= malloc_usable_size(p), added(realloc(p, n)); }
#define STBI_MALLOC take
#define STBI_FREE give
#define STBI_REALLOC resize
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
int main(int count, char **names) {
  for (int i = 1; i < count; ++i) {
    int w, h, n;
    live = peak = 0;
    give(stbi_load(names[i], &w, &h, &n, 3));
    printf("%s: %.1f\n", strrchr(names[i], '/') + 1, (double)peak / (w * h));
  }
}
C
judge "1.png: 6.0
2.jpg: 4.5
3.jpg: 7.5
4.gif: 12.0
5.bmp: 3.0" "$("$folder/program" "$folder/1.png" "$folder/2.jpg" "$folder/3.jpg" "$folder/4.gif" "$folder/5.bmp")"
