// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/app/plan/earlier_runs.hpp>
#include <distdl/app/plan/forecast_record.hpp>
#include <distdl/app/plan/run_forecast.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/unavailable.hpp>
#include <distdl/observe/run/run_folder.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;

/// Payload of TCP as a share of Ethernet frames of 1,538 bytes on the wire.
constexpr double kPayload = 1448.0 / 1538;

/// The newest calibration of any kind of node.
std::optional<fs::path> newest_calibration(const fs::path& folder) {
  std::optional<fs::path> newest;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with("calibration-") && entry.path().extension() == ".json")
      if (!newest || fs::last_write_time(entry.path(), error) > fs::last_write_time(*newest, error))
        newest = entry.path();
  return newest;
}

/// Nothing if it has only the peak, as of a device.
std::optional<forecast::Calibration> load_with_works(const fs::path& file) {
  auto calibration = forecast::load_calibration(file);
  return calibration && !calibration->works.empty() ? std::move(calibration) : std::nullopt;
}

/// Finds the calibration of this machine's kind of node, or else the newest one. Then it also sets the reason why that
/// is not of these nodes.
void find_calibration(forecast::Machine& machine, const kernels::Options& kernels) {
  std::string backend;
  try {
    backend = kernels::make_backend(kernels)->description();
  } catch (const kernels::BackendUnavailable&) {  // on this machine; on the nodes it may run
  }
  const auto kind = forecast::kind_of_this_node(backend);
  const auto file = forecast::calibration_file(kind);
  if (!file) return;
  machine.calibration = load_with_works(*file);
  if (machine.calibration) return;
  if (const auto newest = newest_calibration(file->parent_path())) machine.calibration = load_with_works(*newest);
  if (machine.calibration && machine.not_of_these.empty())
    machine.not_of_these = fmt::format("the calibration is of nodes with {}, not with {}",
                                       to_string(machine.calibration->kind), to_string(kind));
}

forecast::Calibration load_given(const fs::path& file) {
  auto given = forecast::load_calibration(file);
  require<UsageError>(given.has_value(),
                      "--calibration: there is no file \"{}\"; \"distdl bench calibrate\" tells "
                      "where it keeps its figures",
                      file.string());
  return *given;
}

forecast::Machine machine_of(const ForecastArguments& arguments, const config::Job& job) {
  forecast::Machine machine;
  machine.nodes = static_cast<int>(*arguments.nodes);
  machine.ranks_per_node = static_cast<int>(arguments.ranks_per_node);
  machine.fabric.topology = arguments.fabric;
  machine.fabric.group = static_cast<int>(arguments.group);
  machine.fabric.oversubscription = arguments.oversubscription;
  if (!arguments.rate.empty()) machine.rate = decimal_size("--rate", arguments.rate) / 8 * kPayload;
  if (!arguments.node_memory.empty())
    machine.memory_bytes = static_cast<std::uint64_t>(decimal_size("--node-memory", arguments.node_memory));
  machine.latency = arguments.latency_us * 1e-6;
  machine.is_tuned = arguments.is_tuned;
  machine.node_mtbf_hours = arguments.mtbf_hours;
  machine.spares = static_cast<int>(job.agent.spares);
  machine.least_nodes = static_cast<int>(arguments.least_nodes.value_or(*arguments.nodes));
  machine.relaunches = job.agent.recovery == agent::Recovery::relaunch;
  machine.seed = static_cast<std::uint64_t>(arguments.seed);
  if (arguments.calibration.empty())
    add_figures(machine, job);
  else
    machine.calibration = load_given(arguments.calibration);
  return machine;
}
}  // namespace

void add_figures(forecast::Machine& machine, const config::Job& job) {
  if (job.recipe.parallel.strategy == parallel::Strategy::automatic)
    machine.microbatch_seconds = observe::read_microbatch_seconds(job.run_dir, job.recipe.parallel.microbatch_size);
  find_calibration(machine, job.recipe.kernels);
}

