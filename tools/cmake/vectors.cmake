# Which vector instruction sets the kernels are compiled for. ALL: every one Highway knows; the program chooses when it
# starts. BEST: this machine's best and none, half the work, for builds that are only tested here. NONE: plain code, for
# builds that are only compiled. Everything that includes Highway's headers must agree, so ocellus_hwy carries it.
ocellus_choice(OCELLUS_VECTORS "ALL;BEST;NONE" "Vector instruction sets of the kernels: ALL, BEST or NONE")

if(OCELLUS_VECTORS STREQUAL "NONE")
  target_compile_definitions(ocellus_hwy INTERFACE HWY_COMPILE_ONLY_EMU128)
elseif(OCELLUS_VECTORS STREQUAL "BEST" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo flags LIMIT_COUNT 1 REGEX "^flags")
  set(levels avx512_bitalg avx512bw avx2)
  set(others "AVX2|HWY_AVX3" "AVX2|HWY_AVX3_DL" "AVX3|HWY_AVX3_DL")
  foreach(flag other IN ZIP_LISTS levels others)
    if(flags MATCHES " ${flag}")
      target_compile_definitions(ocellus_hwy INTERFACE "OCELLUS_DISABLED_TARGETS=HWY_SSSE3|HWY_SSE4|HWY_${other}")
      break()
    endif()
  endforeach()
endif()
