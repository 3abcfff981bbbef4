// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <distdl/app/checks/node_check.hpp>
#include <distdl/app/cli/commands.hpp>
#include <distdl/app/cli/job_arguments.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/world/make_world.hpp>

namespace distdl::app {
namespace {
struct PreflightArguments {
  JobArguments job;
  std::filesystem::path folder;
  int devices = 1;
};

void connect(NodeCheckReport& report, world::World& world, const config::Job& job) try {
  if (world.size() == 1) return;
  comm::Options options = job.comm;
  options.timeout_seconds = options.connect_timeout_seconds = job.launch.preflight_seconds;
  comm::run_connected(world, options, [&](comm::Communicator& communicator) { check_links(report, communicator); });
} catch (const Error& error) {
  report.unconnected = error.what();
}

/// What the node finds by itself it reports before it waits for others.
void check_node(const PreflightArguments& arguments) {
  const config::Job job = arguments.job.load();
  const auto world = world::make_world(std::filesystem::path(job.run_dir) / "launches");
  NodeCheckReport report{slurm::name_of_node()};
  if (has_fault(report.node, "silent")) std::this_thread::sleep_for(std::chrono::minutes(1));
  check_compute(report, job.recipe.kernels, arguments.devices);
  check_file(report, arguments.folder);
  const auto file = arguments.folder / (report.node + ".json");
  checkpoint::replace_text(checkpoint::real_file_system(), file, to_text(report));
  connect(report, *world, job);
  checkpoint::replace_text(checkpoint::real_file_system(), file, to_text(report));
}
}  // namespace

void add_preflight_command(Command app) {
  auto command =
      app.add_subcommand("preflight", "Check one node before ranks are started there; started by \"distdl run\"");
  auto arguments = std::make_shared<PreflightArguments>();
  arguments->job.add_to(command);
  command.add_option("--into", arguments->folder, "Folder for the report").required();
  command.add_option("--devices", arguments->devices, "Number of GPUs to check, if there are any").positive();
  command.callback([arguments] { check_node(*arguments); });
}

}  // namespace distdl::app
