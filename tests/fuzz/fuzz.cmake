# Every fuzz/*_fuzz.cpp holds targets, those of the program below fuzz/apps. With libFuzzer the program is libFuzzer's, else
# it makes its inputs itself; a few of them are a test, more come from tools/fuzz.py. Only builds with sanitizers have it:
# without them an input shows little, and it takes long to compile.
ocellus_glob(sources GLOB fuzz/*.cpp)
if(TARGET ocellus_app_serve)  # with the files that it reads, but not its commands, which take long to compile
  ocellus_glob(app_sources GLOB fuzz/apps/*.cpp)
  list(APPEND sources ${app_sources} ${PROJECT_SOURCE_DIR}/apps/watch/watch_settings.cpp)
  set(fuzzed base/places day/day_question day/temporal_question day/time_words setup/calibration_file setup/image_file
      setup/prompt setup/questions)
  list(TRANSFORM fuzzed REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/apps/\\1.cpp")
  add_library(ocellus_fuzzed_app STATIC ${fuzzed})
  set_target_properties(ocellus_fuzzed_app PROPERTIES OCELLUS_KIND TEST UNITY_BUILD ${OCELLUS_BATCHES})
  target_compile_options(ocellus_fuzzed_app PRIVATE -O1)
  target_link_libraries(ocellus_fuzzed_app PUBLIC ocellus_app_serve)
endif()
set(other_engine libfuzzer)
if(OCELLUS_LIBFUZZER)
  set(other_engine "(mutation_run|self_test|worker_watch)")
endif()
list(FILTER sources EXCLUDE REGEX "/${other_engine}\\.cpp$")
add_executable(ocellus_fuzz ${sources} support/gguf_builder.cpp support/random_model.cpp support/temporary_file.cpp)
target_link_libraries(ocellus_fuzz PRIVATE ocellus ocellus_xxhash $<TARGET_NAME_IF_EXISTS:ocellus_webp_files>
  $<TARGET_NAME_IF_EXISTS:ocellus_fuzzed_app>)
target_compile_definitions(ocellus_fuzz PRIVATE OCELLUS_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
target_compile_options(ocellus_fuzz PRIVATE -O1)  # the code under test is as ever
set_target_properties(ocellus_fuzz PROPERTIES OCELLUS_KIND TEST)
if(OCELLUS_LIBFUZZER)
  target_link_options(ocellus_fuzz PRIVATE -fsanitize=fuzzer)
else()
  add_test(NAME fuzz COMMAND ocellus_fuzz --runs=400 --faults=${CMAKE_CURRENT_BINARY_DIR})
  add_test(NAME fuzz_watch COMMAND ocellus_fuzz --faults=${CMAKE_CURRENT_BINARY_DIR} --self-test)
endif()
