# SPDX-License-Identifier: Apache-2.0
# CMake toolchain: Arm processors of 64 bits (such as Grace) from another Debian. cmake/for-aarch64 makes DISTDL_SYSROOT, the folder
# with the libraries of arm64, and calls CMake with this file.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DISTDL_SYSROOT)
set(CMAKE_SYSROOT ${DISTDL_SYSROOT})

# Programs are those of this machine; all else is the sysroot's.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${DISTDL_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${DISTDL_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${DISTDL_SYSROOT}/usr/share/pkgconfig)
# FindHDF5 would ask h5cc, which is this machine's.
set(HDF5_C_COMPILER_EXECUTABLE /bin/false CACHE FILEPATH "")
set(HDF5_C_INCLUDE_DIR ${DISTDL_SYSROOT}/usr/include/hdf5/serial CACHE PATH "")
set(HDF5_hdf5_LIBRARY_RELEASE ${DISTDL_SYSROOT}/usr/lib/aarch64-linux-gnu/libhdf5_serial.so CACHE FILEPATH "")

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
