# libocellus.so: the functions of ocellus.h and nothing else. Before version 1 each minor version has an interface of its
# own.
set(ocellus_soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(map ${PROJECT_BINARY_DIR}/ocellus.map)
configure_file(tools/cmake/ocellus.map.in ${map} @ONLY)
ocellus_library(ocellus_shared SHARED)
add_library(ocellus::shared ALIAS ocellus_shared)
set_target_properties(ocellus_shared PROPERTIES OUTPUT_NAME ocellus EXPORT_NAME shared VERSION ${PROJECT_VERSION}
  SOVERSION ${ocellus_soversion} LINK_DEPENDS ${map})
target_link_options(ocellus_shared PRIVATE LINKER:--version-script=${map})
