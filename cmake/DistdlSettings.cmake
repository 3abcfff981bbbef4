# SPDX-License-Identifier: Apache-2.0
# Compiler settings shared by all targets.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
if(BUILD_SHARED_LIBS)
  # The libraries use one another's internal functions, and so do tests: the linker exports the namespace distdl, and nothing else.
  set(CMAKE_CXX_VISIBILITY_PRESET default)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN OFF)
  set(DISTDL_EXPORTS ${PROJECT_BINARY_DIR}/exports.map)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/exports.map.in ${DISTDL_EXPORTS} @ONLY)
endif()
# In the build tree as in an install tree, programs look beside themselves: so cmake/bundle need only copy them.
# Folders that a packager names, as Spack does, follow.
set(DISTDL_PACKAGER_RPATH ${CMAKE_INSTALL_RPATH})
list(PREPEND CMAKE_BUILD_RPATH "$ORIGIN/../lib")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
list(PREPEND CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" "$ORIGIN")

# Not unasked: options that a packager's compiler wrapper adds, as -march, are hidden from ccache.
if(DISTDL_CCACHE)
  find_program(CCACHE_PROGRAM ccache)
endif()
if(DISTDL_CCACHE AND CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Clones in other places share what was compiled.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1)
  if(DISTDL_PRECOMPILE)  # ccache wants to be told that it may
    list(APPEND launcher CCACHE_SLOPPINESS=pch_defines,time_macros)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher} ${CCACHE_PROGRAM})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher} ${CCACHE_PROGRAM})
endif()

# -ffp-contract=off: the same source gives the same bits wherever it is compiled.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# char has a sign on x86, and none on Arm and POWER unless the compiler is told so.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsigned-char>)
endif()
set(DISTDL_WARNINGS $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow$<$<BOOL:${DISTDL_WERROR}>:;-Werror>>
  # Loops that are to be vectorised join conditions without branches, and tell GCC that their elements are independent.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-bitwise-instead-of-logical;-Wno-unknown-pragmas>)

if(DISTDL_SANITIZE)
  add_compile_definitions(DISTDL_SANITIZED)  # tests do less: __SANITIZE_ADDRESS__ is GCC's alone
  foreach(option -fsanitize=${DISTDL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:${option}>)  # nvcc knows none of them
  endforeach()
  add_link_options(-fsanitize=${DISTDL_SANITIZE})
endif()
