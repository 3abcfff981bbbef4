// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>

#include <distdl/app/checks/job_check.hpp>
#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/pager.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/observe/metrics/open_metrics.hpp>
#include <distdl/records/kinds.hpp>
#include <distdl/train/memory.hpp>

namespace distdl::app {
namespace {
void check(const std::string& file, const std::vector<std::string>& overrides) {
  auto job = config::load(file, overrides);
  config::log_warnings(job);
  auto backend = kernels::make_backend(job.recipe.kernels);
  if (!job.observe.openmetrics.empty()) observe::check_metrics_file(job.observe.openmetrics);
  const auto memory = backend->memory_is_host() ? train::memory_of_node() : kAnyMemory;
  fmt::print("{}: ok; {}, backend {}\n", printable(file), check_job(job, memory), backend->description());
}
}  // namespace

void add_config_command(Command app) {
  struct Arguments {
    bool defaults = false, reference = false, records = false;
    std::string check;
    std::vector<std::string> overrides;
  };
  auto command = app.add_subcommand("config", "Show all keys of a job file, or check one");
  auto arguments = std::make_shared<Arguments>();
  auto choice = command.add_choice("what");
  choice.add_flag("--defaults", arguments->defaults, "Print a complete job file with every key explained");
  choice.add_flag("--reference", arguments->reference, "Print all keys as a Markdown table");
  choice.add_flag("--records", arguments->records, "Print the fields of metrics.jsonl and journal.jsonl as Markdown");
  choice.add_option("--check", arguments->check, "Check a job file, its data sets and its model");
  command.add_option("--set", arguments->overrides, "With --check: override a key").repeatable("KEY=VALUE");
  command.examples(
      {{"distdl config --defaults > job.toml", "Write a job file, with every key explained"},
       {"distdl config --check job.toml --set train.epochs=2", "Check a job file, its data sets and its model"},
       {"distdl config --reference", "Print all keys as a table"},
       {"distdl config --records", "Print the fields of the files that a run writes"}});
  command.callback([arguments] {
    if (arguments->defaults) print_paged(config::defaults_as_toml());
    if (arguments->reference) print_paged(config::reference_as_markdown());
    if (arguments->records) print_paged(records::records_as_markdown());
    if (!arguments->check.empty()) check(arguments->check, arguments->overrides);
  });
}

}  // namespace distdl::app
