// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include <distdl/base/checked.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/train/engine/whole_models.hpp>
#include <distdl/train/local_sgd/local_sgd_engine.hpp>
#include <distdl/train/local_sgd/local_sgd_way.hpp>
#include <distdl/train/local_sgd/outer_rules.hpp>

namespace distdl::train {
namespace {
/// Throws ConfigError for options that exclude groups which train apart from each other.
void check_groups(const Recipe& recipe) {
  check_whole_models(
      recipe, {"each rank of a group has the whole model", "the parameters that are evaluated are averages already",
               "audits compare what all ranks hold, but each has groups of its own", nullptr});
}

/// Bytes of the gradients, of the state after the last round, and of parameters and optimizer state of each group here.
/// Ranks of a group share the gradients.
ArenaBytes memory_of_groups(const RankMemory& rank) {
  const auto& [tensors, options, optim, ranks] = rank;
  const auto arena = bytes_of_arena(tensors);
  const int data = ranks.degrees.data;
  const std::int64_t here = (options.local_sgd.groups + data - 1) / data,
                     outer = rule_of(options.local_sgd.outer).arena ? 1 : 0;
  const std::int64_t residuals_and_codes = !options.compression.is_on() ? 0 : 4;
  const auto arenas = 2 + outer + residuals_and_codes + here * (1 + std::ssize(optim::state_of(optim)));
  const auto all = checked_product<std::int64_t>(arena, arenas, "the memory of the groups");
  return {with_devices(all, arena, ranks.devices - 1), data <= options.local_sgd.groups ? 0 : ranks.devices * arena};
}

void leave_out_groups(const parallel::Options& options, std::map<std::string, std::string>& identity) {
  const bool is_used = parallel::row_of(options.strategy).has_groups;
  if (!is_used)
    for (const char* key : {"parallel.groups", "parallel.local_steps", "parallel.outer"}) identity[key] = "none";
  const auto& own = rule_of(options.local_sgd.outer).keys;
  for (const OuterRule& rule : outer_rules())
    for (const auto key : rule.keys)
      if (!is_used || std::ranges::find(own, key) == own.end()) identity[std::string(key)] = "none";
}

std::string less_than_groups(const parallel::Options&, const parallel::Degrees&) {
  return R"(, or parallel.strategy = "replicas")";
}

std::unique_ptr<Engine> make_groups(const EngineSetup& setup) {
  return std::make_unique<LocalSgdEngine>(setup);
}
}  // namespace

Way local_sgd_way() {
  return {
      parallel::Strategy::local_sgd, check_groups, memory_of_groups, leave_out_groups, less_than_groups, make_groups};
}

}  // namespace distdl::train
