# What makes a fault of ours harder to use: canaries on the stack, checked copies, marked targets of indirect jumps, and
# relocations that are done and locked at start. tools/check_symbols.py holds the built files to it. Sanitizers have
# their own; tests go without, which nobody installs.
option(OCELLUS_HARDEN "Build with stack canaries, _FORTIFY_SOURCE, branch protection and full RELRO" ON)
include(CheckPIESupported)
check_pie_supported()
if(NOT OCELLUS_HARDEN OR OCELLUS_SANITIZE)
  return()
endif()

set(hardening -fstack-protector-strong)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND hardening -fcf-protection)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  list(APPEND hardening -mbranch-protection=standard)
endif()
list(JOIN hardening "," hardening_cuda)
set(fortify 3)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  set(fortify 2)
endif()
# Distributions' compilers may define it themselves; without optimisation there is nothing that it could check.
set(fortified $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE$<SEMICOLON>-D_FORTIFY_SOURCE=${fortify}>)
set(is_shipped $<NOT:$<STREQUAL:$<TARGET_PROPERTY:OCELLUS_KIND>,TEST>>)
target_compile_options(ocellus_flags INTERFACE
  "$<$<AND:${is_shipped},$<COMPILE_LANGUAGE:C,CXX>>:${hardening};${fortified}>"
  "$<$<AND:${is_shipped},$<COMPILE_LANGUAGE:CUDA>>:-Xcompiler=${hardening_cuda}>")
target_link_options(ocellus_flags INTERFACE LINKER:-z,relro,-z,now)
