// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <distdl/app/checks/fabric_check.hpp>
#include <distdl/app/checks/folder_check.hpp>
#include <distdl/app/checks/node_check.hpp>
#include <distdl/app/checks/signal_probe.hpp>
#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/ranks/local_ranks.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/comm/ucx/transports.hpp>
#include <distdl/hdf5/library.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/commands.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

Finding check_cpu() {
#if defined(__x86_64__)
  std::vector<std::string> features;
  if (__builtin_cpu_supports("avx2")) features.emplace_back("AVX2");
  if (__builtin_cpu_supports("avx512f")) features.emplace_back("AVX-512");
  if (__builtin_cpu_supports("avx512vnni")) features.emplace_back("VNNI");
  if (__builtin_cpu_supports("sse4.2")) features.emplace_back("CRC32C");
  auto text = fmt::format("{} cores, {}", ::sysconf(_SC_NPROCESSORS_ONLN), fmt::join(features, ", "));
  if (!__builtin_cpu_supports("avx2")) return {"CPU", Health::warn, text, "training on a CPU without AVX2 is slow"};
  return {"CPU", Health::ok, text, ""};
#elif defined(__aarch64__)
  const auto has = ::getauxval(AT_HWCAP);
  return {"CPU", Health::ok,
          fmt::format("{} cores, {}{}", ::sysconf(_SC_NPROCESSORS_ONLN), has & HWCAP_SVE ? "SVE, " : "",
                      has & HWCAP_CRC32 ? "CRC32C" : "no CRC32C: checksums are slow"),
          ""};
#else
  return {"CPU", Health::ok, fmt::format("{} cores", ::sysconf(_SC_NPROCESSORS_ONLN)), ""};
#endif
}

Finding check_compute() {
  try {
    auto backend = kernels::make_backend({});
    auto health = backend->name() == "reference" ? Health::warn : Health::ok;
    NodeCheckReport report{host_name()};
    app::check_compute(report, {}, 1);
    if (!report.wrong.empty())
      return {"compute", Health::fail, report.wrong, "compute nowhere here until it is repaired"};
    return {"compute", health,
            fmt::format("{}, {:.0f} GFLOP/s; gradients {}, the same on all machines with this backend",
                        backend->description(), report.flops / 1e9, report.digest),
            health == Health::ok ? "" : "only the slow reference backend works; build with oneDNN or CUDA"};
  } catch (const Error& error) {
    return {"compute", Health::fail, error.what(), "no backend works here"};
  }
}

Finding check_gpu() {
  try {
    return {"GPU", Health::ok, kernels::make_backend({.backend = "cuda"})->description(), ""};
  } catch (const Error& error) {
    return {"GPU", Health::warn, error.what(), "training runs on the CPU"};
  }
}

Finding check_slurm() {
  auto version = slurm::ask({"srun", "--version"}, 5s);
  if (version.exit_code == 127)
    return {"Slurm", Health::warn, "its commands are not on PATH", "only \"distdl run --local\" works here"};
  if (version.exit_code != 0)
    return {"Slurm", Health::warn, "its commands do not find a configuration",
            "set SLURM_CONF, or use \"distdl run --local\""};
  if (!slurm::has_scontrol())
    return {"Slurm", Health::warn, first_line(version.output) + "; no scontrol on PATH",
            "a job whose batch script runs here cannot be requeued; install Slurm's commands, or submit chains: "
            "distdl submit --chain N"};
  auto ping = slurm::ask({"scontrol", "ping"}, 10s);
  auto text = fmt::format("{}; {}", first_line(version.output), first_line(ping.output + ping.errors));
  if (ping.exit_code != 0)
    return {"Slurm", Health::warn, text, "no controller answers; check SLURM_CONF and whether slurmctld runs"};
  if (auto job = slurm::current_allocation()) text += fmt::format("; in job {} on {} nodes", job->job, job->nodes);
  return {"Slurm", Health::ok, text, ""};
}

Finding check_pmix() {
  auto list = slurm::ask({"srun", "--mpi=list"}, 10s);
  if (list.exit_code == 127) return {"PMIx", Health::warn, "no srun here", "ranks can start with --local only"};
  auto all = list.output + list.errors;
  if (list.exit_code != 0)
    return {"PMIx", Health::warn, "\"srun --mpi=list\" fails: " + first_line(all),
            "try again where Slurm is configured"};
  if (all.find("pmix") == std::string::npos)
    return {"PMIx", Health::fail, "srun does not support --mpi=pmix",
            "ask the site for Slurm's PMIx plug-in (slurm-wlm-pmix-plugin)"};
  return {"PMIx", Health::ok, "srun supports --mpi=pmix", ""};
}

Finding check_fabric() {
  auto found = comm::available_transports();
  auto text = fmt::format("UCX {}: {}", found.ucx_version, fmt::join(found.names, ", "));
  if (!found.rdma)
    return {"network", Health::warn, text,
            "there is no RDMA transport: nodes use TCP, which suffices for tests and is slow for large models"};
  return {"network", Health::ok, text, ""};
}

