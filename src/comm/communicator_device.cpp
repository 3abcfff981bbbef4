// SPDX-License-Identifier: Apache-2.0
// What a Communicator has to do with devices: who has one, and how its memory reaches the wire.
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/comm/communicator_impl.hpp>

namespace distdl::comm {
namespace {

/// What a rank tells the others of its device.
constexpr const char* kNone = "none";
constexpr const char* kStaged = "staged";
constexpr const char* kDirect = "direct";

}  // namespace

void Communicator::use(std::shared_ptr<Accelerator> accelerator) {
  impl_->agree_on_device(*this, std::move(accelerator));
}

void Communicator::Impl::agree_on_device(Communicator& communicator, std::shared_ptr<Accelerator> accelerator) {
  std::optional<ucs_memory_type_t> type;
  if (accelerator) type = memory_type_of(fabric->context(), accelerator->memory_type());
  const auto all = communicator.exchange(!accelerator ? kNone : type ? kDirect : kStaged);
  const auto without = std::find(all.begin(), all.end(), kNone);
  const auto with = std::find_if(all.begin(), all.end(), [](const std::string& one) { return one != kNone; });
  if (with != all.end() && without != all.end()) {
    const Rank has(static_cast<int>(with - all.begin())), lacks(static_cast<int>(without - all.begin()));
    throw ConfigError(
        fmt::format("rank {} ({}) computes in a device's memory, rank {} ({}) does not: give all ranks a "
                    "device, or none",
                    has, communicator.host(has), lacks, communicator.host(lacks)));
  }
  // They hold references to the device before.
  executions_.clear();
  plans_.clear();
  group.device.reset();
  if (!accelerator) return;
  group.device = std::make_shared<DeviceAccess>(std::move(accelerator));
  group.device->direct = std::all_of(all.begin(), all.end(), [](const std::string& one) { return one == kDirect; });
  if (group.device->direct) group.device->memory_type = *type;
  log(Severity::debug, "memory of {} reaches the wire {}", group.device->accelerator->description(),
      group.device->direct ? "directly" : "through pinned host memory");
}

bool Communicator::Impl::on_device(const char* name, const Execution::Call& call) const {
  if (!group.device) return false;
  const Accelerator& accelerator = *group.device->accelerator;
  const bool some =
      accelerator.owns(call.output) ||
      std::any_of(call.inputs.begin(), call.inputs.end(), [&](const auto* input) { return accelerator.owns(input); });
  if (!some) return false;
  const auto check = [&](const std::byte* data, std::size_t bytes) {
    if (bytes == 0) return;
    require(accelerator.owns(data), "{}: some operands lie in the memory of {}, others in the host's: copy one of them",
            name, accelerator.description());
    require(reinterpret_cast<std::uintptr_t>(data) % size_of(call.type) == 0,
            "{}: {} at address {} of a device: its memory is only worked on where elements are aligned", name,
            name_of(call.type), fmt::ptr(data));
  };
  check(call.output, call.output_bytes);
  for (const auto* input : call.inputs) check(input, call.input_bytes);
  return true;
}

}  // namespace distdl::comm
