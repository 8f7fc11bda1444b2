# Libraries we use, found on the system. Each becomes one interface target of ours, so that the rest of the build
# does not depend on how a distribution packages it.
include(CheckCSourceCompiles)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
if(NOT PROJECT_IS_TOP_LEVEL)  # who links the library sees what that links
  set_target_properties(Threads::Threads PROPERTIES IMPORTED_GLOBAL TRUE)
endif()

function(ocellus_required name what package)  # a header, or a module of pkg-config
  add_library(ocellus_${name} INTERFACE)
  if(what MATCHES "[.]h")
    find_path(OCELLUS_${name}_INCLUDE ${what} PATH_SUFFIXES stb)
    set(OCELLUS_${name}_FOUND ${OCELLUS_${name}_INCLUDE})
    target_include_directories(ocellus_${name} SYSTEM INTERFACE ${OCELLUS_${name}_INCLUDE})
  else()
    pkg_check_modules(OCELLUS_${name} IMPORTED_TARGET GLOBAL ${what})
    target_link_libraries(ocellus_${name} INTERFACE PkgConfig::OCELLUS_${name})
  endif()
  if(NOT OCELLUS_${name}_FOUND)
    message(FATAL_ERROR "${what} was not found: install ${package}")
  endif()
endfunction()

# What the build can do without. Sets OCELLUS_HAS_<option>: the variable `found` is true, and OCELLUS_<option>, which is
# AUTO, ON or OFF, wants it. `without` says what is built else.
macro(ocellus_decide option found what package without)
  set(OCELLUS_HAS_${option} OFF)
  if(${found} AND NOT OCELLUS_${option} STREQUAL "OFF")
    set(OCELLUS_HAS_${option} ON)
  elseif(OCELLUS_${option} STREQUAL "ON")
    message(FATAL_ERROR "OCELLUS_${option} is ON, but ${what} was not found: install ${package}")
  elseif(OCELLUS_${option} STREQUAL "AUTO")
    message(STATUS "Without ${what}: ${without}")
  endif()
endmacro()

# As much by pkg-config, of one module or several. The target ocellus_<name> has what was found; a C source as last
# argument must compile with it.
function(ocellus_optional option name module package without)
  string(REPLACE ";" " and " what "${module}")
  ocellus_choice(OCELLUS_${option} "AUTO;ON;OFF" "Use ${what}, else ${without}: AUTO, ON or OFF")
  add_library(ocellus_${name} INTERFACE)
  if(NOT OCELLUS_${option} STREQUAL "OFF")
    pkg_check_modules(OCELLUS_${name} IMPORTED_TARGET GLOBAL ${module})
    set(is_usable "${OCELLUS_${name}_FOUND}")
    if(is_usable AND ARGN)
      set(CMAKE_REQUIRED_INCLUDES ${OCELLUS_${name}_INCLUDE_DIRS})
      check_c_source_compiles("${ARGN}" OCELLUS_${name}_IS_USABLE)
      set(is_usable "${OCELLUS_${name}_IS_USABLE}")
    endif()
  endif()
  ocellus_decide(${option} is_usable "${what}" "${package}" "${without}")
  set(OCELLUS_HAS_${option} ${OCELLUS_HAS_${option}} PARENT_SCOPE)
  if(OCELLUS_HAS_${option})
    target_link_libraries(ocellus_${name} INTERFACE PkgConfig::OCELLUS_${name})
  endif()
endfunction()

ocellus_required(stb stb_image.h libstb-dev)
ocellus_required(hwy libhwy libhwy-dev)
ocellus_required(utf8proc libutf8proc libutf8proc-dev)
ocellus_required(zlib zlib zlib1g-dev)
ocellus_required(xxhash xxhash.h libxxhash-dev)  # used header-only (XXH_INLINE_ALL)
# JPEG row by row. The classic libjpeg has the same name, but no such speed.
ocellus_optional(JPEG jpeg libjpeg "libjpeg-turbo (libjpeg-dev)" "JPEG is decoded by stb_image, whole pictures at once"
  "#include <stdio.h>\n#include <jpeglib.h>\n#ifndef LIBJPEG_TURBO_VERSION\n#error\n#endif\nint main(void) { return 0; }")
# HEIC and AVIF: only headers are needed here, the library is loaded when such a file comes.
ocellus_optional(HEIF heif libheif>=1.8 libheif-dev "HEIC and AVIF are refused by their names")
# The image library's catalogue: that branch is left out without it, and without the branch it is not looked for.
if("library" IN_LIST OCELLUS_LEFT_OUT)
  set(OCELLUS_SQLITE OFF)
endif()
ocellus_optional(SQLITE sqlite3 sqlite3>=3.37 libsqlite3-dev "the branch library is left out")
set(ocellus_needs libhwy libutf8proc zlib)  # what a static archive passes on
if(OCELLUS_HAS_JPEG)
  list(APPEND ocellus_needs libjpeg)
else()
  target_link_libraries(ocellus_jpeg INTERFACE ocellus_stb)
endif()
if(OCELLUS_HAS_SQLITE)
  list(APPEND ocellus_needs sqlite3)
else()
  list(APPEND OCELLUS_LEFT_OUT library)
endif()
if(OCELLUS_BUILD_APPS)
  # The page of `ocellus watch` and the endpoint of `ocellus serve`. Without it these say that it is missing.
  ocellus_optional(HTTP microhttpd libmicrohttpd>=0.9.75 libmicrohttpd-dev "HTTP is not built")
  # Models by name: only headers are needed here, both libraries are loaded when a model is fetched.
  ocellus_optional(CURL curl "libcurl>=7.66;libcrypto>=1.1" "libcurl4-openssl-dev and libssl-dev" "models are not fetched by name")
  ocellus_required(cli11 CLI/CLI.hpp libcli11-dev)
  # The heap of the program. Debian has no file for pkg-config; sanitizers have heaps of their own.
  ocellus_choice(OCELLUS_MIMALLOC "AUTO;ON;OFF" "Give the program mimalloc's heap, the library none: AUTO, ON or OFF")
  if(NOT OCELLUS_MIMALLOC STREQUAL "OFF" AND NOT OCELLUS_SANITIZE)
    find_package(mimalloc CONFIG QUIET)
    ocellus_decide(MIMALLOC mimalloc_FOUND mimalloc libmimalloc-dev "the program uses the C library's heap")
  endif()
endif()
if(OCELLUS_BUILD_APPS OR OCELLUS_BUILD_TESTS)
  ocellus_required(json nlohmann/json.hpp nlohmann-json3-dev)
endif()
if(OCELLUS_BUILD_TESTS)
  ocellus_required(doctest doctest/doctest.h doctest-dev)
endif()
