// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/base/vote.hpp>
#include <distdl/forecast/automatic.hpp>
#include <distdl/forecast/nearest_fit.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/unavailable.hpp>
#include <distdl/parallel/stages.hpp>
#include <distdl/train/communicator_group.hpp>

namespace distdl::forecast {
namespace {
const ProductForecast& forecast_in(std::vector<ProductForecast>& known, const Basis& basis, const Product& product) {
  const auto found = std::ranges::find(known, product, &ProductForecast::product);
  return found != known.end() ? *found : known.emplace_back(forecast_product(basis, product));
}

bool was_measured(const Basis& basis) {
  const auto& calibration = basis.machine.calibration;
  return basis.is_measured && (basis.cluster.ranks() == 1 || (calibration && calibration->costs));
}

/// "4x1x1 sharded fits, with 3.1 of a node's 24 GiB"
std::string text_of_fit(const Basis& basis, const ProductForecast& chosen) {
  constexpr double kGibibyte = 1 << 30;
  return fmt::format("{} fits, with {:.3g} of a node's {:.4g} GiB", name_of(chosen.product),
                     chosen.node_bytes / kGibibyte, node_memory(basis.machine) / kGibibyte);
}

/// "5 products"
std::string text_of_count(std::size_t products) {
  return fmt::format("{} product{}", products, products == 1 ? "" : "s");
}

/// Whether those that fit and have the most ranks that hold the model together are slower than one with fewer.
bool gets_slower(const std::vector<ProductForecast>& all) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const int most = all.back().product.degrees.parts();
  double least = kNone, least_of_most = kNone;
  for (const auto& each : all) {
    auto& own = each.product.degrees.parts() == most ? least_of_most : least;
    if (each.fits) own = std::min(own, each.step.seconds);
  }
  return least_of_most < kNone && least < least_of_most;
}

/// A start should not wait for the forecasts of many products that only get slower.
std::optional<Choice> choose_fastest(const Basis& basis, const std::vector<Product>& products,
                                     std::vector<ProductForecast>& known, std::vector<ProductForecast>& all) {
  for (const auto& product : products) {
    if (!all.empty() && product.degrees.parts() > all.back().product.degrees.parts() && gets_slower(all)) break;
    const auto kept = std::ranges::find(all, Product{product.degrees, product.strategy}, &ProductForecast::product);
    if (product.recomputes && kept != all.end() && kept->fits) continue;  // which can only take longer
    all.push_back(forecast_in(known, basis, product));
  }
  const auto best = best_of(all);
  if (best == all.end()) return std::nullopt;
  return Choice{best->product, fmt::format("{}, and is the fastest of {} by what was measured",
                                           text_of_fit(basis, *best), text_of_count(all.size()))};
}

std::optional<Choice> choose_simplest(const Basis& basis, const std::vector<Product>& products,
                                      std::vector<ProductForecast>& known, std::vector<ProductForecast>& tried) {
  for (const auto& product : products) {
    tried.push_back(forecast_in(known, basis, product));
    if (!tried.back().fits) continue;
    return Choice{product,
                  fmt::format("{}, and is the simplest of {}; nothing was measured that tells which is the fastest",
                              text_of_fit(basis, tried.back()), text_of_count(products.size()))};
  }
  return std::nullopt;
}

bool is_on_device(const kernels::Options& options) try {
  return is_for_gpu(options) || !kernels::make_backend(options)->memory_is_host();
} catch (const kernels::BackendUnavailable&) {
  return false;
}

/// Of ranks on these hosts, which have so many bytes of memory.
Machine machine_of(const comm::Communicator& communicator, const std::vector<std::string>& memories) {
  std::map<std::string, int> ranks;
  Machine machine;
  machine.memory_bytes = std::numeric_limits<std::uint64_t>::max();
  for (int rank = 0; rank < communicator.size(); ++rank) {
    ++ranks[communicator.host(Rank(rank))];
    machine.memory_bytes =
        std::min<std::uint64_t>(machine.memory_bytes, std::stoull(memories[static_cast<std::size_t>(rank)]));
  }
  const auto count = [](const auto& node) { return node.second; };
  const auto [least, most] = std::ranges::minmax_element(ranks, {}, count);
  machine.nodes = static_cast<int>(ranks.size());
  machine.ranks_per_node = most->second;
  if (least->second == most->second) return machine;
  machine.memory_bytes /= static_cast<std::uint64_t>(most->second);
  machine.nodes = communicator.size();
  machine.ranks_per_node = 1;
  return machine;
}

Choice choose_for(const train::Recipe& recipe, const Machine& machine) {
  train::check(recipe);
  const auto work = workload_of(recipe);
  const int ranks = machine.nodes * machine.ranks_per_node;
  if (auto choice = choice_on_device(recipe, work.model, ranks)) return *choice;
  std::vector<ProductForecast> known;
  return choose(basis_of(recipe, work, machine), known).value();
}

std::string to_text(const Choice& choice) {
  const auto& [product, reason] = choice;
  return nlohmann::json{{"pipeline", product.degrees.pipeline}, {"tensor", product.degrees.tensor},
                        {"context", product.degrees.context},   {"strategy", product.strategy.name()},
                        {"recomputes", product.recomputes},     {"reason", reason}}
      .dump();
}

Choice choice_from(const std::string& text, int ranks) {
  const auto row = nlohmann::json::parse(text);
  Choice choice;
  choice.product = {{.pipeline = row.at("pipeline").get<int>(),
                     .tensor = row.at("tensor").get<int>(),
                     .context = row.at("context").get<int>()},
                    row.at("strategy").get<std::string>(),
                    row.at("recomputes").get<bool>()};
  choice.reason = row.at("reason").get<std::string>();
  choice.product.degrees.data = ranks / choice.product.degrees.parts();
  return choice;
}
}  // namespace

