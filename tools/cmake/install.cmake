# What `cmake --install` copies, as three components: the program with the bundled model (program), the shared library
# (runtime), and the headers, the archive and the ways in which other builds find them (development): find_package and
# pkg-config.
include(CMakePackageConfigHelpers)
set(ocellus_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ocellus)
set(ocellus_pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

# Everything that an installation copies is built by this target, and nothing is copied while a part of it is missing.
add_custom_target(ocellus_installed)
set(ocellus_built "")
foreach(target ocellus ocellus_shared ocellus_app)
  if(TARGET ${target})
    add_dependencies(ocellus_installed ${target})
    string(APPEND ocellus_built " \"$<TARGET_FILE:${target}>\"")
  endif()
endforeach()
install(CODE "foreach(file${ocellus_built})
  if(NOT EXISTS \"\${file}\")
    message(FATAL_ERROR \"Nothing was installed: \${file} is missing. Build it first: \"
            \"cmake --build ${PROJECT_BINARY_DIR} --target ocellus_installed\")
  endif()
endforeach()" ALL_COMPONENTS)

# A static archive passes its own needs on. The build uses targets of ours for them, an installation the packages.
target_link_libraries(ocellus INTERFACE
  $<INSTALL_INTERFACE:PkgConfig::OCELLUS_hwy> $<INSTALL_INTERFACE:PkgConfig::OCELLUS_utf8proc>
  $<INSTALL_INTERFACE:PkgConfig::OCELLUS_zlib>)
set(ocellus_pc_requires "libhwy libutf8proc zlib")  # read by the configuration for find_package, too
if(OCELLUS_HAS_JPEG)
  target_link_libraries(ocellus INTERFACE $<INSTALL_INTERFACE:PkgConfig::OCELLUS_jpeg>)
  string(APPEND ocellus_pc_requires " libjpeg")
endif()
if(OCELLUS_HAS_SQLITE)
  target_link_libraries(ocellus INTERFACE $<INSTALL_INTERFACE:PkgConfig::OCELLUS_sqlite3>)
  string(APPEND ocellus_pc_requires " sqlite3")
endif()

install(TARGETS ocellus EXPORT ocellus-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
file(GLOB ocellus_headers CONFIGURE_DEPENDS runtime/ocellus*.h runtime/ocellus.hpp)
install(FILES ${ocellus_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ocellus-targets NAMESPACE ocellus:: DESTINATION ${ocellus_package_dir})
if(OCELLUS_SHARED)
  install(TARGETS ocellus_shared EXPORT ocellus-shared-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    COMPONENT runtime NAMELINK_COMPONENT development)
  install(EXPORT ocellus-shared-targets NAMESPACE ocellus:: DESTINATION ${ocellus_package_dir})
endif()
configure_package_config_file(tools/cmake/ocellus-config.cmake.in ${PROJECT_BINARY_DIR}/ocellus-config.cmake
  INSTALL_DESTINATION ${ocellus_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ocellus-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ocellus-config.cmake ${PROJECT_BINARY_DIR}/ocellus-config-version.cmake
  DESTINATION ${ocellus_package_dir})

# ocellus.pc is for the shared library, and for the archive where that is all there is or with --static;
# ocellus-static.pc is for the archive alone. The prefix is found from where the file lies, so that an installed tree
# can be moved.
file(RELATIVE_PATH ocellus_prefix_from_pc
  ${CMAKE_INSTALL_PREFIX}/${ocellus_pkgconfig_dir} ${CMAKE_INSTALL_PREFIX})
if(OCELLUS_HAS_CUDA)
  set(ocellus_pc_cuda "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lcublasLt -ldl -lrt ")
endif()
if(OCELLUS_HAS_HEIF)
  set(ocellus_pc_heif "-ldl ")
endif()
set(ocellus_pc_libs "${ocellus_pc_cuda}${ocellus_pc_heif}-lstdc++ -lm -pthread")
function(ocellus_write_pc name library private)
  set(ocellus_pc_name ${name})
  set(ocellus_pc_library ${library})
  set(ocellus_pc_private ${private})
  configure_file(tools/cmake/ocellus.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${ocellus_pkgconfig_dir})
endfunction()
if(OCELLUS_SHARED)
  ocellus_write_pc(ocellus "-locellus\nLibs.private:" ".private")
else()
  ocellus_write_pc(ocellus "-locellus" "")
endif()
ocellus_write_pc(ocellus-static "-l:libocellus.a" "")

if(TARGET ocellus_app)
  install(TARGETS ocellus_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(DIRECTORY apps/models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/ocellus/models COMPONENT program
    FILES_MATCHING PATTERN "*.gguf" PATTERN "*.calib.json" PATTERN "README.md")
endif()
install(DIRECTORY apps/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libocellus-dev)
include(tools/cmake/package.cmake)
