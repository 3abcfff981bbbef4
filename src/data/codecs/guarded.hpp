// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csetjmp>

namespace distdl::data {

/// Calls step(), which calls a C library that reports an error by longjmp() to `place`. Returns whether step() came to
/// its end. No object with a destructor may live in step() while it calls the library.
template <class Step>
[[gnu::noinline]] bool guarded(std::jmp_buf& place, const Step& step) {
  if (setjmp(place) != 0) return false;  // NOLINT(cert-err52-cpp): the libraries know no other way
  step();
  return true;
}

}  // namespace distdl::data
