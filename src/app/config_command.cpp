// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <distdl/agent/supervisor.hpp>
#include <distdl/app/commands.hpp>
#include <distdl/base/log.hpp>
#include <distdl/config/job.hpp>
#include <distdl/data/source.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/models.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/run.hpp>

namespace distdl::app {
namespace {
/// Everything that can be found wrong with a job before ranks are started.
void check(const std::string& file, const std::vector<std::string>& overrides) {
  auto job = config::load(file, overrides);
  auto plan = parallel::make_plan(job.recipe.parallel, 1);
  optim::check(job.recipe.optim);
  train::check(job.recipe.train);
  agent::check(job.agent);
  severity_from(job.observe.level);
  auto backend = kernels::make_backend(job.recipe.kernels);
  const auto sources =
      data::open_sources(job.recipe.data, job.recipe.model.context, static_cast<std::uint64_t>(job.recipe.train.seed));
  const data::Source& samples = *sources.training;
  auto model = model::describe_model(job.recipe.model, samples.shape(), samples.classes());
  fmt::print("{}: ok; model {} with {} parameters, {} samples of {} in {} classes, global batch {}, backend {}\n", file,
             model.name, model::parameter_count(model::tensors_of(model)), samples.samples(),
             tensor::to_string(samples.shape()), samples.classes(), plan.global_batch(), backend->description());
}
}  // namespace

void add_config_command(CLI::App& app) {
  struct Arguments {
    bool defaults = false, reference = false;
    std::string check;
    std::vector<std::string> overrides;
  };
  auto* command = app.add_subcommand("config", "Show all keys of a job file, or check one");
  auto arguments = std::make_shared<Arguments>();
  auto* choice = command->add_option_group("what");
  choice->add_flag("--defaults", arguments->defaults, "Print a complete job file with every key explained");
  choice->add_flag("--reference", arguments->reference, "Print all keys as a Markdown table");
  choice->add_option("--check", arguments->check, "Check a job file, its data sets and its model");
  choice->require_option(1);
  command->add_option("--set", arguments->overrides, "With --check: override a key")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->callback([arguments] {
    if (arguments->defaults) fmt::print("{}", config::defaults_as_toml());
    if (arguments->reference) fmt::print("{}", config::reference_as_markdown());
    if (!arguments->check.empty()) check(arguments->check, arguments->overrides);
  });
}

}  // namespace distdl::app
