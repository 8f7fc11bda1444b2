// Runs under tools that slow a program down ten times and more (compute-sanitizer): with the environment variable
// OCELLUS_TEST_SMALL set, only the GPU is tested where there is one, on one vector target at most, and loops over many
// similar cases leave most of them out.
#pragma once

#include <cstdint>
#include <cstdlib>

// There in programs with AddressSanitizer and with ThreadSanitizer.
extern "C" __attribute__((weak)) void __asan_init();
extern "C" __attribute__((weak)) void __tsan_init();

namespace ocellus::test {

/// Whether the library has been built with a sanitizer; the tests themselves may be without.
inline bool has_address_sanitizer() { return &__asan_init != nullptr; }
inline bool is_sanitized() { return has_address_sanitizer() || &__tsan_init != nullptr; }

inline bool is_small_run() {
  static const bool small = std::getenv("OCELLUS_TEST_SMALL") != nullptr;
  return small;
}

/// Small runs, and those under AddressSanitizer, where a model takes ten times as long.
inline bool is_slow_run() { return has_address_sanitizer() || is_small_run(); }

/// Returns true if this one of many similar, numbered cases is left out. One in `of` is kept; the default has no factor
/// in common with the periods at which cases change their options.
inline bool skip(uint64_t number, uint64_t of = 13) { return is_small_run() && number % of != 1; }

}  // namespace ocellus::test
