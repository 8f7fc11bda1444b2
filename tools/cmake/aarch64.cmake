# Cross-compiles for aarch64 Linux (Jetson, Raspberry Pi) with Debian's compiler; programs run under qemu-user.
# OCELLUS_SYSROOT is a folder into which the arm64 packages of the libraries we use are unpacked
# (tools/unpack_arm64.sh fills it).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES OCELLUS_SYSROOT)  # checks of the compiler read this file too
set(CMAKE_FIND_ROOT_PATH ${OCELLUS_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${OCELLUS_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${OCELLUS_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${OCELLUS_SYSROOT}/usr/share/pkgconfig)

set(CMAKE_C_STANDARD_INCLUDE_DIRECTORIES ${OCELLUS_SYSROOT}/usr/include/aarch64-linux-gnu)
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${CMAKE_C_STANDARD_INCLUDE_DIRECTORIES})
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,-rpath-link,${OCELLUS_SYSROOT}/usr/lib/aarch64-linux-gnu)
# The C library is the cross compiler's own; what the unpacked libraries need in turn lies beside them.
set(CMAKE_CROSSCOMPILING_EMULATOR
    qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${OCELLUS_SYSROOT}/usr/lib/aarch64-linux-gnu)
