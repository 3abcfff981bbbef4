// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <distdl/app/checks/node_check.hpp>
#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/job_arguments.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/world/make_world.hpp>

namespace distdl::app {
namespace {
struct PreflightArguments {
  JobArguments job;
  std::filesystem::path folder;
  int devices = 1;
};

void connect(NodeCheckReport& report, world::World& world, comm::Options options, double seconds) try {
  options.timeout_seconds = options.connect_timeout_seconds = seconds;
  comm::run_connected(world, options, [&](comm::Communicator& communicator) { check_links(report, communicator); });
  report.unconnected.clear();
} catch (const Error& error) {
  report.unconnected = error.what();
}

/// Checks the node. Its own findings are reported before it waits for other nodes; the wait ends early enough to report
/// that it was in vain.
void check_node(const PreflightArguments& arguments) {
  const Stopwatch watch;
  const config::Job job = arguments.job.load();
  const auto world = world::make_world(std::filesystem::path(job.run_dir) / "launches");
  NodeCheckReport report{slurm::name_of_node()};
  if (has_fault(report.node, "silent")) std::this_thread::sleep_for(std::chrono::minutes(1));
  check_compute(report, job.recipe.kernels, arguments.devices);
  check_file(report, arguments.folder);
  const auto file = resolved(arguments.folder) / (report.node + ".json");
  if (world->size() > 1) report.unconnected = "the measurement had not ended when the check did";
  replace_text(real_file_system(), file, to_text(report));
  if (world->size() == 1) return;
  connect(report, *world, job.comm, std::max(1.0, 0.8 * job.launch.preflight_seconds - watch.seconds()));
  replace_text(real_file_system(), file, to_text(report));
}
}  // namespace

void add_preflight_command(Command app) {
  auto command =
      app.add_subcommand("preflight", "Check one node before ranks are started there; started by \"distdl run\"");
  auto arguments = std::make_shared<PreflightArguments>();
  arguments->job.add_to(command);
  command.add_option("--into", arguments->folder, "Folder for the report").required();
  command.add_option("--devices", arguments->devices, "Number of GPUs to check, if there are any").positive();
  command.examples({{"distdl preflight job.toml --into .", "Check this node by hand, and write the report here"}});
  command.callback([arguments] { check_node(*arguments); });
}

}  // namespace distdl::app
