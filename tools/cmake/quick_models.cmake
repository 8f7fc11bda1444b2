# Under sanitizers the CPU's products and attention take two thirds of a model's time. The kernels' tests have them so;
# programs that run whole models link them as in other builds: these objects come before those of the archive. All kernels
# go without checks of pointers whose harm AddressSanitizer sees, which take GCC long.
function(ocellus_quick_models target)
  if(TARGET ocellus_quick_ops)
    target_link_libraries(${target} PRIVATE ocellus_quick_ops)
  endif()
endfunction()
if(NOT OCELLUS_SANITIZE)
  return()
endif()
list(TRANSFORM OCELLUS_PRODUCT_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/)
if(NOT OCELLUS_SANITIZE STREQUAL "THREAD")
  file(GLOB_RECURSE kernel_sources ${PROJECT_SOURCE_DIR}/kernels/*_cpu.cpp)
  set_property(SOURCE ${kernel_sources} APPEND PROPERTY
    COMPILE_OPTIONS -fno-sanitize=null,object-size,pointer-overflow)
  # GCC checks them in half the time at -O1; only tests of these kernels run them so.
  set_property(SOURCE ${OCELLUS_PRODUCT_SOURCES} APPEND PROPERTY
    COMPILE_OPTIONS $<$<NOT:$<BOOL:$<TARGET_PROPERTY:OCELLUS_IS_QUICK>>>:-O1>)
endif()
add_library(ocellus_quick_ops OBJECT ${OCELLUS_PRODUCT_SOURCES})
set_target_properties(ocellus_quick_ops PROPERTIES OCELLUS_IS_QUICK ON)
target_compile_options(ocellus_quick_ops PRIVATE -fno-exceptions -fno-rtti)
target_link_libraries(ocellus_quick_ops PRIVATE ocellus_kernels ocellus_flags)