double decimal_size(const std::string& option, const std::string& text) {
  static constexpr std::string_view kUnits = "KMGT";
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto place = unit.size() == 1 ? kUnits.find(unit[0]) : std::string_view::npos;
  require<UsageError>(error == std::errc{} && value > 0 && value < 1e18 && (unit.empty() || place < kUnits.size()),
                      "{} {}: expected a number above 0 with K, M, G or T, such as {} 100M", option, text, option);
  for (std::size_t i = 0; !unit.empty() && i <= place; ++i) value *= 1000;
  return value;
}

std::vector<Option> ForecastArguments::add_to(Command command) {
  constexpr double kMost = 1e9;
  static constexpr int kMostNodes = 1000000;
  std::vector<std::string> fabrics;
  for (const auto& row : choices_of(forecast::Topology())) fabrics.emplace_back(row.name);
  const auto whole = [](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool good = error == std::errc{} && end == text.data() + text.size() && value >= 1 && value <= kMostNodes;
    return good ? "" : fmt::format("expected a whole number from 1 to {}, not {}", kMostNodes, text);
  };
  return {
      command.add_option("--set", overrides, "Forecast: override a key of the job file").repeatable("KEY=VALUE"),
      command.add_option("--nodes", nodes, "Forecast: nodes that run ranks").check(whole),
      command
          .add_option(
              "--least-nodes", least_nodes,
              "Forecast: nodes with which the run continues after losses, as of sbatch --nodes=6-8; all of them, "
              "unless given")
          .check(whole),
      command.add_option("--ranks-per-node", ranks_per_node, "Forecast: ranks of a node").check(whole).show_default(),
      command.add_option("--fabric", fabric, OneOf<forecast::Topology>::help("Forecast: how the nodes are joined"))
          .one_of(fabrics)
          .show_default(),
      command.add_option("--group", group, "Forecast: nodes of a leaf switch, or of a group of a dragonfly")
          .check(whole)
          .show_default(),
      command
          .add_option("--oversubscription", oversubscription,
                      "Forecast: rate of the nodes of a group together over that of its links to others")
          .within(1.0, kMost)
          .show_default(),
      command.add_option("--rate", rate,
                         "Forecast: bits per second of a node's network, such as 25G; 94% of them are payload; as "
                         "measured, unless given"),
      command
          .add_option("--latency", latency_us,
                      "Forecast: microseconds of a message between nodes; as measured, unless given")
          .within(0.0, kMost),
      command.add_option("--node-memory", node_memory,
                         "Forecast: bytes of a node's memory, such as 256G; as measured, "
                         "or this machine's, unless given"),
      command.add_option("--mtbf-hours", mtbf_hours, "Forecast: mean hours between failures of one node; 0: none fails")
          .within(0.0, kMost)
          .show_default(),
      command.add_option("--calibration", calibration,
                         "Forecast: figures of \"distdl bench calibrate\"; otherwise those of this machine's kind, or "
                         "the newest"),
      command
          .add_option("--from", from,
                      "Forecast: learn from the records of this run, or of a sweep's, by how much forecasts are wrong; "
                      "\"all\": of all runs that \"distdl ls\" shows")
          .repeatable("RUN"),
      command.add_flag("--tuned", is_tuned,
                       "Forecast: \"distdl bench comm --tune\" will have run on the nodes, whose ranks then choose "
                       "algorithms by what it has measured"),
      command.add_flag("--all", shows_all, "Forecast: show all products, not only the best ones"),
      command.add_option("--seed", seed, "Forecast: of the times of ranks and failures").show_default(),
  };
}

