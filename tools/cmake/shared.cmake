# libocellus.so: the functions of ocellus.h and nothing else; what it needs itself is its own affair. Before version 1
# each minor version has an interface of its own.
set(ocellus_soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
configure_file(tools/cmake/ocellus.map.in ${PROJECT_BINARY_DIR}/ocellus.map @ONLY)
add_library(ocellus_shared SHARED ${ocellus_objects})
add_library(ocellus::shared ALIAS ocellus_shared)
if(OCELLUS_HAS_WEBP)
  add_dependencies(ocellus_shared ocellus_webp_object)
endif()
set_target_properties(ocellus_shared PROPERTIES OUTPUT_NAME ocellus EXPORT_NAME shared VERSION ${PROJECT_VERSION}
  SOVERSION ${ocellus_soversion} LINK_DEPENDS ${PROJECT_BINARY_DIR}/ocellus.map LINKER_LANGUAGE CXX)
target_include_directories(ocellus_shared INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_options(ocellus_shared PRIVATE LINKER:--version-script=${PROJECT_BINARY_DIR}/ocellus.map LINKER:--no-undefined
  LINKER:--as-needed)
target_link_libraries(ocellus_shared PRIVATE Threads::Threads ocellus_hwy ocellus_utf8proc ocellus_jpeg ocellus_zlib
  ocellus_sqlite3 ocellus_flags)
if(OCELLUS_HAS_CUDA)
  target_link_libraries(ocellus_shared PRIVATE CUDA::cudart_static CUDA::cublasLt)
endif()
