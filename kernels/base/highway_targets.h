// Which Highway targets the library is built for. Included before any Highway header, by everything that uses Highway,
// so that all objects agree.
#pragma once

// Adds AVX-512 with VNNI (Ice Lake, Zen 4) to the targets chosen at run time.
#define HWY_WANT_AVX3_DL

// Further ones that a build does without (tools/cmake/vectors.cmake).
#ifndef OCELLUS_DISABLED_TARGETS
#define OCELLUS_DISABLED_TARGETS 0
#endif

// The kernels keep tiles of vectors in arrays, which the sizeless vectors of SVE do not allow; NEON runs there.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | (OCELLUS_DISABLED_TARGETS))

#include "hwy/targets.h"
