# What `cmake --install` copies, as three components: the program with the bundled model (program), the shared library
# (runtime), and the headers, the archive and the ways in which other builds find them (development): find_package and
# pkg-config.
include(CMakePackageConfigHelpers)
set(ocellus_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ocellus)
set(ocellus_pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

# Everything that an installation copies is built by this target, and nothing is copied while a part of it is missing.
add_custom_target(ocellus_installed)
foreach(target ocellus ocellus_shared ocellus_app)
  if(TARGET ${target})
    add_dependencies(ocellus_installed ${target})
    string(APPEND ocellus_built " \"$<TARGET_FILE:${target}>\"")
  endif()
endforeach()
if(TARGET ocellus_pages)
  add_dependencies(ocellus_installed ocellus_pages)
  string(APPEND ocellus_built " \"${OCELLUS_PAGES}.done\"")
endif()
install(CODE "foreach(file${ocellus_built})
  if(NOT EXISTS \"\${file}\")
    message(FATAL_ERROR \"Nothing was installed: \${file} is missing. Build it first: \"
            \"cmake --build ${PROJECT_BINARY_DIR} --target ocellus_installed\")
  endif()
endforeach()" ALL_COMPONENTS)

install(TARGETS ocellus EXPORT ocellus-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
file(GLOB ocellus_headers CONFIGURE_DEPENDS runtime/ocellus*.h runtime/ocellus.hpp)
install(FILES ${ocellus_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ocellus-targets NAMESPACE ocellus:: DESTINATION ${ocellus_package_dir})
if(OCELLUS_SHARED)
  install(TARGETS ocellus_shared EXPORT ocellus-shared-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    COMPONENT runtime NAMELINK_COMPONENT development)
  install(EXPORT ocellus-shared-targets NAMESPACE ocellus:: DESTINATION ${ocellus_package_dir})
endif()
list(JOIN ocellus_needs " " ocellus_pc_requires)
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
  set(ocellus_pc_libs "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lcublasLt -ldl -lrt ")
endif()
if(OCELLUS_HAS_HEIF)
  string(APPEND ocellus_pc_libs "-ldl ")
endif()
string(APPEND ocellus_pc_libs "-lstdc++ -lm -pthread")
function(ocellus_write_pc ocellus_pc_name ocellus_pc_library ocellus_pc_private)
  configure_file(tools/cmake/ocellus.pc.in ${PROJECT_BINARY_DIR}/${ocellus_pc_name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${ocellus_pc_name}.pc DESTINATION ${ocellus_pkgconfig_dir})
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
if(TARGET ocellus_pages)
  install(DIRECTORY ${OCELLUS_PAGES}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
  install(DIRECTORY ${OCELLUS_PAGES}/bash-completion ${OCELLUS_PAGES}/fish
    DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT program)
  # Debian's zsh looks for those of packages elsewhere than every other zsh.
  install(CODE "set(folder site-functions)
  if(EXISTS /etc/debian_version AND CMAKE_INSTALL_PREFIX STREQUAL /usr)
    set(folder vendor-completions)
  endif()
  file(INSTALL \"${OCELLUS_PAGES}/zsh/site-functions/_ocellus\"
    DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/zsh/\${folder}\")" COMPONENT program)
endif()
install(DIRECTORY apps/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libocellus-dev)
include(tools/cmake/package.cmake)
