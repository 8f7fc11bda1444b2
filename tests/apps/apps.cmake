# The parts of the program that need no person, and no model but tiny ones.
ocellus_glob(sources GLOB apps/camera/*_test.cpp)
ocellus_add_test_program(test_camera ${sources})
target_link_libraries(test_camera PRIVATE ocellus_app_camera)
ocellus_add_test(camera test_camera)
ocellus_glob(sources GLOB apps/base/*_test.cpp apps/day/*_test.cpp apps/plot/*_test.cpp apps/setup/*_test.cpp
  apps/watch/*_test.cpp)
list(FILTER sources EXCLUDE REGEX stop_request)
ocellus_add_test_program(test_watch ${sources} apps/setup/engine_rows.cpp)
target_link_libraries(test_watch PRIVATE ocellus_app_commands)
add_test(NAME watch COMMAND test_watch)
if(OCELLUS_HAS_HTTP)
  ocellus_glob(sources GLOB apps/http/*_test.cpp apps/serve/*_test.cpp)
  ocellus_add_test_program(test_http ${sources} support/http_client.cpp)
  target_link_libraries(test_http PRIVATE ocellus_app_serve)
  if(OCELLUS_SANITIZE)  # what it frees stays with AddressSanitizer for a while, so resident memory says nothing
    set(left_out "-tce=ten thousand*,*gigabyte*,*not read is cut off,memory and descriptors*")
  endif()
  add_test(NAME http COMMAND test_http ${left_out})
endif()

# How the program is stopped, with sessions of the test's own in place of the library's.
set(base ${PROJECT_SOURCE_DIR}/apps/base)
add_executable(test_stop apps/base/stop_request_test.cpp ${base}/status_line.cpp ${base}/stop_request.cpp)
target_include_directories(test_stop PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(test_stop PRIVATE ocellus_doctest ocellus_json ocellus_flags Threads::Threads)
set_target_properties(test_stop PROPERTIES OCELLUS_KIND TEST)
add_test(NAME stop COMMAND test_stop)

# The program with its library's steady state watched, for tests and soaks of `watch`.
if(NOT OCELLUS_SANITIZE)
  add_executable(ocellus_counted $<TARGET_OBJECTS:ocellus_app> support/library_calls.cpp)
  target_link_libraries(ocellus_counted PRIVATE ocellus_app_commands)
  foreach(call reset mark rewind begin_turn end_turn add_text add_parts generate)
    target_link_options(ocellus_counted PRIVATE LINKER:--wrap=ocellus_session_${call})
  endforeach()
  set(counted OCELLUS_COUNTED=$<TARGET_FILE:ocellus_counted>)
endif()

# samples_test is one of an installed program, too, clients_test and lmms_test take minutes of downloads: tools/test.sh.
# page_test and talk_page_test need a browser; openai_client_test, hub_client_test and convert_test install Python packages
# below the build folder, which takes a network.
file(GLOB tests CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/apps apps/*_test.py)
list(TRANSFORM tests REPLACE "_test\\.py$" "")
list(REMOVE_ITEM tests samples clients lmms)
# A sanitized model takes ten times as long for a frame as those before `cache` wait. The others ask for many captions or
# read many files, by code that other tests run, too.
set(long page talk_page watch serve endpoints openai_client realtime cache far_picture shared_images split_model convert
    answer_events clip day depth eval_matrix library plan plot pull hub_client random_model terminal watch_clip progress
    help lmms_task cli)
foreach(test ${tests})
  ocellus_add_program_test(${test} ${test} ocellus_app OCELLUS_SANITIZED=$<BOOL:${OCELLUS_SANITIZE}>
    OCELLUS_WITHOUT_WEBP=$<NOT:$<BOOL:${OCELLUS_HAS_WEBP}>> ${counted})
  if(OCELLUS_SANITIZE AND test IN_LIST long)
    set_tests_properties(app_${test} PROPERTIES LABELS long)
  endif()
endforeach()

# Builds without branches. The objects of their trunk are those of this one, so what stands in for a branch is linked
# before the archive, whose own is then not asked for. tools/branch_sizes.py shows what each takes.
if(NOT OCELLUS_SANITIZE)
  foreach(branch ${ocellus_branches})
    add_library(without_${branch} OBJECT ${PROJECT_SOURCE_DIR}/runtime/branches/${branch}/absent.cpp)
    target_link_libraries(without_${branch} PRIVATE ocellus_runtime ocellus_flags)
  endforeach()
  add_library(branches_test OBJECT runtime/engine/branches_test.cpp)
  target_link_libraries(branches_test PRIVATE ocellus_test_support)
  foreach(kept none ${ocellus_branches} all)
    set(stand_ins "")
    foreach(branch ${ocellus_branches})
      # A library keeps what the branch reuse links.
      if(NOT kept MATCHES "^(${branch}|all)$" AND NOT "${kept} ${branch}" STREQUAL "library reuse")
        list(APPEND stand_ins $<TARGET_OBJECTS:without_${branch}>)
      endif()
    endforeach()
    add_executable(caption_with_${kept} ${PROJECT_SOURCE_DIR}/apps/examples/caption.c ${stand_ins})
    target_include_directories(caption_with_${kept} PRIVATE ${PROJECT_SOURCE_DIR}/runtime)
    target_link_libraries(caption_with_${kept} PRIVATE ocellus)
    target_link_options(caption_with_${kept} PRIVATE LINKER:--gc-sections)
    set_target_properties(caption_with_${kept} PROPERTIES LINKER_LANGUAGE CXX)
    if(kept STREQUAL "all")
      continue()
    endif()
    add_executable(ocellus_with_${kept} $<TARGET_OBJECTS:ocellus_app> ${stand_ins})
    target_link_libraries(ocellus_with_${kept} PRIVATE ocellus_app_commands)
    ocellus_add_program_test(branches_${kept} branches ocellus_with_${kept})
    ocellus_add_test_program(test_branches_${kept} $<TARGET_OBJECTS:branches_test> ${stand_ins})
    ocellus_add_test(branches_${kept} test_branches_${kept})
  endforeach()
endif()
