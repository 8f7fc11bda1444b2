#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "platform/device.h"

/// With OCELLUS_TEST_NEEDS_GPU set and no GPU the program ends as skipped: CTest then says so.
int main(int argument_count, char** arguments) {
  constexpr int kSkipped = 77;
  if (std::getenv("OCELLUS_TEST_NEEDS_GPU") != nullptr && ocellus::cuda_device_count() == 0) {
    std::puts("skipped: there is no GPU");
    return kSkipped;
  }
  return doctest::Context(argument_count, arguments).run();
}
