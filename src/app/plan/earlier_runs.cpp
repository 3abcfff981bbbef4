// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/plan/earlier_runs.hpp>
#include <distdl/app/plan/forecast_record.hpp>
#include <distdl/app/plan/measured_run.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/base/byte_text.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/median.hpp>
#include <distdl/forecast/product_forecast.hpp>
#include <distdl/observe/run_identity.hpp>

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

/// Of the runs that were compared, by figure.
struct Comparisons {
  std::vector<LearnedRun> steps, memory, traffic;
};

class Comparer {
 public:
  Comparer(const config::Job& job, const forecast::Workload& work, forecast::Machine machine)
      : machine_(std::move(machine)) {
    std::string obstacle;
    const int ranks = machine_.nodes * machine_.ranks_per_node;
    if (const auto own = forecast::own_product(job.recipe, work.model, ranks, obstacle)) strategy_ = own->strategy;
  }

  /// Returns why the run is left out, or an empty text.
  std::string add(const fs::path& run) try {
    const auto job = config::load(run / "job.toml", {});
    const auto work = forecast::workload_of(job.recipe);
    const auto before = comparisons.steps.size();
    for (const auto& [key, measured] : measured_runs(run)) compare(job.recipe, work, key, measured);
    return comparisons.steps.size() > before ? "" : "its records tell of no product that has a forecast";
  } catch (const Error& error) {
    return error.what();
  }

  Comparisons comparisons;

 private:
  void compare(const train::Recipe& recipe, const forecast::Workload& work, const RanksAndProduct& key,
               const MeasuredRun& run) {
    const auto ranks = static_cast<int>(key.first);
    if (run.samples_per_second.empty() || ranks < 1 || ranks % run.nodes != 0) return;
    machine_.nodes = static_cast<int>(run.nodes);
    machine_.ranks_per_node = static_cast<int>(ranks / run.nodes);
    const auto product = product_named(key.second, recipe, work, ranks);
    if (!product) return;
    const auto made = forecast_product(forecast::basis_of(recipe, work, machine_), *product);
    const auto features = features_of(recipe, work, ranks);
    const auto batch = static_cast<double>(recipe.parallel.microbatches * recipe.parallel.microbatch_size);
    comparisons.steps.push_back({features, made.step.seconds, batch / median(run.samples_per_second)});
    if (run.memory_bytes > 0) comparisons.memory.push_back({features, first_rank_bytes(made), run.memory_bytes});
    if (ranks > 1 && run.moved_bytes > 0 && product->strategy == strategy_)
      comparisons.traffic.push_back({features, counted_traffic(work), run.moved_bytes});
  }

  forecast::Machine machine_;
  OneOf<parallel::Strategy> strategy_ = parallel::Strategy::replicas;
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
    const auto run = fs::weakly_canonical(folder);
    if (std::ranges::find(runs, run) == runs.end()) runs.push_back(run);
  };
  for (const auto& word : words) {
    if (word != "all") add(find_run(word));
    if (word == "all")
      for (const auto& known : observe::known_runs()) add(known.folder);
  }
  return runs;
}

Lessons learn_from(const std::vector<fs::path>& runs, const config::Job& job, const forecast::Workload& work,
                   const forecast::Machine& machine) {
  Comparer comparer(job, work, machine);
  Lessons lessons;
  for (const auto& run : runs)
    if (const auto reason = comparer.add(run); !reason.empty())
      lessons.left_out.push_back(fmt::format("\"{}\": {}", run.string(), reason));
  const auto next = features_of(job.recipe, work, machine.nodes * machine.ranks_per_node);
  const auto& [steps, memory, traffic] = comparer.comparisons;
  lessons.step = learn(steps, next);
  lessons.memory = learn(memory, next);
  lessons.traffic = learn(traffic, next);
  lessons.traffic_bytes = counted_traffic(work) * (lessons.traffic.is_used() ? lessons.traffic.factor : 1);
  return lessons;
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
