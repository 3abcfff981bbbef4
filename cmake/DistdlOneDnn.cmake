# SPDX-License-Identifier: Apache-2.0
# DNNL_VERSION, of the headers in DNNL_INCLUDE_DIR: one that kernels/onednn/versions.hpp knows, or an error.
set(DNNL_VERSION "")
set(header ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h)
if(NOT EXISTS ${header})
  set(header ${DNNL_INCLUDE_DIR}/dnnl_version.h)  # 1.x
endif()
file(STRINGS ${header} lines REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
foreach(part MAJOR MINOR PATCH)
  string(REGEX MATCH "_${part} +([0-9]+)" line "${lines}")
  list(APPEND DNNL_VERSION ${CMAKE_MATCH_1})
endforeach()
list(JOIN DNNL_VERSION "." DNNL_VERSION)
if(DNNL_VERSION VERSION_LESS 2.6 OR DNNL_VERSION VERSION_GREATER_EQUAL 4)
  message(FATAL_ERROR "distdl needs oneDNN 2.6, 2.7 or 3.x, and ${DNNL_INCLUDE_DIR} has ${DNNL_VERSION}: name another by "
    "DNNL_INCLUDE_DIR and DNNL_LIBRARY, or do without (DISTDL_ONEDNN=OFF)")
endif()
