# Targets may have a kind, OCELLUS_KIND: TEST; COMMANDS, the program's; QUICK, as in other builds. Tests and commands go
# without UndefinedBehaviorSanitizer: its checks in doctest's macros, in CLI11 and JSON take GCC as long as all others.
set(of_kind $<TARGET_PROPERTY:OCELLUS_KIND>)
set(is_sanitized $<NOT:$<STREQUAL:${of_kind},QUICK>>)
if(OCELLUS_SANITIZE STREQUAL "THREAD")
  target_compile_options(ocellus_flags INTERFACE $<${is_sanitized}:-fsanitize=thread>)
  target_link_options(ocellus_flags INTERFACE -fsanitize=thread)
else()
  target_compile_options(ocellus_flags INTERFACE $<${is_sanitized}:-fsanitize=address>
    $<$<STREQUAL:${of_kind},>:-fsanitize=undefined> -fno-sanitize=vptr -fno-sanitize-recover=all
    $<$<BOOL:${OCELLUS_LIBFUZZER}>:-fsanitize=fuzzer-no-link>)
  target_link_options(ocellus_flags INTERFACE -fsanitize=address,undefined)
endif()
target_compile_options(ocellus_flags INTERFACE -fno-omit-frame-pointer -g1)

# Sanitizers find in the library what tests make it do, so they need not be in the tests. Objects that are the same in a
# build without them are linked from there: those of tests, and of the products below.
set(OCELLUS_TESTS_FROM "" CACHE PATH "A build with the same options, but not OCELLUS_SANITIZE, whose tests are linked; empty: none")

# Under sanitizers the CPU's products and attention take two thirds of a model's time. The kernels' tests have them so;
# programs that run whole models link them as in other builds: these objects come before those of the archive. All kernels
# go without checks of pointers whose harm AddressSanitizer sees, which take GCC long.
set(ocellus_products "/(attend_one|matmul(_pairs|_tiles|_vnni)?)_cpu[.]cpp")
file(GLOB_RECURSE kernel_sources ${PROJECT_SOURCE_DIR}/kernels/*_cpu.cpp)
set(products ${kernel_sources})
list(FILTER products INCLUDE REGEX ${ocellus_products})
if(NOT OCELLUS_SANITIZE STREQUAL "THREAD")
  set_property(SOURCE ${kernel_sources} APPEND PROPERTY COMPILE_OPTIONS
    -fno-sanitize=null,object-size,pointer-overflow)
  # GCC checks them in half the time at -O1; only tests of these kernels run them so.
  set_property(SOURCE ${products} APPEND PROPERTY COMPILE_OPTIONS $<${is_sanitized}:-O1>)
endif()
if(OCELLUS_TESTS_FROM)
  add_library(ocellus_quick_ops OBJECT IMPORTED)
  list(TRANSFORM products REPLACE "^${PROJECT_SOURCE_DIR}/(.+)$"
       "${OCELLUS_TESTS_FROM}/CMakeFiles/ocellus_kernels.dir/\\1.o")
  set_target_properties(ocellus_quick_ops PROPERTIES IMPORTED_OBJECTS "${products}")
else()
  add_library(ocellus_quick_ops OBJECT ${products})
  set_target_properties(ocellus_quick_ops PROPERTIES OCELLUS_KIND QUICK)
  target_compile_options(ocellus_quick_ops PRIVATE -fno-exceptions -fno-rtti)
  target_link_libraries(ocellus_quick_ops PRIVATE ocellus_kernels ocellus_flags)
endif()
