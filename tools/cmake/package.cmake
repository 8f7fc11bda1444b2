# Debian packages: `cpack -G DEB` in a build folder with OCELLUS_SHARED. ocellus is the program with its model,
# libocellus0.1 the shared library, libocellus-dev what other programs are built with.
if(NOT OCELLUS_SHARED OR NOT TARGET ocellus_app)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ocellus)
set(CPACK_PACKAGE_VENDOR "Ocellus")
set(OCELLUS_MAINTAINER "Ocellus maintainers <maintainers@ocellus.example>" CACHE STRING "Who makes the packages")
set(CPACK_PACKAGE_CONTACT ${OCELLUS_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program runtime development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(ocellus_loaded "")  # libraries that the program loads when it needs them
if(OCELLUS_HAS_CURL)
  list(APPEND ocellus_loaded libcurl4 libssl3 ca-certificates)
endif()
if(OCELLUS_HAS_HEIF)
  list(APPEND ocellus_loaded libheif1)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS libheif1)
endif()
list(JOIN ocellus_loaded ", " CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS)
file(WRITE ${PROJECT_BINARY_DIR}/package/shlibs
  "libocellus ${ocellus_soversion} libocellus${ocellus_soversion} (>= ${PROJECT_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/package/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
  ${PROJECT_BINARY_DIR}/package/shlibs ${PROJECT_BINARY_DIR}/package/triggers)
set(needs "libocellus${ocellus_soversion} (= ${PROJECT_VERSION}), libhwy-dev, libutf8proc-dev, zlib1g-dev, pkg-config")
if(OCELLUS_HAS_JPEG)
  string(APPEND needs ", libjpeg-dev")
endif()
if(OCELLUS_HAS_SQLITE)  # newer than the functions that we call tell
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "libsqlite3-0 (>= 3.37)")
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "libsqlite3-0 (>= 3.37)")
  string(APPEND needs ", libsqlite3-dev")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ${needs})
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS ocellus)

# Debian wants the licences and a changelog in each.
string(TIMESTAMP ocellus_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(tools/package/changelog.in ${PROJECT_BINARY_DIR}/package/changelog @ONLY)
execute_process(COMMAND gzip -9nf ${PROJECT_BINARY_DIR}/package/changelog COMMAND_ERROR_IS_FATAL ANY)
function(ocellus_package component name section has)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "Ocellus runs a small vision-language model, picture in and words out, inside
 one memory budget that is stated before the run. It reads GGUF files with
 their mmproj.
 This package has ${has}" PARENT_SCOPE)
  install(FILES tools/package/copyright ${PROJECT_BINARY_DIR}/package/changelog.gz
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
endfunction()
ocellus_package(program ocellus science "the program and a model for demonstrations.")
ocellus_package(runtime libocellus${ocellus_soversion} libs "the shared library.")
ocellus_package(development libocellus-dev libdevel "what programs are built with: headers, the archive, files for
 CMake and pkg-config, and examples.")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION ${CPACK_COMPONENT_PROGRAM_DESCRIPTION})
include(CPack)
