// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/observe/export/exporters.hpp>
#include <distdl/observe/tensorboard/parameter_histograms.hpp>

namespace distdl::app {
namespace {
/// A program that metrics are exported to.
struct Target {
  const char* name;
  std::filesystem::path (*write)(const observe::History&, const std::filesystem::path& place, bool replace);
  const char* place;  ///< where the program itself looks for files
  const char* next;   ///< the command that shows them; {0}: the place, {1}: the folder
};
constexpr std::array kTargets{
    Target{"tensorboard", &observe::export_tensorboard, "tensorboard", "tensorboard --logdir {0}"},
    Target{"wandb", &observe::export_wandb, "wandb", "wandb sync {1}"},
    Target{"mlflow", &observe::export_mlflow, "mlruns",
           "MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {0}"}};

struct MetricsExport {
  RunArgument run;
  std::string to;
  std::filesystem::path place;
  bool force = false, histograms = false;
  std::int64_t samples = 0;
};

void export_metrics(const MetricsExport& arguments) {
  const auto* const target = std::ranges::find(kTargets, arguments.to, &Target::name);
  auto history = observe::read_history(arguments.run.find());
  require<UsageError>(arguments.to == "tensorboard" || (!arguments.histograms && arguments.samples == 0),
                      "--histograms and --samples are for --to tensorboard, not {}", arguments.to);
  history.samples = arguments.samples;
  std::optional<WorkProgress> progress;
  if (arguments.histograms) {
    history.checkpoints = checkpoint::list(history.folder / "checkpoints");
    std::uint64_t bytes = 0;
    for (const auto& checkpoint : history.checkpoints) bytes += observe::parameter_bytes(checkpoint);
    progress.emplace("reading checkpoints", WorkUnit::bytes, bytes);
  }
  const auto place = arguments.place.empty() ? std::filesystem::path(target->place) : arguments.place;
  const auto folder = target->write(history, place, arguments.force);
  progress.reset();  // the result takes its place
  fmt::print("{}: up to step {}; see it with: {}\n", printable(folder.string()), history.rows.rbegin()->first,
             fmt::format(fmt::runtime(target->next), printable(place.string()), printable(folder.string())));
}
}  // namespace

void add_metrics_command(Command app) {
  auto command = app.add_subcommand("metrics", "Write the metrics of a run for other programs");
  command.require_subcommand();
  auto to_file = command.add_subcommand(
      "export", "Write metrics and job of a run as files of TensorBoard, W&B or MLflow; the run may go on");
  auto arguments = std::make_shared<MetricsExport>();
  arguments->run.add_to(to_file);
  to_file.add_option("--to", arguments->to, "The program that shall read them")
      .one_of({"tensorboard", "wandb", "mlflow"})
      .required();
  to_file
      .add_option("-o,--output", arguments->place,
                  "Folder to which the run is added; without it, ./tensorboard, ./wandb or ./mlruns")
      .type_name("DIR");
  to_file.add_flag("--histograms", arguments->histograms,
                   "For TensorBoard: also read the checkpoints that are there, for a histogram of each parameter");
  to_file
      .add_option("--samples", arguments->samples,
                  "For TensorBoard: also the first N images of the training set, or passages of its text")
      .type_name("N")
      .not_negative();
  to_file.add_flag("--force", arguments->force, "Replace what was exported there of this run before");
  to_file.examples({{"distdl metrics export run --to tensorboard", "Write event files for TensorBoard"},
                    {"distdl metrics export run --to tensorboard --histograms --samples 9 -o board",
                     "The same with histograms of the parameters in its checkpoints, and samples of its data"},
                    {"distdl metrics export run --to wandb", "Write a run that \"wandb sync\" uploads"},
                    {"distdl metrics export run --to mlflow -o mlruns --force",
                     "Add the run to a file store of MLflow, or bring it up to date there"}});
  to_file.callback([arguments] { export_metrics(*arguments); });
}

}  // namespace distdl::app
