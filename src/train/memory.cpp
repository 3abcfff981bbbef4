// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <distdl/base/checked.hpp>
#include <distdl/base/log.hpp>
#include <distdl/model/activations.hpp>
#include <distdl/model/context.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/train/memory.hpp>
#include <distdl/train/ways.hpp>

namespace distdl::train {
namespace {
/// The least memory limit of this process's control group and of all groups above it, in bytes. Lines of version 2 are
/// "0::PATH", those of version 1 "NUMBER:CONTROLLERS:PATH".
std::uint64_t limit_of_control_group() {
  const std::string root = "/sys/fs/cgroup";
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto path_begin = line.find(":/");
    const bool is_second = line.starts_with("0::/");
    if (path_begin == std::string::npos || (!is_second && line.find(":memory:") == std::string::npos)) continue;
    const auto* const name = is_second ? "/memory.max" : "/memory.limit_in_bytes";
    for (std::string path = line.substr(path_begin + 1); !path.empty(); path.resize(path.rfind('/'))) {
      std::ifstream file(fmt::format("{}{}{}{}", root, is_second ? "" : "/memory", path, name));
      if (std::uint64_t limit = 0; file >> limit) least = std::min(least, limit);
    }
  }
  return least;
}

/// The rest of a limit of which the process has `used` so much; ProcessLimits::kNone without a limit.
std::uint64_t left_of(int resource, std::uint64_t used) {
  struct rlimit limit {};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return ProcessLimits::kNone;
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

constexpr double kGibibyte = 1 << 30;

/// The chunks of the sequences that a rank has, each as a model; one, if they are not divided.
std::vector<model::Description> chunks_of(const model::Description& model) {
  const auto& [chunks, first, count] = model.context;
  if (chunks == 1) return {model};
  std::vector<model::Description> own;
  for (std::int64_t leaf = first; leaf < first + count; ++leaf) {
    const auto chunk = model::chunk_of_leaf(static_cast<std::size_t>(leaf), static_cast<std::size_t>(chunks));
    own.push_back(model::chunk_of(model, static_cast<std::int64_t>(chunk), chunks));
  }
  return own;
}

/// Bytes of the largest activation of a layer, with all its shards here, at 16 bits a value.
std::int64_t largest_activation(const model::Description& model, std::int64_t samples) {
  constexpr const char* kWhat = "the activations' bytes";
  const auto wiring = model::wire(model, samples);
  const auto bytes_of = [&](const tensor::Shape& shape) {
    return checked_product<std::int64_t>(2, tensor::element_count(shape), kWhat);
  };
  std::int64_t most = 0;
  for (std::size_t i = 0; i < wiring.layers.size(); ++i) {
    const auto& layer = wiring.layers[i];
    most = std::max({most, bytes_of(layer.input), bytes_of(layer.output)});
    if (layer.shards.empty() || model.layers[i].shard->split != model::Split::outputs) continue;
    std::int64_t all = 0;
    for (const int shard : layer.shards)
      all = checked_sum(all, bytes_of(wiring.layers[static_cast<std::size_t>(shard)].output), kWhat);
    most = std::max(most, all);
  }
  return most;
}

/// The sum of largest_activation() over the chunks.
std::int64_t largest_activations(const model::Description& model, std::int64_t samples) {
  std::int64_t all = 0;
  for (const auto& chunk : chunks_of(model))
    all = checked_sum(all, largest_activation(chunk, samples), "the activations' bytes");
  return all;
}

/// Bytes of activations.
struct ActivationBytes {
  std::size_t kept = 0, recomputed = 0;
};
ActivationBytes activation_bytes(const model::Description& model, std::int64_t samples, tensor::DataType type) {
  ActivationBytes bytes;
  std::vector<model::LayerMemory> sizes;  // of the last chunk, which determines the blocks
  if (const auto chunks = model.context.chunks; chunks > 1)
    sizes = model::estimated_activations(model::chunk_of(model, chunks - 1, chunks), samples, type);
  for (const auto& chunk : chunks_of(model)) {
    const auto layers = model::estimated_activations(chunk, samples, type);
    bytes.kept += model::bytes_of(layers);
    bytes.recomputed += model::plan_recomputation(layers, sizes.empty() ? layers : sizes).bytes();
  }
  return bytes;
}

}  // namespace

StateArenas state_arenas(parallel::Strategy strategy, const optim::Options& optim, bool shares) {
  const auto state = optim::state_of(optim);
  const auto moments = std::ranges::count(state, optim::StateArena::Kind::moment, &optim::StateArena::kind);
  return {moments, std::ssize(state) - moments, shares && parallel::row_of(strategy).shards_moments,
          shares && parallel::row_of(strategy).shards_parameters};
}

std::int64_t bytes_of_arena(const model::ModelTensors& tensors) {
  return checked_product<std::int64_t>(static_cast<std::int64_t>(tensors.layout.size()), sizeof(float),
                                       "the memory for parameters");
}

std::int64_t with_devices(std::int64_t bytes, std::int64_t arena, std::int64_t more_arenas) {
  return checked_sum(bytes, checked_product<std::int64_t>(more_arenas, arena, "the memory for gradients"),
                     "a rank's memory");
}

std::uint64_t memory_of_node() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return std::numeric_limits<std::uint64_t>::max();
  return std::min((std::uint64_t{info.totalram} + info.totalswap) * info.mem_unit, limit_of_control_group());
}

