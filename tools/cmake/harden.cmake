# What makes a fault of ours harder to use: canaries on the stack, checked copies, marked targets of indirect jumps, and
# relocations that are done and locked at start. tools/check_symbols.py holds the built files to it. Sanitizers have
# their own; tests go without, which nobody installs.
option(OCELLUS_HARDEN "Build with stack canaries, _FORTIFY_SOURCE, branch protection and full RELRO" ON)
include(CheckPIESupported)
check_pie_supported()
if(NOT OCELLUS_HARDEN OR OCELLUS_SANITIZE)
  return()
endif()

set(ocellus_hardening -fstack-protector-strong)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND ocellus_hardening -fcf-protection)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  list(APPEND ocellus_hardening -mbranch-protection=standard)
endif()
list(JOIN ocellus_hardening "," ocellus_hardening_cuda)
# Distributions' compilers may define it themselves; without optimisation there is nothing that it could check.
set(ocellus_fortify 3)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  set(ocellus_fortify 2)
endif()
set(ocellus_fortified
  $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE$<SEMICOLON>-D_FORTIFY_SOURCE=${ocellus_fortify}>)
set(ocellus_is_shipped $<NOT:$<BOOL:$<TARGET_PROPERTY:OCELLUS_IS_TEST>>>)
target_compile_options(ocellus_flags INTERFACE
  "$<$<AND:${ocellus_is_shipped},$<COMPILE_LANGUAGE:C,CXX>>:${ocellus_hardening};${ocellus_fortified}>"
  "$<$<AND:${ocellus_is_shipped},$<COMPILE_LANGUAGE:CUDA>>:-Xcompiler=${ocellus_hardening_cuda}>")
target_link_options(ocellus_flags INTERFACE LINKER:-z,relro,-z,now)
