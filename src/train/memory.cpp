// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include <sys/sysinfo.h>

#include <distdl/base/checked.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/train/memory.hpp>

namespace distdl::train {
namespace {
/// Of version 2: the folder of this process's control group and all above it may have a limit.
std::uint64_t limit_of_control_group() {
  constexpr const char* kRoot = "/sys/fs/cgroup";
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::string path = line.substr(3); !path.empty(); path.resize(path.rfind('/'))) {
      std::ifstream file(kRoot + path + "/memory.max");
      if (std::uint64_t limit = 0; file >> limit) least = std::min(least, limit);
    }
  }
  return least;
}

/// Of the layer with most; as 16 bits a value.
std::int64_t activation_bytes(const model::Description& model, std::int64_t samples) {
  std::int64_t most = 0;
  for (const auto& layer : model::wire(model, samples).layers)
    for (const auto* shape : {&layer.input, &layer.output})
      most = std::max(most, checked_product<std::int64_t>(2, tensor::element_count(*shape), "the activations' bytes"));
  return most;
}
}  // namespace

std::uint64_t memory_of_node() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return std::numeric_limits<std::uint64_t>::max();
  return std::min((std::uint64_t{info.totalram} + info.totalswap) * info.mem_unit, limit_of_control_group());
}

void check_memory(const model::Description& model, const model::ModelTensors& tensors,
                  const parallel::Options& parallel, const optim::Options& optim, const RanksOfMachine& ranks,
                  std::uint64_t memory) {
  const auto arena = checked_product<std::int64_t>(static_cast<std::int64_t>(tensors.layout.size()), sizeof(float),
                                                   "the memory for parameters");
  const auto state = optim::state_of(optim);
  const auto moments = std::ranges::count(state, optim::StateArena::Kind::moment, &optim::StateArena::kind);
  const bool sharded = parallel.strategy == parallel::Strategy::sharded;
  const auto whole = checked_product<std::int64_t>(  // parameters, gradients
      arena, 2 + std::ssize(state) - moments + (sharded ? 0 : moments),
      "the memory for parameters, gradients and moments");
  std::int64_t rank = checked_sum(whole, activation_bytes(model, parallel.microbatch_size), "a rank's memory");
  if (sharded) rank = checked_sum(rank, arena / ranks.all * moments, "a rank's memory");
  const auto all = checked_product<std::int64_t>(rank, ranks.here, "the memory of all ranks of a machine");
  constexpr double kGibibyte = 1 << 30;
  require(
      static_cast<std::uint64_t>(all) <= memory,
      "model \"{}\" with {} parameters in microbatches of {} samples needs at least {:.1f} GiB for {} rank{} on this "
      "machine, which has {:.1f} GiB; use a smaller model or parallel.microbatch_size, or fewer ranks per machine{}",
      model.name, model::parameter_count(tensors), parallel.microbatch_size, static_cast<double>(all) / kGibibyte,
      ranks.here, ranks.here == 1 ? "" : "s", static_cast<double>(memory) / kGibibyte,
      sharded ? "" : R"(, or parallel.strategy = "sharded" on several ranks)");
}

model::ModelTensors tensors_that_fit(const model::Description& model, const parallel::Options& parallel,
                                     const optim::Options& optim, const RanksOfMachine& ranks, std::uint64_t memory) {
  auto tensors = model::tensors_of(model);
  check_memory(model, tensors, parallel, optim, ranks, memory);
  return tensors;
}

}  // namespace distdl::train
