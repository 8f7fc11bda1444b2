# An overlay port of the checkout that it lies in: vcpkg install ocellus --overlay-ports=tools/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
vcpkg_find_acquire_program(PKGCONFIG)

set(ocellus_cuda OFF)
if("cuda" IN_LIST FEATURES)
  set(ocellus_cuda ON)
endif()
set(ocellus_sqlite OFF)
if("library" IN_LIST FEATURES)
  set(ocellus_sqlite ON)
endif()
string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" dynamic ocellus_shared)

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DCMAKE_INSTALL_LIBDIR=lib
    -DOCELLUS_BUILD_APPS=OFF
    -DOCELLUS_BUILD_TESTS=OFF
    -DOCELLUS_CUDA=${ocellus_cuda}
    -DOCELLUS_HEIF=OFF
    -DOCELLUS_SQLITE=${ocellus_sqlite}
    -DOCELLUS_SHARED=${ocellus_shared}
    "-DPKG_CONFIG_EXECUTABLE=${PKGCONFIG}")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/ocellus)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/tools/package/copyright")
