# What `cmake --install` copies: the archive, its one header, the program, the bundled model, and the two ways in which
# other builds find the library: find_package(ocellus) and pkg-config.
include(CMakePackageConfigHelpers)
set(ocellus_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ocellus)
set(ocellus_pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# A static archive passes its own needs on. The build uses targets of ours for them, an installation the packages.
target_link_libraries(ocellus INTERFACE
  $<INSTALL_INTERFACE:PkgConfig::OCELLUS_hwy> $<INSTALL_INTERFACE:PkgConfig::OCELLUS_utf8proc>)
if(OCELLUS_HAS_SQLITE)
  target_link_libraries(ocellus INTERFACE $<INSTALL_INTERFACE:PkgConfig::OCELLUS_sqlite3>)
  set(OCELLUS_PC_SQLITE " sqlite3")
endif()

install(TARGETS ocellus EXPORT ocellus-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES runtime/ocellus.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ocellus-targets NAMESPACE ocellus:: DESTINATION ${ocellus_package_dir})
configure_package_config_file(tools/cmake/ocellus-config.cmake.in ${CMAKE_BINARY_DIR}/ocellus-config.cmake
  INSTALL_DESTINATION ${ocellus_package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ocellus-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ocellus-config.cmake ${CMAKE_BINARY_DIR}/ocellus-config-version.cmake
  DESTINATION ${ocellus_package_dir})

# The prefix is found from where the .pc file lies, so that an installed tree can be moved.
file(RELATIVE_PATH ocellus_prefix_from_pc
  ${CMAKE_INSTALL_PREFIX}/${ocellus_pkgconfig_dir} ${CMAKE_INSTALL_PREFIX})
if(OCELLUS_HAS_CUDA)
  set(OCELLUS_CUDA_LIBS "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lcublasLt -ldl -lrt")
endif()
configure_file(tools/cmake/ocellus.pc.in ${CMAKE_BINARY_DIR}/ocellus.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/ocellus.pc DESTINATION ${ocellus_pkgconfig_dir})

if(TARGET ocellus_app)
  install(TARGETS ocellus_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY apps/models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/ocellus/models
    FILES_MATCHING PATTERN "*.gguf" PATTERN "*.calib.json" PATTERN "README.md")
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/ocellus)