ProcessLimits limits_of_process() {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::array<std::uint64_t, 6> pages{};  // addresses, resident, shared, text, unused, data with stacks
  std::ifstream file("/proc/self/statm");
  for (auto& each : pages) file >> each;
  // Besides the model: stacks of threads, messages, and buffers of checkpoints. A process that comes close to its limit
  // is ended by libraries that do not expect it.
  constexpr std::uint64_t kBeside = std::uint64_t{64} << 20;
  return {left_of(RLIMIT_AS, pages.front() * page + kBeside), left_of(RLIMIT_DATA, pages.back() * page)};
}

void check_memory(const model::Description& model, const model::ModelTensors& tensors,
                  const parallel::Options& parallel, const optim::Options& optim, const RanksOfMachine& ranks,
                  std::uint64_t memory, const ProcessLimits& limits) {
  const auto activations = checked_product<std::int64_t>(
      ranks.devices, largest_activations(model, parallel.microbatch_size), "the activations' bytes");
  const Way& way = way_of(parallel.strategy);
  const auto arenas = way.memory({tensors, parallel, optim, ranks});
  const std::int64_t rank = checked_sum(arenas.all, activations, "a rank's memory");
  const auto all = checked_product<std::int64_t>(rank, ranks.here, "the memory of all ranks of a machine");
  require(
      static_cast<std::uint64_t>(all) <= memory,
      "model \"{}\" with {} parameters in microbatches of {} samples needs at least {:.1f} GiB for {} rank{} on this "
      "machine, which has {:.1f} GiB; use a smaller model or parallel.microbatch_size, or fewer ranks per machine{}",
      model.name, model::parameter_count(tensors), parallel.microbatch_size, static_cast<double>(all) / kGibibyte,
      ranks.here, ranks.here == 1 ? "" : "s", static_cast<double>(memory) / kGibibyte,
      way.smaller(parallel, ranks.degrees));
  const auto check_process = [&](std::int64_t bytes, std::uint64_t limit, const char* name) {
    require(
        static_cast<std::uint64_t>(bytes) <= limit,
        "model \"{}\" with {} parameters in microbatches of {} samples needs at least {:.1f} GiB for a rank, but its "
        "process may take only {:.1f} GiB more ({}): raise that limit, or use a smaller model or "
        "parallel.microbatch_size{}",
        model.name, model::parameter_count(tensors), parallel.microbatch_size, static_cast<double>(bytes) / kGibibyte,
        static_cast<double>(limit) / kGibibyte, name, way.smaller(parallel, ranks.degrees));
  };
  check_process(rank, limits.addresses, "RLIMIT_AS, \"ulimit -v\"");
  check_process(rank - arenas.shared, limits.data, "RLIMIT_DATA, \"ulimit -d\"");
}

model::ModelTensors tensors_that_fit(const model::Description& model, const parallel::Options& parallel,
                                     const optim::Options& optim, const RanksOfMachine& ranks, std::uint64_t memory) {
  auto tensors = model::tensors_of(model);
  check_memory(model, tensors, parallel, optim, ranks, memory);
  return tensors;
}

model::Network::Activations activations_for(const model::Description& model, const parallel::Options& parallel,
                                            const optim::Options& optim, tensor::DataType type,
                                            const RanksOfMachine& ranks, std::uint64_t memory) {
  using enum model::Network::Activations;
  if (parallel.recompute == parallel::Recompute::blocks) {
    const bool can_repeat_sums = parallel.tensor_ranks == 1 || parallel.tensor_shards % ranks.degrees.tensor == 0;
    if (!can_repeat_sums && ranks.logs)
      log(Severity::warning,
          "the outputs of layers are kept, not computed again (parallel.recompute = \"blocks\"): the {} tensor shards "
          "are not divided equally among {} ranks",
          parallel.tensor_shards, ranks.degrees.tensor);
    return can_repeat_sums ? recomputed : kept;
  }
  if (parallel.recompute == parallel::Recompute::none || ranks.degrees.parts() > 1) return kept;
  const auto bytes = activation_bytes(model, parallel.microbatch_size, type);
  const auto tensors = model::tensors_of(model);
  const auto gibibytes = [&](std::size_t activations) {
    const auto arenas = static_cast<double>(way_of(parallel.strategy).memory({tensors, parallel, optim, ranks}).all);
    return (arenas + static_cast<double>(activations) * ranks.devices) * ranks.here / kGibibyte;
  };
  const double all = gibibytes(bytes.kept), has = static_cast<double>(memory) / kGibibyte;
  if (all <= has) return kept;
  if (ranks.logs)
    log(Severity::info,
        "the outputs of layers are computed again in the backward pass (parallel.recompute = \"auto\"): kept, they and "
        "the state of {} rank{} would need {:.1f} GiB of this machine's {:.1f} GiB, and so {:.1f} GiB",
        ranks.here, ranks.here == 1 ? "" : "s", all, has, gibibytes(bytes.recomputed));
  return recomputed;
}

}  // namespace distdl::train
