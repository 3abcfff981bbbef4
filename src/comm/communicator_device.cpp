// SPDX-License-Identifier: Apache-2.0
// What a Communicator has to do with devices: who has one, and how its memory reaches the wire.
#include <algorithm>
#include <functional>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/vote.hpp>
#include <distdl/comm/execution/communicator_impl.hpp>

namespace distdl::comm {
namespace {

/// How a rank's device can be used, as sent to the other ranks.
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
  const auto all = communicator.all_gather_strings(!accelerator ? kNone : type ? kDirect : kStaged);
  const auto without = std::find(all.begin(), all.end(), kNone);
  const auto with = std::find_if(all.begin(), all.end(), [](const std::string& one) { return one != kNone; });
  if (with != all.end() && without != all.end()) {
    const Rank has(static_cast<int>(with - all.begin())), lacks(static_cast<int>(without - all.begin()));
    throw ConfigError(
        fmt::format("rank {} ({}) computes in a device's memory, but rank {} ({}) does not: give all ranks a "
                    "device, or none",
                    has, communicator.host(has), lacks, communicator.host(lacks)));
  }
  // They hold references to the device before.
  library_executions_.clear();
  group.library.reset();
  executions_.clear();
  plans_.clear();
  group.device.reset();
  require(accelerator || connect_options.gpu_transport != GpuTransport::nccl,
          "comm.gpu_transport is \"nccl\", but the backend does not use a GPU: set kernels.backend = "
          "\"cuda\", or comm.gpu_transport = \"auto\"");
  if (!accelerator) return;
  group.device = std::make_shared<DeviceAccess>(std::move(accelerator));
  group.device->direct = std::all_of(all.begin(), all.end(), [](const std::string& one) { return one == kDirect; });
  if (group.device->direct) group.device->memory_type = *type;
  log(Severity::debug, "memory of {} is sent {}", group.device->accelerator->description(),
      group.device->direct ? "directly" : "through pinned host memory");
  agree_on_library(communicator);
}

namespace {

/// Throws ConfigError if NCCL cannot do it here.
std::string library_offer(const DeviceAccess& device, int rank) {
  const NcclPlugin& plugin = load_nccl();
  require(device.accelerator->library_queue() != nullptr,
          "comm.gpu_transport \"nccl\" supports the memory of NVIDIA's GPUs, not of {}",
          device.accelerator->description());
  return rank == 0 ? plugin.make_id() : "";
}

/// A rank that is lost is no problem of the library's: PeerLost is thrown.
std::string vote_on_joining(const std::function<std::string()>& join) try {
  const std::string problem = join();
  return problem.empty() ? vote_for("") : vote_against(ExitCode::peer_lost, problem);
} catch (const PeerLost&) {
  throw;
} catch (const CommError& error) {
  return vote_against(error.exit_code(), error.what());
}

}  // namespace

void Communicator::Impl::agree_on_library(Communicator& communicator) {
  group.library.reset();
  if (!group.device || connect_options.gpu_transport == GpuTransport::ucx) return;
  const auto give_up = [&](const std::string& problem) {
    group.library.reset();
    if (connect_options.gpu_transport == GpuTransport::nccl) throw ConfigError(problem);
    log(Severity::debug, "GPUs communicate without NCCL: {}", problem);
  };
  const auto offers =
      communicator.all_gather_strings(vote_on([&] { return library_offer(*group.device, group.rank); }));
  if (const auto problem = first_problem(offers); !problem.empty()) return give_up(problem);
  const std::string id = results_of(offers).front();
  group.library = std::make_unique<LibraryAccess>();
  group.library->also_sums = connect_options.gpu_transport == GpuTransport::nccl;
  const auto joined = communicator.all_gather_strings(vote_on_joining([&] {
    group.library->transport.reset(load_nccl().join(id, group.rank, static_cast<int>(group.members.size())));
    LibraryMeeting meeting(group, *group.library->transport);
    fabric->add(meeting);
    fabric->wait(meeting, fabric->timeout());
    return meeting.problem();
  }));
  if (const auto problem = first_problem(joined); !problem.empty()) return give_up(problem);
  log(Severity::debug, "GPUs communicate through {}", load_nccl().version());
}

namespace {

bool are_equal(const std::vector<std::size_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

std::size_t count_of(const Problem& problem) {
  return problem.counts.empty() ? problem.count : problem.counts.front();
}

}  // namespace

bool Communicator::Impl::takes_library(const Problem& problem, const Execution::Call& call,
                                       const CallOptions& options) const {
  if (!group.library || !call.on_device || options.choice || count_of(problem) == 0) return false;
  const bool may_add = options.order == Order::any || group.library->also_sums;
  switch (problem.collective) {
    case Collective::broadcast:
      return true;
    case Collective::all_gather:
      return are_equal(problem.counts);
    case Collective::reduce_scatter:
      return may_add && are_equal(problem.counts) && problem.ranges.empty();
    case Collective::reduce:
      return may_add;
    case Collective::all_reduce:
      return may_add &&
             std::all_of(problem.ranges.begin(), problem.ranges.end(), [](LeafRange range) { return range.count > 0; });
    default:
      return false;
  }
}

Request Communicator::Impl::start_library(const char* name, const Problem& problem, Execution::Call& call,
                                          const CallOptions& options) {
  auto free = std::find_if(library_executions_.begin(), library_executions_.end(),
                           [](const auto& one) { return !one->in_use(); });
  if (free == library_executions_.end())
    free = library_executions_.insert(free, std::make_unique<LibraryExecution>(group));
  DeviceTransport::Call asked;
  asked.collective = problem.collective;
  asked.input = call.inputs.front();
  asked.output = call.output;
  asked.count = count_of(problem);
  asked.type = call.type;
  asked.reduction = call.reduction == Reduction::average ? Reduction::sum : call.reduction;
  asked.root = problem.root;
  (*free)->set(asked, call.inputs, call.scale, next(name));
  (*free)->count(traffic(problem.collective), std::max(call.input_bytes, call.output_bytes));
  (*free)->start(timeout(options), group.spins);
  return Request(free->get());
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
    require(accelerator.owns(data), "{}: some operands are in the memory of {}, others in the host's: copy one of them",
            name, accelerator.description());
    require(reinterpret_cast<std::uintptr_t>(data) % size_of(call.type) == 0,
            "{}: {} at address {} of a device: the elements must be aligned", name, name_of(call.type), fmt::ptr(data));
  };
  check(call.output, call.output_bytes);
  for (const auto* input : call.inputs) check(input, call.input_bytes);
  return true;
}

}  // namespace distdl::comm
