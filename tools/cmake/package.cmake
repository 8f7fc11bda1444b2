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

set(ocellus_about "Ocellus runs a small vision-language model, picture in and words out, inside
 one memory budget that is stated before the run. It reads GGUF files with
 their mmproj.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME ocellus)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(ocellus_loaded "")  # libraries that the program loads when it needs them
if(OCELLUS_HAS_CURL)
  list(APPEND ocellus_loaded libcurl4 libssl3 ca-certificates)
endif()
if(OCELLUS_HAS_HEIF)
  list(APPEND ocellus_loaded libheif1)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS libheif1)
endif()
list(JOIN ocellus_loaded ", " CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libocellus${ocellus_soversion})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
file(WRITE ${PROJECT_BINARY_DIR}/package/shlibs
  "libocellus ${ocellus_soversion} libocellus${ocellus_soversion} (>= ${PROJECT_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/package/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
  ${PROJECT_BINARY_DIR}/package/shlibs ${PROJECT_BINARY_DIR}/package/triggers)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libocellus-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "${ocellus_about}
 This package has the program and a model for demonstrations.")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "${ocellus_about}
 This package has the shared library.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "${ocellus_about}
 This package has what programs are built with: headers, the archive, files for
 CMake and pkg-config, and examples.")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION ${CPACK_COMPONENT_PROGRAM_DESCRIPTION})
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libocellus${ocellus_soversion} (= ${PROJECT_VERSION}), libhwy-dev, libutf8proc-dev, zlib1g-dev, pkg-config")
if(OCELLUS_HAS_JPEG)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libjpeg-dev")
endif()
if(OCELLUS_HAS_SQLITE)  # newer than the functions that we call tell
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "libsqlite3-0 (>= 3.37)")
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "libsqlite3-0 (>= 3.37)")
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libsqlite3-dev")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS ocellus)

# What Debian wants beside the files: in each package the licences and a changelog.
string(TIMESTAMP ocellus_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(tools/package/changelog.in ${PROJECT_BINARY_DIR}/package/changelog @ONLY)
execute_process(COMMAND gzip -9nf ${PROJECT_BINARY_DIR}/package/changelog COMMAND_ERROR_IS_FATAL ANY)
foreach(component PROGRAM RUNTIME DEVELOPMENT)
  string(TOLOWER ${component} name)
  set(folder ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${component}_PACKAGE_NAME})
  install(FILES tools/package/copyright ${PROJECT_BINARY_DIR}/package/changelog.gz DESTINATION ${folder} COMPONENT ${name})
endforeach()
include(CPack)
