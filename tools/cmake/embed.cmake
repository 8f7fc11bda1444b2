# Files inside the program. `ocellus_embed(TARGET FUNCTION "PATH FILE"...)` adds a source to TARGET whose FUNCTION() of
# embedded_files.h lists the files with their types. The assembler takes their bytes.
function(ocellus_embed target function)
  set(html "text/html; charset=utf-8")
  set(css "text/css; charset=utf-8")
  set(js "text/javascript; charset=utf-8")
  set(svg image/svg+xml)
  set(json application/json)
  unset(files)
  foreach(entry ${ARGN})
    string(REGEX REPLACE "^.* " "${CMAKE_CURRENT_SOURCE_DIR}/" file "${entry}")
    string(REGEX MATCH "^([^ ]+) .*[.](html|css|js|svg|json)$" entry "${entry}")
    string(MAKE_C_IDENTIFIER "k${entry}" name)
    list(APPEND files ${file})
    string(APPEND arrays "extern \"C\" __attribute__((visibility(\"hidden\"))) const char ${name}[], ${name}_end[];
asm(\".section .rodata\\n${name}: .incbin \\\"${file}\\\"\\n${name}_end:\\n.previous\");\n")
    string(APPEND rows "    {\"${CMAKE_MATCH_1}\", \"${${CMAKE_MATCH_2}}\", {${name}, ${name}_end}},\n")
  endforeach()
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  file(CONFIGURE OUTPUT ${output} CONTENT "#include \"apps/base/embedded_files.h\"\n
@arrays@
std::span<const ocellus::app::EmbeddedFile> ocellus::app::${function}() {
  static const EmbeddedFile kFiles[] = {
@rows@  };
  return kFiles;
}
" @ONLY)
  set_source_files_properties(${output} PROPERTIES OBJECT_DEPENDS "${files}")
  target_sources(${target} PRIVATE ${output})
endfunction()
