# SPDX-License-Identifier: Apache-2.0
# Finds the CUDA toolkit and cuDNN 9. nvcc is often off the PATH: NVIDIA's installers, Spack and modules name its place in
# these variables, or put it into these folders.
set(cuda_roots ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_PATH} $ENV{CUDA_HOME} $ENV{CUDA_ROOT})
if(CMAKE_CUDA_COMPILER)
  set(DISTDL_NVCC ${CMAKE_CUDA_COMPILER} CACHE FILEPATH "CUDA's compiler")
endif()
find_program(DISTDL_NVCC nvcc HINTS ${cuda_roots} PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES bin
  DOC "CUDA's compiler")
if(DISTDL_NVCC)
  file(REAL_PATH ${DISTDL_NVCC} nvcc_file)
  cmake_path(GET nvcc_file PARENT_PATH cuda_bin)
  cmake_path(GET cuda_bin PARENT_PATH cuda_root)
endif()
set(cudnn_roots ${CUDNN_ROOT} $ENV{CUDNN_ROOT} $ENV{CUDNN_PATH} ${cuda_roots} /usr/local/cuda ${cuda_root})
find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${cudnn_roots} PATH_SUFFIXES include)
find_library(CUDNN_LIBRARY cudnn HINTS ${cudnn_roots} PATH_SUFFIXES lib64 lib)
mark_as_advanced(DISTDL_NVCC CUDNN_INCLUDE_DIR CUDNN_LIBRARY)

set(CUDNN_VERSION 0)
if(CUDNN_INCLUDE_DIR)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h lines REGEX "^#define CUDNN_(MAJOR|MINOR) [0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
  string(REPLACE ";" "." CUDNN_VERSION "${lines}")
endif()

if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "GPUs to compile for: 80 A100, 90 H100 and H200")
endif()
set(found OFF)
if(DISTDL_NVCC AND CUDNN_LIBRARY AND CUDNN_VERSION VERSION_GREATER_EQUAL 9)
  # A toolkit that does not like this C++ compiler is as good as none.
  set(ENV{CUDACXX} ${DISTDL_NVCC})
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(found ON)
  endif()
endif()