Finding check_hdf5() {
  auto library = hdf5::find_library();
  if (!library) return {"HDF5", Health::fail, "the library cannot be opened", "reinstall HDF5"};
  if (!library->is_thread_safe)
    return {"HDF5", Health::fail, library->version + ", not thread-safe",
            "data are read while a checkpoint is saved: use an HDF5 that was built with --enable-threadsafe"};
  return {"HDF5", Health::ok, library->version + ", thread-safe", ""};
}

Finding check_memlock() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return {"memlock", Health::warn, "cannot be read", ""};
  if (limit.rlim_cur == RLIM_INFINITY) return {"memlock", Health::ok, "unlimited", ""};
  auto mib = limit.rlim_cur >> 20;
  if (mib >= 64) return {"memlock", Health::ok, fmt::format("{} MiB", mib), ""};
  return {"memlock", Health::warn, fmt::format("{} MiB", mib),
          "RDMA needs more: set PropagateResourceLimitsExcept=MEMLOCK"};
}

void diagnose(const std::filesystem::path& folder, bool json) {
  std::vector<Finding> findings{check_cpu(),    check_compute(), check_gpu(),     check_slurm(),       check_pmix(),
                                check_fabric(), check_hdf5(),    check_memlock(), check_folder(folder)};
  json ? fmt::print("{}\n", to_json(findings).dump(2, ' ', false, nlohmann::json::error_handler_t::replace))
       : print_table(findings);
  if (has_failed(findings)) throw Ended(static_cast<int>(ExitCode::config));
}

/// Within an allocation there; else in a job of its own.
void diagnose_signals(const std::filesystem::path& folder, const std::vector<std::string>& options, bool json) {
  start_logging({});
  const bool here = slurm::current_allocation() && options.empty();
  const auto trial = here ? try_signals_here(folder) : try_signals_in_job(folder, options);
  const auto findings = judge(trial);
  if (json) {
    fmt::print("{}\n", to_json(trial).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}\n", to_text(trial));
    print_table(findings);
  }
  if (has_failed(findings)) throw Ended(static_cast<int>(ExitCode::config));
}

/// Every rank of the step calls this.
void diagnose_fabric(const LocalRanks& ranks, bool json) {
  bool slow = false;
  ranks.run([] {},
            [&](comm::Communicator& communicator) {
              require<UsageError>(
                  communicator.size() > 1, "{}",
                  "--fabric tests the links between ranks: start several, as in \"srun --mpi=pmix distdl doctor "
                  "--fabric\", or add --local -n RANKS");
              auto report = measure_fabric(communicator);
              check_fabric(report);
              slow = !report.slow.empty();
              if (communicator.rank() != Rank(0)) return;
              fmt::print("{}", json ? to_json(report).dump(2) + "\n" : to_text(report));
            });
  if (slow) throw Ended(static_cast<int>(ExitCode::config));
}
}  // namespace

void add_doctor_command(Command app) {
  struct Arguments {
    std::filesystem::path folder = ".";
    bool json = false, fabric = false, signal = false;
    std::vector<std::string> sbatch;
    std::string part;
    LocalRanks local;
  };
  auto command =
      app.add_subcommand("doctor", "Check this machine: Slurm, PMIx, UCX, HDF5, CPU, GPU, checkpoint folder");
  auto arguments = std::make_shared<Arguments>();
  command.add_option("--dir", arguments->folder, "Folder for checkpoints (run.dir)").show_default();
  auto fabric = command.add_flag("--fabric", arguments->fabric,
                                 "Test latency and bandwidth between all ranks that run this command (under srun or "
                                 "with --local) instead, and list slow links; the exit code is 78 if there are any");
  arguments->local.add_to(command).needs(fabric);
  auto signal =
      command.add_flag("--signal", arguments->signal,
                       "Test in a small job of a minute, or in the allocation that this is run in, whether the signals "
                       "of Slurm reach the ranks; --dir is a folder that all nodes see; ends with 78 if they do not");
  command
      .add_option("--sbatch", arguments->sbatch, "More options for the job of --signal, as --sbatch=--partition=debug")
      .repeatable("OPTION")
      .needs(signal);
  command
      .add_option("--signal-part", arguments->part,
                  "The job of --signal itself runs this, with the folder of the trial")
      .one_of({"supervisor", "task"});
  command.add_flag("--json", arguments->json, "Print JSON");
  command.examples({{"distdl doctor", "Check this machine"},
                    {"distdl doctor --fabric --local -n 2", "Test the links between 2 ranks"},
                    {"distdl doctor --signal --dir /scratch", "Test whether Slurm's signals reach the ranks"}});
  command.callback([arguments] {
    if (arguments->part == "supervisor")
      run_trial_supervisor(arguments->folder);
    else if (arguments->part == "task")
      run_trial_task(arguments->folder);
    else if (arguments->signal)
      diagnose_signals(arguments->folder, arguments->sbatch, arguments->json);
    else if (arguments->fabric)
      diagnose_fabric(arguments->local, arguments->json);
    else
      diagnose(arguments->folder, arguments->json);
  });
}

}  // namespace distdl::app