namespace {
/// Tells on a terminal how far a forecast is, as other work does; nothing elsewhere.
class ForecastShown {
 public:
  explicit ForecastShown(bool is_shown) : is_shown_(is_shown && Console(STDERR_FILENO).is_terminal()) {}
  void operator()(std::size_t done, std::size_t all, const forecast::Product& next) {
    const auto what = "forecasting " + name_of(next);
    if (is_shown_ && !progress_) progress_.emplace(what, WorkUnit::products, all);
    if (progress_) progress_->now(what);
    work_done(WorkUnit::products, done - std::min(done, done_));
    done_ = done;
  }

 private:
  bool is_shown_;
  std::size_t done_ = 0;
  std::optional<WorkProgress> progress_;
};

forecast::Forecast forecast_with_progress(const config::Job& job, const forecast::Workload& work,
                                          const forecast::Machine& machine, bool is_shown) {
  ForecastShown shown(is_shown);
  auto result = forecast::forecast(job.recipe, work, machine, std::ref(shown));
  if (job.devices_per_rank > 1)
    result.warnings.push_back(fmt::format(
        "times and memory are those of ranks with one device each, not of run.devices_per_rank = {}, which needs "
        "activations and gradients for each device",
        job.devices_per_rank));
  return result;
}

/// The machine's forecasts are corrected from here on.
Lessons apply_lessons(const std::vector<std::string>& from, const config::Job& job, const forecast::Workload& work,
                      forecast::Machine& machine) {
  // The other runs' forecasts do not have it, and so no forecast that they correct.
  const double microbatch_seconds = std::exchange(machine.microbatch_seconds, 0);
  auto lessons = learn_from(runs_of(from), job, work, machine);
  if (lessons.step.is_used())
    machine.step_factor = lessons.step.factor;
  else
    machine.microbatch_seconds = microbatch_seconds;
  if (lessons.memory.is_used()) machine.memory_factor = lessons.memory.factor;
  return lessons;
}

/// As which the job would train.
parallel::Strategy strategy_of(const config::Job& job, const forecast::Workload& work, const forecast::Machine& machine,
                               const forecast::Forecast& result) {
  if (job.recipe.parallel.strategy == parallel::Strategy::automatic && result.automatic)
    return result.automatic->product.strategy;
  std::string obstacle;
  const auto own = forecast::own_product(job.recipe, work.model, machine.nodes * machine.ranks_per_node, obstacle);
  return own ? parallel::Strategy(own->strategy) : parallel::Strategy::replicas;
}
}  // namespace

void print_forecast(const ForecastArguments& arguments, bool json) {
  require<UsageError>(arguments.nodes.has_value(), "{}",
                      "a forecast needs to know how many nodes run ranks, for instance --nodes 4");
  require<UsageError>(arguments.least_nodes.value_or(1) <= *arguments.nodes,
                      "--least-nodes {} is more than all nodes; take at most --least-nodes {}", *arguments.least_nodes,
                      *arguments.nodes);
  const auto job = config::load(arguments.job, arguments.overrides);
  auto machine = machine_of(arguments, job);
  require<UsageError>(machine.nodes <= (1 << 24) / machine.ranks_per_node,
                      "{} nodes of {} ranks are more than {} ranks; take at most --nodes {}", machine.nodes,
                      machine.ranks_per_node, 1 << 24, (1 << 24) / machine.ranks_per_node);
  const auto work = forecast::workload_of(job.recipe);
  std::optional<Lessons> lessons;
  if (!arguments.from.empty()) lessons = apply_lessons(arguments.from, job, work, machine);
  const auto result = forecast_with_progress(job, work, machine, !json);
  if (lessons) choose_traffic(*lessons, strategy_of(job, work, machine, result));
  if (json) {
    fmt::print("{}", forecast_json(result, machine, lessons ? lessons_json(*lessons) : nullptr));
  } else {
    fmt::print("{}{}{}", forecast_table(result, machine, arguments.shows_all), lessons ? lessons_text(*lessons) : "",
               errors_of_forecasts(job.run_dir));
  }
  record_forecast(job.run_dir, result, machine);
}

}  // namespace distdl::app