std::optional<Choice> choice_on_device(const train::Recipe& recipe, const model::Description& model, int ranks) {
  if (!is_on_device(recipe.kernels)) return std::nullopt;
  std::string reason;
  const auto degrees = parallel::nearest_degrees(recipe.parallel, ranks, parallel::most_stages(model), reason);
  const Product product{degrees, parallel::Strategy::replicas,
                        recipe.parallel.recompute == parallel::Recompute::blocks};
  return Choice{product, name_of(product) + ", because forecasts do not know the memory of GPUs"};
}

std::optional<Choice> choose(const Basis& basis, std::vector<ProductForecast>& known) {
  const auto products = automatic_products(basis.recipe, basis.work.model, basis.cluster.ranks());
  std::vector<ProductForecast> tried;
  auto choice = was_measured(basis) ? choose_fastest(basis, products, known, tried)
                                    : choose_simplest(basis, products, known, tried);
  if (choice || !basis.is_automatic()) return choice;
  require_possible(basis, products);
  refuse(basis, tried);
}

Decision decide(const train::Recipe& recipe, comm::Communicator& communicator, std::uint64_t memory,
                const std::function<void(Machine&)>& add_figures) {
  const auto timeout = train::CommunicatorGroup(communicator, recipe.checkpoint.timeout_seconds).timeout();
  const auto memories = communicator.all_gather_strings(std::to_string(memory), timeout);
  const bool chooses = communicator.rank() == Rank(0);
  const auto vote = !chooses ? vote_for("") : vote_on([&] {
    auto machine = machine_of(communicator, memories);
    add_figures(machine);
    return to_text(choose_for(recipe, machine));
  });
  const auto votes = communicator.all_gather_strings(vote, timeout);
  if (const auto failed = failure_of(votes)) throw Error(failed->code, failed->message);
  const auto choice = choice_from(results_of(votes).front(), communicator.size());
  return {with_product(recipe, choice.product), name_of(choice.product), choice.reason};
}

}  // namespace distdl::forecast
