// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/base/vote.hpp>
#include <distdl/forecast/automatic.hpp>
#include <distdl/forecast/nearest_fit.hpp>
#include <distdl/groups/communicator_group.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/unavailable.hpp>
#include <distdl/parallel/stages.hpp>

namespace distdl::forecast {
namespace {
const ProductForecast& forecast_in(std::vector<ProductForecast>& known, const Basis& basis, const Product& product) {
  const auto found = std::ranges::find(known, product, &ProductForecast::product);
  return found != known.end() ? *found : known.emplace_back(forecast_product(basis, product));
}

/// Names the figures of such nodes that were not measured, and why; empty: all figures that determine the fastest
/// product were.
std::string unmeasured(const Basis& basis) {
  const auto& machine = basis.machine;
  const bool knows_network =
      basis.cluster.ranks() == 1 || (machine.calibration && machine.calibration->costs && machine.not_of_these.empty());
  if (basis.is_measured && knows_network) return "";
  const char* what = knows_network ? "this model" : basis.is_measured ? "the network" : "this model and the network";
  return fmt::format("{}{}", what, machine.not_of_these.empty() ? "" : fmt::format(" ({})", machine.not_of_these));
}

/// Returns a text such as "4x1x1 sharded fits, with 3.1 of a node's 24 GiB", with the share of each process's limit, if
/// there is one.
std::string text_of_fit(const Basis& basis, const ProductForecast& chosen) {
  constexpr double kGibibyte = 1 << 30;
  auto text = fmt::format("{} fits, with {:.3g} of a node's {:.4g} GiB", name_of(chosen.product),
                          chosen.node_bytes / kGibibyte, node_memory(basis.machine) / kGibibyte);
  const auto add = [&](double bytes, std::uint64_t limit, const char* name) {
    if (limit != train::ProcessLimits::kNone)
      text += fmt::format(" and {:.3g} of the {:.4g} GiB that {} leaves to a process", bytes / kGibibyte,
                          static_cast<double>(limit) / kGibibyte, name);
  };
  add(chosen.address_bytes, basis.machine.limits.addresses, "RLIMIT_AS");
  add(chosen.data_bytes, basis.machine.limits.data, "RLIMIT_DATA");
  return text;
}

/// "5 products"
std::string text_of_count(std::size_t products) {
  return fmt::format("{} product{}", products, products == 1 ? "" : "s");
}

/// True if, of the products that fit, those with the most ranks that own the model together are slower than one with
/// fewer.
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

/// Stops when products only get slower: a start should not wait for the forecasts of many of them.
std::optional<Choice> choose_fastest(const Basis& basis, const std::vector<Product>& products,
                                     std::vector<ProductForecast>& known, std::vector<ProductForecast>& all) {
  for (const auto& product : products) {
    if (!all.empty() && product.degrees.parts() > all.back().product.degrees.parts() && gets_slower(all)) break;
    const auto kept = std::ranges::find(all, Product{product.degrees, product.strategy}, &ProductForecast::product);
    if (product.recomputes && kept != all.end() && kept->fits) continue;  // computing again can only take longer
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
                  fmt::format("{}, and is the simplest of {}; which is the fastest is not known, for of such nodes "
                              "\"distdl bench calibrate\" has not measured {}",
                              text_of_fit(basis, tried.back()), text_of_count(products.size()), unmeasured(basis))};
  }
  return std::nullopt;
}

bool is_on_device(const kernels::Options& options) try {
  return is_for_gpu(options) || !kernels::make_backend(options)->memory_is_host();
} catch (const kernels::BackendUnavailable&) {
  return false;
}

/// Facts that each rank sends about its node and its process: limits of memory, and the kind of its processors.
std::string facts_of(std::uint64_t memory) {
  const auto limits = train::limits_of_process();
  const auto kind = kind_of_this_node("");
  return fmt::format("{} {} {} {} x {}", memory, limits.addresses, limits.data, kind.processors, kind.processor);
}

/// Returns the machine of ranks on these hosts. The smallest limit of any rank counts for all.
Machine machine_of(const comm::Communicator& communicator, const std::vector<std::string>& facts) {
  std::map<std::string, int> ranks;
  std::set<std::string> kinds;
  Machine machine;
  machine.memory_bytes = std::numeric_limits<std::uint64_t>::max();
  for (int rank = 0; rank < communicator.size(); ++rank) {
    ++ranks[communicator.host(Rank(rank))];
    std::istringstream words(facts[static_cast<std::size_t>(rank)]);
    for (auto* const limit : {&machine.memory_bytes, &machine.limits.addresses, &machine.limits.data}) {
      std::uint64_t own = 0;
      require<InternalError>(!(words >> own).fail(), "rank {} told no memory", rank);
      *limit = std::min(*limit, own);
    }
    std::string kind;
    std::getline(words >> std::ws, kind);
    kinds.insert(kind);
  }
  if (kinds.size() > 1)
    machine.not_of_these = fmt::format("the nodes have different processors: {}", fmt::join(kinds, " and "));
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

/// The choice that rank 0 broadcasts.
struct Told {
  Choice choice;
  std::vector<double> stage_costs;
};

void add_stages(Choice& choice, const StageChoice& stages) {
  if (const auto text = text_of(stages); !text.empty()) choice.reason += "; " + text;
}

/// Chooses the recipe's numbers of ranks that own the model together, or the nearest possible ones.
Choice choice_without_forecast(const train::Recipe& recipe, const model::Description& model, int ranks,
                               parallel::Strategy strategy, const char* why, const StageCosts& costs) {
  std::string obstacle;
  const auto& options = recipe.parallel;
  const auto degrees = parallel::nearest_degrees(options, ranks, parallel::most_stages(model), obstacle);
  const Product product{degrees, strategy, options.recompute == parallel::Recompute::blocks};
  Choice choice{product, name_of(product) + why};
  add_stages(choice, choose_stages(options, model, model, degrees.pipeline, costs));
  return choice;
}

Told choose_for(const train::Recipe& recipe, const Machine& machine) {
  train::check(recipe);
  const auto work = workload_of(recipe);
  const int ranks = machine.nodes * machine.ranks_per_node;
  if (recipe.parallel.strategy != parallel::Strategy::automatic) {
    const auto costs = stage_costs(recipe, work, machine);
    return {choice_without_forecast(recipe, work.model, ranks, recipe.parallel.strategy, "", costs), costs.seconds};
  }
  if (auto choice = choice_on_device(recipe, work.model, ranks)) return {*choice, {}};
  std::vector<ProductForecast> known;
  const auto basis = basis_of(recipe, work, machine);
  return {choose(basis, known).value(), basis.stage_costs.seconds};
}

std::string to_text(const Told& told) {
  const auto& [product, reason] = told.choice;
  return nlohmann::json{{"pipeline", product.degrees.pipeline}, {"tensor", product.degrees.tensor},
                        {"context", product.degrees.context},   {"strategy", product.strategy.name()},
                        {"recomputes", product.recomputes},     {"reason", reason},
                        {"stage_costs", told.stage_costs}}
      .dump();
}

Told told_in(const std::string& text, int ranks) {
  const auto row = nlohmann::json::parse(text);
  Told told{{}, row.at("stage_costs").get<std::vector<double>>()};
  auto& choice = told.choice;
  choice.product = {{.pipeline = row.at("pipeline").get<int>(),
                     .tensor = row.at("tensor").get<int>(),
                     .context = row.at("context").get<int>()},
                    row.at("strategy").get<std::string>(),
                    row.at("recomputes").get<bool>()};
  choice.reason = row.at("reason").get<std::string>();
  choice.product.degrees.data = ranks / choice.product.degrees.parts();
  return told;
}
}  // namespace

std::optional<Choice> choice_on_device(const train::Recipe& recipe, const model::Description& model, int ranks) {
  if (!is_on_device(recipe.kernels)) return std::nullopt;
  return choice_without_forecast(recipe, model, ranks, parallel::Strategy::replicas,
                                 ", because forecasts do not know the memory of GPUs", {});
}

std::optional<Choice> choose(const Basis& basis, std::vector<ProductForecast>& known) {
  const auto products = automatic_products(basis.recipe, basis.work.model, basis.cluster.ranks());
  std::vector<ProductForecast> tried;
  auto choice = unmeasured(basis).empty() ? choose_fastest(basis, products, known, tried)
                                          : choose_simplest(basis, products, known, tried);
  if (choice) add_stages(*choice, forecast_in(known, basis, choice->product).stages);
  if (choice || !basis.is_automatic()) return choice;
  require_possible(basis, products);
  refuse(basis, tried);
}

Decision decide(const train::Recipe& recipe, comm::Communicator& communicator, std::uint64_t memory,
                const std::function<void(Machine&)>& add_figures) {
  const auto timeout = groups::CommunicatorGroup(communicator, recipe.checkpoint.timeout_seconds).timeout();
  const auto facts = communicator.all_gather_strings(facts_of(memory), timeout);
  const bool chooses = communicator.rank() == Rank(0);
  const auto vote = !chooses ? vote_for("") : vote_on([&] {
    auto machine = machine_of(communicator, facts);
    add_figures(machine);
    return to_text(choose_for(recipe, machine));
  });
  const auto votes = communicator.all_gather_strings(vote, timeout);
  if (const auto failed = failure_of(votes)) throw Error(failed->code, failed->message);
  auto told = told_in(results_of(votes).front(), communicator.size());
  const auto& [product, reason] = told.choice;
  const bool chooses_product = recipe.parallel.strategy == parallel::Strategy::automatic;
  return {chooses_product ? with_product(recipe, product) : recipe, name_of(product), reason,
          std::move(told.stage_costs)};
}

}  // namespace distdl::forecast
