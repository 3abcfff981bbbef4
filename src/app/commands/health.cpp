// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/health/failure_examples.hpp>

namespace distdl::app {
namespace {
struct HealthArguments {
  std::vector<std::string> runs;
  std::string file;
};

/// A predictor is judged by examples that it was not fitted to: every fourth block of them, since neighbours are alike.
health::PredictorQuality held_out_quality(const std::vector<health::Example>& examples) {
  constexpr std::size_t kBlock = 100, kEvery = 4;
  std::vector<health::Example> fitted, held_out;
  for (std::size_t i = 0; i < examples.size(); ++i)
    (i / kBlock % kEvery == 0 ? held_out : fitted).push_back(examples[i]);
  return health::quality_of(health::train_predictor(fitted), held_out);
}

void train(const HealthArguments& arguments) {
  std::vector<health::Example> examples;
  for (const auto& run : arguments.runs) {
    const auto more = observe::read_examples(find_run(run));
    examples.insert(examples.end(), more.begin(), more.end());
  }
  std::size_t failures = 0;
  for (const auto& each : examples) failures += each.has_failed;
  require(
      failures > 0 && failures < examples.size(),
      "the runs have {} readings of nodes, of which {} are of the half hour before a failure; a predictor needs both "
      "kinds",
      examples.size(), failures);
  replace_text(real_file_system(), resolved_place(arguments.file), observe::to_text(health::train_predictor(examples)));
  const auto quality = held_out_quality(examples);
  fmt::print(
      "{} readings, {} of them before a failure; of those held out, {:.0f}% of the alarms are right, and {:.0f}% of "
      "the readings before a failure raise one\nwritten to {}; use it with "
      "run.failure_predictor\n",
      examples.size(), failures, 100 * quality.precision, 100 * quality.recall, arguments.file);
}
}  // namespace

void add_health_command(Command app) {
  auto command = app.add_subcommand("health", "Learn from earlier runs which states of a node come before its failure");
  auto arguments = std::make_shared<HealthArguments>();
  command.add_option("RUN", arguments->runs, "Run folders, ids of runs, or jobs").required();
  command.add_option("--train", arguments->file, "Write the predictor to this file").type_name("FILE").required();
  command.examples({{"distdl health run1 run2 --train predictor.json",
                     "Learn from two runs; job files name the result as run.failure_predictor"}});
  command.callback([arguments] { train(*arguments); });
}

}  // namespace distdl::app
