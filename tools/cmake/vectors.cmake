# Which vector instruction sets the kernels are compiled for. ALL: every one Highway knows; the program chooses when it
# starts. BEST: this machine's best and none, half the work, for builds that are only tested here. NONE: plain code, for
# builds that are only compiled. Everything that includes Highway's headers must agree, so ocellus_hwy carries it.
set(OCELLUS_VECTORS ALL CACHE STRING "Vector instruction sets of the kernels: ALL, BEST or NONE")
set_property(CACHE OCELLUS_VECTORS PROPERTY STRINGS ALL BEST NONE)

if(OCELLUS_VECTORS STREQUAL "NONE")
  target_compile_definitions(ocellus_hwy INTERFACE HWY_COMPILE_ONLY_EMU128)
elseif(OCELLUS_VECTORS STREQUAL "BEST" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo flags LIMIT_COUNT 1 REGEX "^flags")
  if(flags MATCHES " avx512_bitalg")
    target_compile_definitions(ocellus_hwy INTERFACE "OCELLUS_DISABLED_TARGETS=HWY_SSSE3|HWY_SSE4|HWY_AVX2|HWY_AVX3")
  elseif(flags MATCHES " avx512bw")
    target_compile_definitions(ocellus_hwy INTERFACE "OCELLUS_DISABLED_TARGETS=HWY_SSSE3|HWY_SSE4|HWY_AVX2|HWY_AVX3_DL")
  elseif(flags MATCHES " avx2")
    target_compile_definitions(ocellus_hwy INTERFACE "OCELLUS_DISABLED_TARGETS=HWY_SSSE3|HWY_SSE4|HWY_AVX3|HWY_AVX3_DL")
  endif()
endif()
