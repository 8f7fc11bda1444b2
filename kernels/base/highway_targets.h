// Highway targets of the library. Included before any Highway header, in every file that uses Highway, so that all
// objects agree.
#pragma once

// Adds AVX-512 with VNNI (Ice Lake, Zen 4) to the targets chosen at run time.
#define HWY_WANT_AVX3_DL

// Further targets that a build disables (tools/cmake/vectors.cmake).
#ifndef OCELLUS_DISABLED_TARGETS
#define OCELLUS_DISABLED_TARGETS 0
#endif

// The kernels keep tiles of vectors in arrays, which SVE's sizeless vectors do not allow; NEON is used there.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | (OCELLUS_DISABLED_TARGETS))

#include "hwy/targets.h"
