// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/plan/forecast_record.hpp>
#include <distdl/app/plan/run_forecast.hpp>
#include <distdl/app/plan/step_drawing.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/parallel/pipeline/balance.hpp>
#include <distdl/parallel/pipeline/check.hpp>

namespace distdl::app {
namespace {
namespace pipeline = parallel::pipeline;

struct PlanArguments {
  ForecastArguments forecast;
  std::string schedule, svg;
  int ranks = 0, microbatches = 0, interleave = 2;
  std::vector<double> costs{1, 1, 1}, layers;
  std::vector<std::int64_t> stage_layers;
  double transfer = 0;
  bool json = false, has_interleave = false;
};

constexpr int kMostForwards = 1 << 20;
constexpr double kMostCost = 1e9;

void check_stage_layers(const PlanArguments& arguments, int stages) {
  const auto& counts = arguments.stage_layers;
  if (counts.empty()) return;
  require<UsageError>(!arguments.layers.empty() && !arguments.schedule.empty(), "{}",
                      "--stage-layers needs --layers and --schedule: schedules differ in their numbers of stages");
  const auto nearest = pipeline::nearest_stages(arguments.layers, stages, counts);
  require<UsageError>(counts == nearest,
                      "--stage-layers takes {} numbers of at least 1, one for each stage, whose sum is {}, as many as "
                      "there are --layers; the nearest possible choice is {}",
                      stages, arguments.layers.size(), fmt::join(nearest, ","));
}

void check(const PlanArguments& arguments) {
  const bool interleaves = arguments.schedule.empty() || arguments.schedule == "interleaved";
  require<UsageError>(interleaves || !arguments.has_interleave,
                      "--interleave belongs to --schedule interleaved; \"{}\" has one stage per rank: leave it out",
                      arguments.schedule);
  const int stages = arguments.ranks * (interleaves ? arguments.interleave : 1);
  require<UsageError>(arguments.microbatches <= kMostForwards / stages,
                      "{} microbatches in {} stages are more than {} operations; take at most --microbatches {}",
                      arguments.microbatches, stages, kMostForwards, kMostForwards / stages);
  const auto is_cost = [](double value) { return value > 0 && value <= kMostCost; };
  require<UsageError>(
      arguments.costs.size() == 3 && std::all_of(arguments.costs.begin(), arguments.costs.end(), is_cost),
      "--costs takes three numbers above 0 and at most {:g}: of the forward, of the backward of the input and of the "
      "backward of the weights, such as --costs 1,1,1",
      kMostCost);
  require<UsageError>(std::all_of(arguments.layers.begin(), arguments.layers.end(), is_cost),
                      "--layers takes numbers above 0 and at most {:g}, such as --layers 2,1,1,3", kMostCost);
  require<UsageError>(arguments.layers.empty() || static_cast<int>(arguments.layers.size()) >= stages,
                      "{} layers cannot be divided into {} stages; --stages, times --interleave if the schedule is "
                      "interleaved, may be at most {}",
                      arguments.layers.size(), stages, arguments.layers.size());
  check_stage_layers(arguments, stages);
}

/// A step, and how its stages were made.
struct Plan : PlannedStep {
  std::vector<std::int64_t> layers;  ///< layers of each stage, if they are known
  std::vector<double> cost_share;    ///< factor of the costs of each stage
};

Plan make_plan(const PlanArguments& arguments, pipeline::Algorithm algorithm) {
  const pipeline::Shape shape{arguments.ranks, arguments.microbatches,
                              algorithm == pipeline::Algorithm::interleaved ? arguments.interleave : 1};
  Plan plan;
  plan.cost_share.assign(static_cast<std::size_t>(shape.stages()), 1.0 / shape.interleave);
  if (!arguments.layers.empty()) {
    plan.layers = pipeline::nearest_stages(arguments.layers, shape.stages(), arguments.stage_layers);
    auto layer = arguments.layers.begin();
    for (std::size_t stage = 0; stage < plan.layers.size(); layer += plan.layers[stage++])
      plan.cost_share[stage] = std::accumulate(layer, layer + plan.layers[stage], 0.0);
  }
  pipeline::Costs costs{{}, arguments.transfer};
  for (double share : plan.cost_share)
    costs.stages.push_back({share * arguments.costs[0], share * arguments.costs[1], share * arguments.costs[2]});
  plan.schedule = pipeline::make_schedule(algorithm, shape);
  const auto problem = pipeline::check_schedule(plan.schedule);
  require<InternalError>(problem.empty(), "the schedule {} is wrong: {}", OneOf(algorithm), problem);
  plan.timeline = pipeline::simulate(plan.schedule, costs);
  return plan;
}

/// Activations of the rank that holds most, in microbatches that have passed all of its stages.
double most_activations(const Plan& plan) {
  const auto peaks = pipeline::peak_activations(plan.schedule);
  return static_cast<double>(*std::max_element(peaks.begin(), peaks.end())) / plan.schedule.shape.interleave;
}

/// Number of sends of the rank that sends most.
std::ptrdiff_t most_sends(const Plan& plan) {
  std::ptrdiff_t most = 0;
  for (const auto& operations : plan.schedule.operations)
    most = std::max(most, std::count_if(operations.begin(), operations.end(), [](const auto& operation) {
                      return operation.send_to != pipeline::Operation::kNobody;
                    }));
  return most;
}

nlohmann::ordered_json operations_json(const Plan& plan, std::size_t rank) {
  static constexpr const char* kKinds[] = {"forward", "backward", "backward_input", "backward_weight"};
  auto rows = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < plan.timeline.spans[rank].size(); ++i) {
    const auto& operation = plan.schedule.operations[rank][i];
    nlohmann::ordered_json row{{"kind", kKinds[static_cast<std::size_t>(operation.kind)]},
                               {"microbatch", operation.microbatch},
                               {"stage", operation.stage},
                               {"begin", plan.timeline.spans[rank][i].begin},
                               {"end", plan.timeline.spans[rank][i].end}};
    if (operation.receive_from != pipeline::Operation::kNobody) row["receive_from"] = operation.receive_from;
    if (operation.send_to != pipeline::Operation::kNobody) row["send_to"] = operation.send_to;
    rows.push_back(std::move(row));
  }
  return rows;
}

nlohmann::ordered_json to_json(const Plan& plan, bool with_operations) {
  auto ranks = nlohmann::ordered_json::array();
  const auto peaks = pipeline::peak_activations(plan.schedule);
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    ranks.push_back({{"idle", plan.timeline.idle[rank]}, {"activations", peaks[rank]}});
    if (with_operations) ranks.back()["operations"] = operations_json(plan, rank);
  }
  nlohmann::ordered_json json{{"schedule", OneOf(plan.schedule.algorithm).name()},
                              {"stages", plan.schedule.shape.stages()},
                              {"step", plan.timeline.seconds},
                              {"bubble", plan.timeline.bubble()},
                              {"activations", most_activations(plan)},
                              {"sends", most_sends(plan)},
                              {"ranks", std::move(ranks)}};
  if (!plan.layers.empty()) json["layers"] = plan.layers;
  return json;
}

