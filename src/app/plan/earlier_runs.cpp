// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/plan/earlier_runs.hpp>
#include <distdl/app/plan/forecast_record.hpp>
#include <distdl/app/plan/measured_run.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/base/byte_text.hpp>
#include <distdl/base/median.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/forecast/product_forecast.hpp>
#include <distdl/observe/run/run_identity.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;
using forecast::LearnedRun;

forecast::RunFeatures features_of(const train::Recipe& recipe, const forecast::Workload& work, int ranks) {
  const auto microbatches = static_cast<double>(recipe.parallel.microbatches);
  return {.ranks = static_cast<double>(ranks),
          .flops = microbatches * forecast::forward_flops(work.model, recipe.parallel.microbatch_size),
          .parameters = static_cast<double>(work.tensors.layout.size()),
          .microbatches = microbatches / ranks};
}

/// Each gradient once: what rank 0 moves in collectives without a correction.
double counted_traffic(const forecast::Workload& work) {
  return static_cast<double>(work.tensors.layout.size() * sizeof(float));
}

std::optional<forecast::Product> product_named(const std::string& name, const train::Recipe& recipe,
                                               const forecast::Workload& work, int ranks) {
  for (auto product : forecast::products_of(recipe, work.model, ranks))
    for (const bool recomputes : {false, true}) {
      product.recomputes = recomputes;
      if (name_of(product) == name) return product;
    }
  return std::nullopt;
}

/// Figures that the forecast of a run has beside what was measured.
struct Comparison {
  OneOf<parallel::Strategy> strategy;
  LearnedRun step;
  std::optional<LearnedRun> memory = {}, traffic = {};
};

/// Why forecasts of the next job are wrong in another way than those of an earlier one; empty: they are not.
std::string difference_of(const config::Job& earlier, const config::Job& next) {
  const auto text = [](std::string_view key, const auto& own, const auto& other) {
    return fmt::format("{} is {} in it and {} in the next job, and forecasts do not count that", key, own, other);
  };
  if (earlier.devices_per_rank != next.devices_per_rank)
    return text("run.devices_per_rank", earlier.devices_per_rank, next.devices_per_rank);
  const auto &own = earlier.recipe.parallel.compression.encoding, &other = next.recipe.parallel.compression.encoding;
  return own == other ? "" : text("parallel.compression", own.name(), other.name());
}

class Comparer {
 public:
  Comparer(const config::Job& next, forecast::Machine machine) : next_(next), machine_(std::move(machine)) {}

  /// Returns why the run is left out, or an empty text.
  std::string add(const fs::path& run) try {
    const auto job = config::load(run / "job.toml", {});
    if (auto difference = difference_of(job, next_); !difference.empty()) return difference;
    const auto work = forecast::workload_of(job.recipe);
    const bool has_spares = job.agent.recovery == agent::Recovery::agents;
    std::vector<Comparison> found;
    for (const auto& [key, measured] : measured_runs(run, has_spares ? job.agent.spares : 0))
      if (auto comparison = compare(job.recipe, work, key, measured)) found.push_back(*comparison);
    comparisons.insert(comparisons.end(), found.begin(), found.end());
    return found.empty() ? "its records tell of no product that has a forecast" : "";
  } catch (const std::exception& error) {
    pass_on_shortage(error);
    return error.what();
  }

  std::vector<Comparison> comparisons;

 private:
  std::optional<Comparison> compare(const train::Recipe& recipe, const forecast::Workload& work,
                                    const RanksAndProduct& key, const MeasuredRun& run) {
    const auto ranks = static_cast<int>(key.first);
    if (run.samples_per_second.empty() || ranks < 1 || run.nodes < 1) return std::nullopt;
    machine_.nodes = static_cast<int>(run.nodes);
    machine_.ranks_per_node = static_cast<int>(ranks / run.nodes);
    const auto product = product_named(key.second, recipe, work, ranks);
    if (!product) return std::nullopt;
    const auto made = forecast_product(forecast::basis_of(recipe, work, machine_), *product);
    const auto features = features_of(recipe, work, ranks);
    const auto batch = static_cast<double>(recipe.parallel.microbatches * recipe.parallel.microbatch_size);
    Comparison comparison{product->strategy, {features, made.step.seconds, batch / median(run.samples_per_second)}};
    if (run.memory_bytes > 0) comparison.memory = {features, first_rank_bytes(made), run.memory_bytes};
    if (ranks > 1 && run.moved_bytes > 0) comparison.traffic = {features, counted_traffic(work), run.moved_bytes};
    return comparison;
  }

