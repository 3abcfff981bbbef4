// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <distdl/base/short_slices.hpp>

namespace distdl {
namespace {

/// Of the calling thread, ns; 0: this Linux does not tell.
std::uint64_t slice() {
  alignas(8) std::array<std::byte, 48> attributes{};
  if (::syscall(SYS_sched_getattr, 0, attributes.data(), attributes.size(), 0U) != 0) return 0;
  std::uint64_t runtime = 0;
  std::memcpy(&runtime, attributes.data() + 24, sizeof runtime);
  return runtime;
}

TEST(ShortSlices, AreTakenByTheThreadAlone) {
  const std::uint64_t before = slice();
  if (before == 0) GTEST_SKIP() << "this Linux has no slices of single threads (6.12)";
  std::uint64_t of_thread = 0;
  int niceness = -1;
  std::thread([&] {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 3);
    take_short_slices();
    of_thread = slice();
    niceness = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)));
  }).join();
  EXPECT_EQ(of_thread, 100'000u);
  EXPECT_EQ(niceness, 3);
  EXPECT_EQ(slice(), before);
}

}  // namespace
}  // namespace distdl
