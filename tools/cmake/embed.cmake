# Files inside the program. `ocellus_embed(TARGET FUNCTION "PATH FILE"...)` adds to TARGET a generated source with the bytes
# of every FILE, and FUNCTION() of embedded_files.h, which lists them with their types. It is made anew when a file changes;
# this same script does that at build time, so CMake is all it takes.
set(OCELLUS_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(ocellus_embed target function)
  list(TRANSFORM ARGN REPLACE "^.* " "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE files)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DFUNCTION=${function} "-DENTRIES=${ARGN}"
            -P ${OCELLUS_EMBED_SCRIPT}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    DEPENDS ${files} ${OCELLUS_EMBED_SCRIPT}
    COMMENT "Embedding ${function}" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE)
  return()
endif()

set(type.html "text/html; charset=utf-8")
set(type.css "text/css; charset=utf-8")
set(type.js "text/javascript; charset=utf-8")
set(type.svg "image/svg+xml")
set(type.json "application/json")
foreach(entry ${ENTRIES})
  string(REGEX MATCH "^([^ ]+) (.+(\\.[a-z]+))$" parts "${entry}")
  set(path ${CMAKE_MATCH_1})
  set(file ${CMAKE_MATCH_2})
  set(type "${type${CMAKE_MATCH_3}}")
  if(NOT parts OR NOT type)
    message(FATAL_ERROR "embed: '${entry}' is no PATH and FILE of a known type")
  endif()
  file(READ ${file} bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR count "${digits} / 2")
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
  # 32 bytes a line; GCC and Clang take literals of any length
  string(REPEAT . 128 line)
  string(REGEX REPLACE "(${line})" "\\1\"\n    \"" bytes "${bytes}")
  string(MAKE_C_IDENTIFIER "${file}" name)
  string(APPEND arrays "constexpr char k_${name}[] =\n    \"${bytes}\";\n")
  string(APPEND rows "    {\"${path}\", \"${type}\", {k_${name}, ${count}}},\n")
endforeach()
file(WRITE ${OUTPUT} "// Generated from the files themselves.
#include \"apps/base/embedded_files.h\"

namespace ocellus::app {
namespace {
${arrays}}

std::span<const EmbeddedFile> ${FUNCTION}() {
  static constexpr EmbeddedFile kFiles[] = {
${rows}  };
  return kFiles;
}

}  // namespace ocellus::app
")