  const config::Job& next_;
  forecast::Machine machine_;
};

std::string percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

std::string line_of(const char* name, const forecast::Learned& learned, const std::string& result) {
  if (learned.runs < forecast::Learned::kLeastRuns)
    return fmt::format("learned     {}: as forecast, {} run{} of the {} that it takes\n", name, learned.runs,
                       learned.runs == 1 ? "" : "s", forecast::Learned::kLeastRuns);
  const auto errors = fmt::format("learned from {} runs, error {} (largest {})", learned.runs, percent(learned.error),
                                  percent(learned.largest_error));
  return fmt::format("learned     {}: {}, {}; the forecast alone: {}\n", name,
                     learned.is_used() ? result : "as forecast, because that is better", errors,
                     percent(learned.forecast_error));
}

nlohmann::ordered_json json_of(const forecast::Learned& learned) {
  return {{"runs", learned.runs},
          {"error", learned.error},
          {"largest_error", learned.largest_error},
          {"forecast_error", learned.forecast_error},
          {"factor", learned.factor},
          {"used", learned.is_used()}};
}
}  // namespace

std::vector<fs::path> runs_of(const std::vector<std::string>& words) {
  std::vector<fs::path> runs;
  const auto add = [&runs](const fs::path& folder) {  // once: what is learned from a run is not tried on the same run
    std::error_code error;
    const auto canonical = fs::weakly_canonical(folder, error);
    const auto& run = error ? folder : canonical;
    if (std::ranges::find(runs, run) == runs.end()) runs.push_back(run);
  };
  for (const auto& word : words) {
    if (word != "all")
      for (const auto& named : find_runs({word})) add(named.folder);
    if (word == "all")
      for (const auto& known : observe::known_runs()) add(known.folder);
  }
  return runs;
}

Lessons learn_from(const std::vector<fs::path>& runs, const config::Job& job, const forecast::Workload& work,
                   const forecast::Machine& machine) {
  Comparer comparer(job, machine);
  Lessons lessons;
  for (const auto& run : runs)
    if (const auto reason = comparer.add(run); !reason.empty())
      lessons.left_out.push_back(fmt::format("\"{}\": {}", run.string(), reason));
  std::vector<LearnedRun> steps, memory;
  std::map<parallel::Strategy, std::vector<LearnedRun>> traffic;
  for (const auto& each : comparer.comparisons) {
    steps.push_back(each.step);
    if (each.memory) memory.push_back(*each.memory);
    if (each.traffic) traffic[each.strategy].push_back(*each.traffic);
  }
  const int ranks = machine.nodes * machine.ranks_per_node;
  const auto next = features_of(job.recipe, work, ranks);
  lessons.step = learn(steps, next);
  lessons.memory = learn(memory, next);
  for (const auto& [strategy, of_strategy] : traffic) lessons.traffic_by_strategy[strategy] = learn(of_strategy, next);
  lessons.traffic_bytes = ranks > 1 ? counted_traffic(work) : 0;
  return lessons;
}

void choose_traffic(Lessons& lessons, parallel::Strategy strategy) {
  lessons.traffic = lessons.traffic_by_strategy[strategy];
  if (lessons.traffic.is_used()) lessons.traffic_bytes *= lessons.traffic.factor;
}

std::string lessons_text(const Lessons& lessons) {
  const auto times = [](const forecast::Learned& learned) {
    return fmt::format("forecasts times {:.3g}", learned.factor);
  };
  auto text = line_of("steps", lessons.step, times(lessons.step)) +
              line_of("memory", lessons.memory, times(lessons.memory)) +
              line_of("traffic", lessons.traffic,
                      fmt::format("rank 0 moves {} in the collectives of a step", bytes_text(lessons.traffic_bytes)));
  for (const auto& each : lessons.left_out) text += fmt::format("left out    {}\n", each);
  return text;
}

nlohmann::ordered_json lessons_json(const Lessons& lessons) {
  auto traffic = json_of(lessons.traffic);
  traffic["bytes"] = lessons.traffic_bytes;
  return {{"step", json_of(lessons.step)},
          {"memory", json_of(lessons.memory)},
          {"traffic", std::move(traffic)},
          {"left_out", lessons.left_out}};
}

}  // namespace distdl::app
