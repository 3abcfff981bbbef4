// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <distdl/base/short_slices.hpp>

namespace distdl {
namespace {
/// As in linux/sched/types.h, which newer C libraries declare, too.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes), policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);
constexpr std::uint64_t kSlice = 100'000;  ///< ns, the shortest possible one
}  // namespace

void take_short_slices() noexcept {
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0U) != 0) return;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return;
  attributes.runtime = kSlice;
  [[maybe_unused]] const auto done = ::syscall(SYS_sched_setattr, 0, &attributes, 0U);  // else all is as before
}

}  // namespace distdl
