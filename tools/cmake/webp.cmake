# libwebp's decoder as one object that becomes part of the library. libwebp has no hooks for its memory, and a lossless
# file of a few kB can make it take hundreds of MB: a table of 12 kB for a few bits. So its decoder alone is cut out of
# the static library, malloc, calloc and free in it are renamed to functions of mm/pictures/webp_decoder.cpp, which hand out
# planned scratch, and every other name becomes local, so that it meets nobody's own libwebp. Distributions build
# libwebp without marks for targets of indirect jumps; Debian's own start files have none either, and a program or shared
# library keeps that mark only if every part has it, so that nothing is lost by this object.
set(OCELLUS_HAS_WEBP OFF)
set(ocellus_webp_object "")
if(OCELLUS_WEBP STREQUAL "OFF")
  return()
endif()
find_path(OCELLUS_WEBP_INCLUDE webp/decode.h)
find_library(OCELLUS_WEBP_ARCHIVE NAMES libwebp.a libwebpdecoder.a)
if(NOT OCELLUS_WEBP_INCLUDE OR NOT OCELLUS_WEBP_ARCHIVE OR NOT CMAKE_OBJCOPY)
  if(OCELLUS_WEBP STREQUAL "ON")
    message(FATAL_ERROR "OCELLUS_WEBP is ON, but libwebp.a with its headers and objcopy were not found: install libwebp-dev")
  endif()
  message(STATUS "Without libwebp.a: WebP is refused by its name")
  return()
endif()

set(OCELLUS_HAS_WEBP ON)
set(ocellus_webp_object ${PROJECT_BINARY_DIR}/webp_decoder.o)
set(ocellus_webp_whole ${PROJECT_BINARY_DIR}/webp_whole.o)
set(ocellus_webp_names WebPDecode=ocellus_webp_decode WebPInitDecoderConfigInternal=ocellus_webp_init_config)
set(ocellus_webp_wanted "")
set(ocellus_webp_renamed "")
set(ocellus_webp_kept "")
foreach(name ${ocellus_webp_names} malloc=ocellus_webp_malloc calloc=ocellus_webp_calloc free=ocellus_webp_free)
  list(APPEND ocellus_webp_renamed --redefine-sym=${name})
endforeach()
foreach(name ${ocellus_webp_names})
  string(REGEX REPLACE "=.*" "" before ${name})
  string(REGEX REPLACE ".*=" "" after ${name})
  list(APPEND ocellus_webp_wanted -Wl,-u,${before})
  list(APPEND ocellus_webp_kept --keep-global-symbol=${after})
endforeach()
add_custom_command(
  OUTPUT ${ocellus_webp_object}
  COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib ${ocellus_webp_wanted} ${OCELLUS_WEBP_ARCHIVE} -o ${ocellus_webp_whole}
  COMMAND ${CMAKE_OBJCOPY} ${ocellus_webp_renamed} ${ocellus_webp_whole}  # in one call LLVM's keeps names from before
  COMMAND ${CMAKE_OBJCOPY} ${ocellus_webp_kept} ${ocellus_webp_whole} ${ocellus_webp_object}
  DEPENDS ${OCELLUS_WEBP_ARCHIVE} COMMENT "Cutting the decoder out of ${OCELLUS_WEBP_ARCHIVE}" VERBATIM)
set_source_files_properties(${ocellus_webp_object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
add_custom_target(ocellus_webp_object DEPENDS ${ocellus_webp_object})  # made once, whoever needs it first
