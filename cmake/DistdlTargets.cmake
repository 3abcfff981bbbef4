# SPDX-License-Identifier: Apache-2.0

# Sources include headers as users do: <distdl/comm/communicator.hpp>. The build tree maps that onto the folders.
set(DISTDL_INCLUDE_ROOT ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${DISTDL_INCLUDE_ROOT}/distdl)
function(distdl_link_headers folder where)
  if(NOT EXISTS ${DISTDL_INCLUDE_ROOT}/distdl/${folder})
    file(CREATE_LINK ${where} ${DISTDL_INCLUDE_ROOT}/distdl/${folder} SYMBOLIC)
  endif()
endfunction()

# Much-used headers of others: compiled once for all libraries, and once, with GoogleTest's, for all tests.
set(DISTDL_PRECOMPILED <algorithm> <array> <atomic> <chrono> <condition_variable> <cstring> <filesystem> <fstream> <functional>
  <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread> <utility> <variant>
  <vector> <fmt/format.h>)
set(DISTDL_PRECOMPILE_LIBRARIES ${DISTDL_PRECOMPILE})
if(DISTDL_PRECOMPILE STREQUAL "TESTS")
  set(DISTDL_PRECOMPILE_LIBRARIES OFF)
endif()
if(DISTDL_PRECOMPILE_LIBRARIES)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "")
  add_library(distdl_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  target_compile_options(distdl_precompiled PRIVATE ${DISTDL_WARNINGS})  # which the compiler must find the same
  target_link_libraries(distdl_precompiled PRIVATE fmt::fmt)
  target_precompile_headers(distdl_precompiled PRIVATE ${DISTDL_PRECOMPILED})
endif()

# Not sources with options of their own: CMake leaves those alone.
function(distdl_compile_together target)
  if(DISTDL_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${DISTDL_UNITY})
    # What an anonymous namespace holds counts as part of a header then.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# distdl_add_library(comm SOURCES a.cpp b.cpp PUBLIC distdl::world PRIVATE PkgConfig::UCX)
# makes the target distdl_comm, alias distdl::comm. Its public headers are the *.hpp at the top of the folder; those in subfolders,
# which may include headers of C libraries, are internal.
function(distdl_add_library folder)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(distdl_${folder} ${arg_SOURCES})
  add_library(distdl::${folder} ALIAS distdl_${folder})
  target_include_directories(distdl_${folder} PUBLIC
    $<BUILD_INTERFACE:${DISTDL_INCLUDE_ROOT}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(distdl_${folder} PUBLIC cxx_std_20)
  target_compile_options(distdl_${folder} PRIVATE ${DISTDL_WARNINGS})
  target_link_libraries(distdl_${folder} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  # What computes is too slow unoptimised, even for tests of a debug build; the rest compiles in less than half of the time without.
  set(computes OFF)
  if(folder MATCHES "^(tensor|kernels|optim|model|compression|comm|checkpoint)$")
    set(computes ON)
    target_compile_options(distdl_${folder} PRIVATE $<$<AND:$<CONFIG:Debug>,$<NOT:$<COMPILE_LANGUAGE:CUDA>>>:-Og>)
  endif()
  distdl_compile_together(distdl_${folder})
  # Clang's precompiled headers are for one level of optimisation.
  if(DISTDL_PRECOMPILE_LIBRARIES AND NOT (computes AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang"))
    target_precompile_headers(distdl_${folder} REUSE_FROM distdl_precompiled)
  endif()
  if(BUILD_SHARED_LIBS AND NOT DISTDL_SANITIZE)  # a sanitizer's symbols are the program's
    target_link_options(distdl_${folder} PRIVATE LINKER:-z,defs  # a library names all that it needs
      LINKER:--version-script=${DISTDL_EXPORTS})
    set_target_properties(distdl_${folder} PROPERTIES LINK_DEPENDS ${DISTDL_EXPORTS})
  endif()
  # The soname has what a consumer asks for: minor versions differ (COMPATIBILITY SameMinorVersion in DistdlInstall.cmake).
  set_target_properties(distdl_${folder} PROPERTIES
    EXPORT_NAME ${folder} VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    DISTDL_FOLDER ${folder} DISTDL_HEADER_DIR ${CMAKE_CURRENT_SOURCE_DIR})
  set_property(GLOBAL APPEND PROPERTY DISTDL_LIBRARIES distdl_${folder})
endfunction()

# Not the user's cache of communication costs, nor the user's list of runs.
set(DISTDL_TEST_ENVIRONMENT "XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/tests/cache"
  "XDG_STATE_HOME=${PROJECT_BINARY_DIR}/tests/state")

# Of a test that hangs, in times of what it may take on a quick, idle machine. Deadlines within tests: tests/pace.hpp.
set(DISTDL_TEST_PATIENCE 3 CACHE STRING "Times that TIMEOUT after which a test counts as hanging")

# distdl_choose_build(comm_test BUILDS plain address thread [PROGRAM comm_test] [NEEDS distdl])
# Says in which builds a test finds most: the plain one, that with the address and that with the thread sanitizer. A build with a
# sanitizer has the tests that name it; others are shown as disabled, and their program is not built. A plain build has all
# tests, but for the option DISTDL_TESTS=PLAIN, with which CI leaves to "make sanitize" what is run there. The build folder's
# tests/chosen has a line for each test that is not disabled, for cmake/ci-selection: its folder in tests/, its name, the targets it needs.
add_custom_target(test_programs)
if(NOT DISTDL_TESTS MATCHES "^(ALL|PLAIN)$")
  message(FATAL_ERROR "DISTDL_TESTS is \"${DISTDL_TESTS}\", but must be ALL or PLAIN")
endif()
function(distdl_choose_build test)
  cmake_parse_arguments(arg "" "PROGRAM" "BUILDS;NEEDS" ${ARGN})
  if(DISTDL_SANITIZE MATCHES thread)
    set(here thread)
  elseif(DISTDL_SANITIZE)
    set(here address)
  else()
    set(here plain)
  endif()
  foreach(build ${arg_BUILDS})
    if(NOT build MATCHES "^(plain|address|thread)$")
      message(FATAL_ERROR "${test}: BUILDS has ${build}; expected plain, address or thread")
    endif()
    if(build STREQUAL here)
      set(chosen ON)
    endif()
  endforeach()
  if(chosen OR NOT (DISTDL_SANITIZE OR DISTDL_TESTS STREQUAL "PLAIN"))
    if(arg_PROGRAM)
      add_dependencies(test_programs ${arg_PROGRAM})
    endif()
    cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/tests OUTPUT_VARIABLE folder)
    string(REGEX REPLACE "/.*" "" folder ${folder})
    string(JOIN " " line ${folder} ${test} ${arg_PROGRAM} ${arg_NEEDS})
    set_property(GLOBAL APPEND_STRING PROPERTY DISTDL_CHOSEN_TESTS "${line}\n")
  else()
    set_tests_properties(${test} PROPERTIES DISABLED ON)
    if(arg_PROGRAM)
      set_target_properties(${arg_PROGRAM} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endif()
endfunction()

# How a program of tests is compiled, whether GoogleTest's or one that a test starts. Its own code need not be quick (DISTDL_TESTS_OPTIMISED),
# unless it is what is tested: then it says OPTIMISED.
function(distdl_compile_test name)
  target_compile_options(${name} PRIVATE ${DISTDL_WARNINGS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  if(DISTDL_TESTS_OPTIMISED AND NOT "OPTIMISED" IN_LIST ARGN)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${DISTDL_TESTS_OPTIMISED}>)
  endif()
  distdl_compile_together(${name})
endfunction()

# distdl_add_test(comm_test SOURCES a_test.cpp LIBRARIES distdl::comm [LABELS unit] [TIMEOUT 60] [BUILDS address] [OPTIMISED] [PARTS 3])
# One GoogleTest program is one ctest, or PARTS of them, name_1 and so on, among which its tests are dealt out.
function(distdl_add_test name)
  cmake_parse_arguments(arg "OPTIMISED" "TIMEOUT;PARTS" "SOURCES;LIBRARIES;LABELS;BUILDS" ${ARGN})
  if(NOT arg_BUILDS)
    set(arg_BUILDS address)
  endif()
  add_executable(${name} ${arg_SOURCES})
  set(how)
  if(arg_OPTIMISED)
    set(how OPTIMISED)
  endif()
  distdl_compile_test(${name} ${how})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  # Precompiled headers are for one level of optimisation.
  if(DISTDL_PRECOMPILE AND NOT (arg_OPTIMISED AND DISTDL_TESTS_OPTIMISED))
    if(TARGET distdl_precompiled_test)
      target_precompile_headers(${name} REUSE_FROM distdl_precompiled_test)
    else()
      target_precompile_headers(${name} PRIVATE ${DISTDL_PRECOMPILED} <gmock/gmock.h>)
      add_executable(distdl_precompiled_test ALIAS ${name})
    endif()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(DISTDL_SANITIZE)
    math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")  # slow, the more so on a busy machine
  else()
    math(EXPR arg_TIMEOUT "${DISTDL_TEST_PATIENCE} * ${arg_TIMEOUT}")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  set(environment ${DISTDL_TEST_ENVIRONMENT} UCX_NET_DEVICES=lo)  # other tests' networks come and go
  if(NOT arg_PARTS)
    set(arg_PARTS 1)
  endif()
  foreach(part RANGE 1 ${arg_PARTS})
    set(test ${name})
    set(share)
    if(arg_PARTS GREATER 1)
      set(test ${name}_${part})
      math(EXPR index "${part} - 1")
      set(share GTEST_TOTAL_SHARDS=${arg_PARTS} GTEST_SHARD_INDEX=${index})
    endif()
    add_test(NAME ${test} COMMAND ${name})
    set_tests_properties(${test} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" ENVIRONMENT "${environment};${share}")
    distdl_choose_build(${test} PROGRAM ${name} BUILDS ${arg_BUILDS})
  endforeach()
endfunction()

# distdl_use_snapshot_memory(3 checkpoint_test ...), distdl_use_snapshot_memory(ALONE checkpoint_test ...)
# Tests that simulate dead runs leave their snapshots in /dev/shm. Three of them run at a time, for each has one lock of three; none of
# them does beside a test that removes what dead runs left, which has all three.
function(distdl_use_snapshot_memory lock)
  set(locks snapshot_memory_${lock})
  if(lock STREQUAL "ALONE")
    set(locks snapshot_memory_1 snapshot_memory_2 snapshot_memory_3)
  endif()
  set_tests_properties(${ARGN} PROPERTIES RESOURCE_LOCK "${locks}")
endfunction()

# distdl_add_script_test(structure_floors SCRIPT floors_test.py [ARGUMENTS ...] [LABELS structure] [TIMEOUT 60] [BUILDS plain])
# One Python script of unittest cases is one ctest; exit code 77 means skipped.
find_program(DISTDL_TEST_PYTHON NAMES python3)
function(distdl_add_script_test name)
  cmake_parse_arguments(arg "" "SCRIPT;TIMEOUT" "ARGUMENTS;LABELS;BUILDS" ${ARGN})
  if(NOT arg_BUILDS)
    set(arg_BUILDS plain)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  math(EXPR arg_TIMEOUT "${DISTDL_TEST_PATIENCE} * ${arg_TIMEOUT}")
  if(DISTDL_TEST_PYTHON)
    add_test(NAME ${name} COMMAND ${DISTDL_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT} ${arg_ARGUMENTS})
  else()
    add_test(NAME ${name} COMMAND sh -c "echo 'skipped: python3 is not installed'; exit 77")
  endif()
  set_tests_properties(${name} PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;DISTDL_BUILD_DIR=${PROJECT_BINARY_DIR};${DISTDL_TEST_ENVIRONMENT}")
  set(needs distdl)
  if(TARGET distdl_slurm_plugin)
    list(APPEND needs distdl_slurm_plugin)
  endif()
  distdl_choose_build(${name} BUILDS ${arg_BUILDS} NEEDS ${needs})
endfunction()
