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
#include <distdl/parallel/cluster.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/parallel/server/range_division.hpp>
#include <distdl/parallel/server/step_parts.hpp>
#include <distdl/train/memory.hpp>

namespace distdl::train {
namespace {
/// The folder of this process's control group and all above it may have a limit. Lines of version 2 are "0::PATH",
/// those of version 1 "NUMBER:CONTROLLERS:PATH".
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

/// What is left of a limit, of which the process has `used`.
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

/// Of the layer with most, with all its shards here; as 16 bits a value.
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

/// Of each chunk.
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

/// Of the other ranks' parameters, as a block of layers computes and the next one is gathered.
std::int64_t gathered_bytes(const model::ModelTensors& tensors, const parallel::Options& options, int ranks) {
  const std::size_t all = tensors.layout.size();
  auto floats = std::min(parallel::least_in_turn(options, all), all);
  for (const auto& view : tensors.layout.tensors()) floats = std::max(floats, view.count);
  return static_cast<std::int64_t>(2 * floats * sizeof(float)) / ranks * (ranks - 1);
}

/// The nearest choice of parallel.strategy that takes less and is possible, if there is one.
std::string smaller_strategy(const parallel::Options& options, const parallel::Degrees& degrees) {
  using enum parallel::Strategy;
  if (options.strategy == local_sgd || options.strategy == parameter_server)
    return R"(, or parallel.strategy = "replicas")";
  if (options.strategy == replicas) return R"(, or parallel.strategy = "sharded" on several ranks)";
  if (options.strategy == sharded && degrees.pipeline == 1) return R"(, or parallel.strategy = "sharded_gradients")";
  return options.strategy == sharded_parameters ? "" : R"(, or parallel.strategy = "sharded_parameters")";
}

/// With local SGD, of a rank: gradients, what the last round ended with, and parameters and state of each group here.
std::int64_t arenas_of_groups(const parallel::Options& parallel, const optim::Options& optim, int ranks) {
  const std::int64_t here = (parallel.groups + ranks - 1) / ranks, outer = parallel.outer == parallel::Outer::nesterov;
  const std::int64_t residuals_and_codes = parallel.compression == parallel::Compression::none ? 0 : 4;
  return 2 + outer + residuals_and_codes + here * (1 + std::ssize(optim::state_of(optim)));
}

/// With a parameter server, of a rank: parameters, those that its worker has pulled, gradients and partial sums,
/// averages, with compression residuals and codes, and, of its server's range, moments, versions, and gradients on
/// their way and in their sum, where that has grown as far as it may. With partners also all that is in a range, for a
/// second one, and two copies of both in the node's memory.
std::int64_t bytes_of_roles(std::int64_t arena, const parallel::Options& parallel, const optim::Options& optim,
                            int ranks) {
  const auto state = optim::state_of(optim);
  const auto moments = std::ranges::count(state, optim::StateArena::Kind::moment, &optim::StateArena::kind);
  const auto cluster = parallel::cluster_of(parallel, ranks);
  const auto servers = std::ssize(cluster.servers);
  const std::int64_t whole = 3 + parallel::server::most_partial_sums(
                                     parallel::server::parts_of(parallel, static_cast<int>(cluster.workers.size())));
  const std::int64_t compressed = parallel.compression == parallel::Compression::none ? 0 : 2;
  constexpr std::int64_t kOfRange = 4, kPartnersGradients = 3, kKept = 2;
  std::int64_t of_range = kOfRange + moments;
  if (parallel::keeps_ranges(parallel)) {
    const std::int64_t state_of_range = 1 + std::ssize(state), ranges = servers > 1 ? 2 : 1;
    of_range += (ranges - 1) * (state_of_range + kPartnersGradients) + kKept * ranges * state_of_range;
  }
  return checked_sum(checked_product(arena, whole + compressed + std::ssize(state) - moments, "the memory of a worker"),
                     checked_product(arena / servers * std::min<std::int64_t>(servers, parallel::server::kMostGrowth),
                                     of_range, "the memory of a server"),
                     "the memory of a rank");
}

/// Of a rank with one device: parameters, gradients and the optimizer's state.
std::int64_t arena_bytes_of_device(const model::ModelTensors& tensors, const parallel::Options& parallel,
                                   const optim::Options& optim, const RanksOfMachine& ranks) {
  const auto arena = checked_product<std::int64_t>(static_cast<std::int64_t>(tensors.layout.size()), sizeof(float),
                                                   "the memory for parameters");
  if (parallel.strategy == parallel::Strategy::local_sgd)
    return checked_product(arena, arenas_of_groups(parallel, optim, ranks.degrees.data), "the memory of the groups");
  if (parallel.strategy == parallel::Strategy::parameter_server)
    return bytes_of_roles(arena, parallel, optim, ranks.degrees.data);
  const auto state = optim::state_of(optim);
  const auto moments = std::ranges::count(state, optim::StateArena::Kind::moment, &optim::StateArena::kind);
  const bool sharded = parallel::shards_moments(parallel.strategy);
  const bool frees = parallel::gives_gradients_back(parallel, ranks.degrees);
  const bool gathers = parallel.strategy == parallel::Strategy::sharded_parameters && ranks.degrees.data > 1;
  const bool share = parallel::share_parameters(parallel, ranks.degrees, ranks.here >= ranks.degrees.ranks());
  const std::int64_t averages = std::ssize(state) - moments;
  const std::int64_t sharded_arenas = (sharded ? moments : 0) + (frees ? 1 : 0) + (gathers ? 1 + averages : 0);
  const std::int64_t residuals = parallel.compression == parallel::Compression::none ? 0 : 1;
  const auto whole = checked_product<std::int64_t>(arena, 2 + std::ssize(state) + residuals - sharded_arenas,
                                                   "the memory for parameters, gradients and moments");
  const auto shard = arena / ranks.degrees.data * sharded_arenas;
  return checked_sum(checked_sum(whole, shard, "a rank's memory"),
                     gathers && !share ? gathered_bytes(tensors, parallel, ranks.degrees.data) : 0, "a rank's memory");
}

/// Of a rank. Each device has gradients of its own, and with a parameter server partial sums of the part that is
/// leased.
std::int64_t arena_bytes(const model::ModelTensors& tensors, const parallel::Options& parallel,
                         const optim::Options& optim, const RanksOfMachine& ranks) {
  const auto gradients = static_cast<std::int64_t>(tensors.layout.size() * sizeof(float));
  const std::int64_t sums =
      parallel.strategy != parallel::Strategy::parameter_server
          ? 1
          : 1 + parallel::server::most_partial_sums(parallel::server::parts_of(
                    parallel, static_cast<int>(parallel::cluster_of(parallel, ranks.degrees.data).workers.size())));
  return checked_sum(arena_bytes_of_device(tensors, parallel, optim, ranks),
                     checked_product<std::int64_t>((ranks.devices - 1) * sums, gradients, "the memory for gradients"),
                     "a rank's memory");
}

/// Of arena_bytes(), what lies in memory that the ranks of a node share: gradients that are not given back, and
/// parameters that other ranks update.
std::int64_t shared_bytes(const model::ModelTensors& tensors, const parallel::Options& parallel,
                          const RanksOfMachine& ranks) {
  const int data = ranks.degrees.data;
  const auto arena = static_cast<std::int64_t>(tensors.layout.size() * sizeof(float));
  const bool alone = parallel.strategy == parallel::Strategy::local_sgd && data <= parallel.groups;
  if (data == 1 || alone || parallel.strategy == parallel::Strategy::parameter_server) return 0;
  const bool shares_parameters = parallel::shards_moments(parallel.strategy);
  const bool is_cut = parallel.strategy == parallel::Strategy::sharded_parameters;
  const bool frees = parallel::gives_gradients_back(parallel, ranks.degrees);
  return (frees ? 0 : ranks.devices * arena) + (shares_parameters ? (is_cut ? arena / data : arena) : 0);
}
}  // namespace

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
  const std::int64_t rank = checked_sum(arena_bytes(tensors, parallel, optim, ranks), activations, "a rank's memory");
  const auto all = checked_product<std::int64_t>(rank, ranks.here, "the memory of all ranks of a machine");
  require(
      static_cast<std::uint64_t>(all) <= memory,
      "model \"{}\" with {} parameters in microbatches of {} samples needs at least {:.1f} GiB for {} rank{} on this "
      "machine, which has {:.1f} GiB; use a smaller model or parallel.microbatch_size, or fewer ranks per machine{}",
      model.name, model::parameter_count(tensors), parallel.microbatch_size, static_cast<double>(all) / kGibibyte,
      ranks.here, ranks.here == 1 ? "" : "s", static_cast<double>(memory) / kGibibyte,
      smaller_strategy(parallel, ranks.degrees));
  const auto check_process = [&](std::int64_t bytes, std::uint64_t limit, const char* name) {
    require(
        static_cast<std::uint64_t>(bytes) <= limit,
        "model \"{}\" with {} parameters in microbatches of {} samples needs at least {:.1f} GiB for a rank, but its "
        "process may take only {:.1f} GiB more ({}): raise that limit, or use a smaller model or "
        "parallel.microbatch_size{}",
        model.name, model::parameter_count(tensors), parallel.microbatch_size, static_cast<double>(bytes) / kGibibyte,
        static_cast<double>(limit) / kGibibyte, name, smaller_strategy(parallel, ranks.degrees));
  };
  check_process(rank, limits.addresses, "RLIMIT_AS, \"ulimit -v\"");
  check_process(rank - shared_bytes(tensors, parallel, ranks), limits.data, "RLIMIT_DATA, \"ulimit -d\"");
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
  const auto gibibytes = [&](std::size_t activations) {
    const auto arenas = static_cast<double>(arena_bytes(model::tensors_of(model), parallel, optim, ranks));
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
