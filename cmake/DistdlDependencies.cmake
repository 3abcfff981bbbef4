# SPDX-License-Identifier: Apache-2.0
# Everything distdl takes from outside. Package names are Debian's.
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)  # Boost's own package
endif()
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)                                       # libfmt-dev
find_package(CLI11 REQUIRED)                                     # libcli11-dev
find_package(nlohmann_json REQUIRED)                             # nlohmann-json3-dev
find_package(tomlplusplus REQUIRED)                              # libtomlplusplus-dev
find_package(OpenSSL REQUIRED COMPONENTS Crypto)                 # libssl-dev
find_package(ZLIB REQUIRED)                                      # zlib1g-dev
find_package(Boost 1.74 REQUIRED COMPONENTS log date_time)       # libboost-log-dev
set(HDF5_hdf5_LIBRARY "")  # for a target that we do not use: FindHDF5 of CMake 4 fails where it is unset and the library is called hdf5_serial
find_package(HDF5 1.10.5 REQUIRED COMPONENTS C)                  # libhdf5-dev
# Data are read in one thread while another one saves.
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_INCLUDES ${HDF5_INCLUDE_DIRS})
check_c_source_compiles("#include <hdf5.h>\n#ifndef H5_HAVE_THREADSAFE\n#error\n#endif\nint main(void) { return 0; }"
                        DISTDL_HDF5_IS_THREADSAFE)
unset(CMAKE_REQUIRED_INCLUDES)
if(NOT DISTDL_HDF5_IS_THREADSAFE)
  message(FATAL_ERROR "this HDF5 (${HDF5_INCLUDE_DIRS}) is not thread-safe: build it with --enable-threadsafe; in Spack hdf5+threadsafe")
endif()
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd>=1.4)    # libzstd-dev
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg>=2)      # libjpeg62-turbo-dev: libjpeg-turbo, which alone skips lines
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng>=1.6)      # libpng-dev
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebp>=1)      # libwebp-dev
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive>=3.4)  # libarchive-dev
pkg_check_modules(UCX REQUIRED IMPORTED_TARGET ucx>=1.12)        # libucx-dev
file(GLOB found ${UCX_LIBDIR}/ucx/libuct_ib.so*)
if(NOT found)
  message(WARNING "the UCX in ${UCX_LIBDIR} has no verbs: ranks will use InfiniBand and RoCE as slow TCP networks; build UCX with --with-verbs, \
in Spack ucx+verbs+rc+ud, or take the site's")
endif()
pkg_check_modules(PMIX REQUIRED IMPORTED_TARGET pmix>=4)         # libpmix-dev
if(CMAKE_SKIP_INSTALL_RPATH)  # pmix.pc, on Debian too, asks for a search path in whatever links it
  foreach(property INTERFACE_LINK_LIBRARIES INTERFACE_LINK_OPTIONS)
    get_target_property(options PkgConfig::PMIX ${property})
    if(options)
      string(REGEX REPLACE "-Wl,-rpath[;,](-Wl,)?[^;]+;?" "" options "${options}")
      set_target_properties(PkgConfig::PMIX PROPERTIES ${property} "${options}")
    endif()
  endforeach()
endif()

# distdl_want(NAME FOUND WHAT): turns ON/OFF/AUTO and "was it found" into DISTDL_HAVE_NAME.
function(distdl_want name found what)
  string(TOUPPER "${DISTDL_${name}}" wish)
  if(wish STREQUAL "AUTO")
    set(have ${found})
  elseif(DISTDL_${name} AND NOT found)
    message(FATAL_ERROR "DISTDL_${name}=ON, but ${what} was not found")
  else()
    set(have ${DISTDL_${name}})
  endif()
  if(have)
    set(have ON)
  else()
    set(have OFF)
  endif()
  set(DISTDL_HAVE_${name} ${have} PARENT_SCOPE)
  message(STATUS "distdl: ${what}: ${have}")
endfunction()

# Debian's dnnl CMake package wants OpenCL headers, so look for the library itself.
find_path(DNNL_INCLUDE_DIR dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
set(found OFF)
if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
  set(found ON)
endif()
distdl_want(ONEDNN ${found} "oneDNN (libdnnl-dev)")
if(DISTDL_HAVE_ONEDNN)
  include(DistdlOneDnn)
  message(STATUS "distdl: oneDNN ${DNNL_VERSION}")
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION ${DNNL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
endif()

find_path(SLURM_INCLUDE_DIR slurm/slurm.h)
find_library(SLURM_LIBRARY slurm)
set(found OFF)
if(SLURM_INCLUDE_DIR AND SLURM_LIBRARY)
  set(found ON)
endif()
distdl_want(SLURM ${found} "libslurm (libslurm-dev)")

set(found OFF)
string(TOUPPER "${DISTDL_CUDA}" wish)
if(wish STREQUAL "AUTO" OR DISTDL_CUDA)
  include(DistdlCuda)
endif()
distdl_want(CUDA ${found} "CUDA toolkit and cuDNN 9")
if(DISTDL_HAVE_CUDA)
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 and later can
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  find_package(CUDAToolkit REQUIRED)
endif()

pkg_check_modules(SENTENCEPIECE IMPORTED_TARGET sentencepiece>=0.1.97)  # libsentencepiece-dev
distdl_want(SENTENCEPIECE "${SENTENCEPIECE_FOUND}" "SentencePiece (libsentencepiece-dev)")

# The package src/python needs none; its folder is named after the interpreter's version.
find_package(Python3 QUIET COMPONENTS Interpreter)
distdl_want(PYTHON "${Python3_Interpreter_FOUND}" "Python (python3)")

# NCCL, beside the CUDA toolkit or on its own: for the plug-in that lets it carry collectives between GPUs.
set(found OFF)
if(DISTDL_HAVE_CUDA)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_ROOT} $ENV{NCCL_ROOT} ${cuda_roots} ${CUDAToolkit_INCLUDE_DIRS}
    PATH_SUFFIXES include)
  find_library(NCCL_LIBRARY nccl HINTS ${NCCL_ROOT} $ENV{NCCL_ROOT} ${cuda_roots} ${CUDAToolkit_LIBRARY_DIR}
    PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib)
  mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
  if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
    set(found ON)
  endif()
endif()
distdl_want(NCCL ${found} "NCCL")

# The plotting library dygraphs (libjs-dygraphs), which pages of "distdl report" hold; without it they draw their curves themselves.
find_file(DISTDL_DYGRAPHS dygraph.min.js PATHS /usr/share/javascript /usr/share/nodejs PATH_SUFFIXES dygraphs dygraphs/dist
  DOC "dygraph.min.js for the pages of distdl report")
mark_as_advanced(DISTDL_DYGRAPHS)

# For the tests and examples of the module of src/capi/fortran, which programs compile themselves. A sanitizer's runtime is clang's.
include(CheckLanguage)
set(found OFF)
if(NOT DISTDL_FORTRAN STREQUAL "OFF" AND NOT DISTDL_SANITIZE)
  check_language(Fortran)
  if(CMAKE_Fortran_COMPILER)
    set(found ON)
  endif()
endif()
distdl_want(FORTRAN ${found} "Fortran (gfortran)")
if(DISTDL_HAVE_FORTRAN)
  enable_language(Fortran)
endif()
