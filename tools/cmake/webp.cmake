# libwebp's decoder as one object of the library. libwebp has no hooks for its memory, and a lossless file of a few kB can
# make it take hundreds of MB. So malloc, calloc and free in it are renamed to functions of mm/pictures/webp_decoder.cpp,
# which hand out planned scratch, and every other name becomes local, so that it meets nobody's own libwebp.
ocellus_choice(OCELLUS_WEBP "AUTO;ON;OFF" "Decode WebP, which needs libwebp's archive: AUTO, ON or OFF")
if(NOT OCELLUS_WEBP STREQUAL "OFF")
  find_path(OCELLUS_WEBP_INCLUDE webp/decode.h)
  find_library(OCELLUS_WEBP_ARCHIVE NAMES libwebp.a libwebpdecoder.a)
endif()
if(OCELLUS_WEBP_INCLUDE AND OCELLUS_WEBP_ARCHIVE AND CMAKE_OBJCOPY)
  set(has_webp ON)
endif()
ocellus_decide(WEBP has_webp "libwebp.a with its headers and objcopy" libwebp-dev "WebP is refused by its name")
if(NOT OCELLUS_HAS_WEBP)
  return()
endif()

set(ocellus_webp_include ${OCELLUS_WEBP_INCLUDE})
set(ocellus_webp_object ${PROJECT_BINARY_DIR}/webp_decoder.o)
set(whole ${PROJECT_BINARY_DIR}/webp_whole.o)
set(renamed WebPDecode=ocellus_webp_decode WebPInitDecoderConfigInternal=ocellus_webp_init_config
    malloc=ocellus_webp_malloc calloc=ocellus_webp_calloc free=ocellus_webp_free)
list(TRANSFORM renamed PREPEND --redefine-sym=)
add_custom_command(
  OUTPUT ${ocellus_webp_object}
  COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -Wl,-u,WebPDecode -Wl,-u,WebPInitDecoderConfigInternal
          ${OCELLUS_WEBP_ARCHIVE} -o ${whole}
  COMMAND ${CMAKE_OBJCOPY} ${renamed} ${whole}  # in one call LLVM's keeps names from before
  COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=ocellus_webp_decode --keep-global-symbol=ocellus_webp_init_config
          ${whole} ${ocellus_webp_object}
  DEPENDS ${OCELLUS_WEBP_ARCHIVE} COMMENT "Cutting the decoder out of ${OCELLUS_WEBP_ARCHIVE}" VERBATIM)
set_source_files_properties(${ocellus_webp_object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
add_custom_target(ocellus_webp_object DEPENDS ${ocellus_webp_object})  # made once, whoever needs it first