void print_plans(const std::vector<Plan>& plans) {
  const Console console(STDOUT_FILENO);
  constexpr int kFileWidth = 100;  // columns that a text file has room for
  const int width = console.is_terminal() ? console.width() : kFileWidth;
  if (plans.size() == 1) fmt::print("{}\n", step_chart(plans[0], width, console.has_colour()));
  fmt::print("{:<12} {:>6} {:>12} {:>7} {:>12} {:>6}\n", "SCHEDULE", "STAGES", "STEP", "BUBBLE", "ACTIVATIONS",
             "SENDS");
  for (const Plan& plan : plans)
    fmt::print("{:<12} {:>6} {:>12.6g} {:>6.1f}% {:>12.6g} {:>6}\n", OneOf(plan.schedule.algorithm),
               plan.schedule.shape.stages(), plan.timeline.seconds, 100 * plan.timeline.bubble(),
               most_activations(plan), most_sends(plan));
  fmt::print(
      "\nACTIVATIONS: the most that a rank holds, of a microbatch in all its stages\nSENDS: the most of a rank\n");
  for (const Plan& plan : plans)
    if (!plan.layers.empty())
      fmt::print("layers of the {} stages: {}\n", plan.layers.size(), fmt::join(plan.layers, ", "));
}

void plan_pipeline(const PlanArguments& arguments) {
  check(arguments);
  std::vector<Plan> plans;
  for (const auto& row : pipeline::kAlgorithms)
    if (arguments.schedule.empty() || arguments.schedule == row.name) plans.push_back(make_plan(arguments, row.value));
  if (!arguments.svg.empty())
    replace_text(real_file_system(), resolved_place(arguments.svg), draw_steps({plans.begin(), plans.end()}));
  if (!arguments.json) return print_plans(plans);
  auto rows = nlohmann::ordered_json::array();
  for (const Plan& plan : plans) rows.push_back(to_json(plan, plans.size() == 1));
  const nlohmann::ordered_json all{
      {"ranks", arguments.ranks}, {"microbatches", arguments.microbatches}, {"schedules", std::move(rows)}};
  fmt::print("{}\n", all.dump(2));
}

