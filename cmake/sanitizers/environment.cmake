# SPDX-License-Identifier: Apache-2.0
# ctest reads this before it runs the tests of a sanitizer build.
set(ENV{UCX_TLS} tcp,self)      # shared memory between threads is not seen as synchronisation
set(ENV{UCX_MEM_EVENTS} n)      # UCX's memory hooks and the sanitizers' quarrel
set(ENV{UBSAN_OPTIONS} print_stacktrace=1)
set(ENV{LSAN_OPTIONS} suppressions=${CMAKE_CURRENT_LIST_DIR}/leaks)
set(ENV{TSAN_OPTIONS} halt_on_error=1:suppressions=${CMAKE_CURRENT_LIST_DIR}/threads)