void plan_run(const PlanArguments& arguments) {
  if (!std::filesystem::is_directory(arguments.forecast.job)) return print_forecast(arguments.forecast, arguments.json);
  const auto errors = errors_of_forecasts(arguments.forecast.job);
  require<UsageError>(
      !errors.empty(),
      "there is no forecast to compare with the records in \"{}\"; plan its job file with as many nodes "
      "as it has run on: distdl plan job.toml --nodes N",
      arguments.forecast.job.string());
  fmt::print("{}", errors.substr(1));  // without the empty line before
}

/// With a job, a forecast; else schedules.
void check_use(const PlanArguments& arguments, const std::vector<Option>& forecasts,
               const std::vector<Option>& schedules) {
  const auto given = [](const Option& option) { return option.given(); };
  const bool has_job = !arguments.forecast.job.empty();
  require<UsageError>(has_job || std::ranges::none_of(forecasts, given), "{}",
                      "--nodes and the other options of a forecast need a job file: distdl plan job.toml --nodes 4");
  require<UsageError>(
      !has_job || std::ranges::none_of(schedules, given), "{}",
      "--stages and the other options of pipeline schedules go without a job file: distdl plan --stages "
      "4 --microbatches 16");
  require<UsageError>(has_job || (arguments.ranks > 0 && arguments.microbatches > 0), "{}",
                      "give a job file to forecast its run (distdl plan job.toml --nodes 4), or --stages and "
                      "--microbatches to compare pipeline schedules (distdl plan --stages 4 --microbatches 16)");
}

/// The options; kInterleave is the place of --interleave among them.
constexpr std::size_t kInterleave = 3;

std::vector<Option> add_schedules(Command command, PlanArguments& a) {
  std::vector<std::string> names;
  names.reserve(pipeline::kAlgorithms.size());
  for (const auto& row : pipeline::kAlgorithms) names.emplace_back(row.name);
  return {
      command.add_option("--schedule", a.schedule, "Schedules: show this one; all are compared without it")
          .one_of(names),
      command
          .add_option("--stages", a.ranks,
                      "Schedules: stages of the pipeline, one per rank; --interleave multiplies them")
          .within(1, 1024),
      command.add_option("--microbatches", a.microbatches, "Schedules: microbatches of a step")
          .within(1, kMostForwards),
      command.add_option("--interleave", a.interleave, "Schedules: stages per rank where they are interleaved")
          .within(1, 26)
          .show_default(),
      command
          .add_option("--costs", a.costs,
                      "Schedules: of a microbatch on a rank, in any unit: forward, backward of the input, backward of "
                      "the weights")
          .list()
          .show_default(),
      command
          .add_option("--layers", a.layers,
                      "Schedules: cost of each layer, with commas: stages are made of them so that the slowest is as "
                      "short as possible; --costs then holds for a layer of cost 1")
          .list(),
      command
          .add_option("--stage-layers", a.stage_layers,
                      "Schedules: with --layers and --schedule: how many of them each stage has, with commas, such as "
                      "3,5")
          .list(),
      command
          .add_option("--transfer", a.transfer, "Schedules: time from one rank to the next, in the unit of the costs")
          .within(0.0, kMostCost)
          .show_default(),
      command.add_option("--svg", a.svg, "Schedules: draw them in this file").type_name("FILE"),
  };
}
}  // namespace

void add_plan_command(Command app) {
  auto command =
      app.add_subcommand("plan",
                         "Forecast a job's time, memory and cost before it has any node; or compare pipeline "
                         "schedules");
  auto a = std::make_shared<PlanArguments>();
  command.add_option("job", a->forecast.job,
                     "Job file whose run is forecast; or a run folder: how wrong its last forecasts were. Without it, "
                     "pipeline schedules are compared");
  const auto forecasts = a->forecast.add_to(command);
  const auto schedules = add_schedules(command, *a);
  const Option interleave = schedules[kInterleave];
  command.add_flag("--json", a->json, "Print JSON; with --schedule also each operation");
  command.notes(
      "Forecasts use the figures of \"distdl bench calibrate\", see docs/plan.md; schedules: docs/pipeline.md.");
  command.examples({{"distdl plan job.toml --nodes 8 --rate 25G", "Forecast a run on 8 nodes with links of 25 Gbit/s"},
                    {"distdl plan run", "See how wrong the forecasts of a run were"},
                    {"distdl plan --stages 4 --microbatches 16", "Compare the schedules of a pipeline"}});
  command.callback([a, interleave, forecasts, schedules] {
    a->has_interleave = interleave.given();
    check_use(*a, forecasts, schedules);
    if (a->forecast.job.empty())
      plan_pipeline(*a);
    else
      plan_run(*a);
  });
}

}  // namespace distdl::app
