// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include <distdl/app/bench/bench_calibrate.hpp>
#include <distdl/app/bench/raw_file.hpp>
#include <distdl/app/cli/job_arguments.hpp>
#include <distdl/app/ranks/local_ranks.hpp>
#include <distdl/base/checksum.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/comm/selection/measure_costs.hpp>
#include <distdl/forecast/measure.hpp>
#include <distdl/train/memory.hpp>

namespace distdl::app {
namespace {
struct CalibrateArguments {
  LocalRanks local;
  JobArguments job;
  std::filesystem::path dir = ".";
  bool json = false;
};

/// Bytes per second of a snapshot with its checksums, and of a file with its sync. Of this rank alone.
void measure_saves(forecast::Calibration& calibration, const std::filesystem::path& folder) {
  constexpr std::size_t kBytes = 64 << 20, kPiece = 4 << 20;
  const auto from = tensor::allocate_host(kBytes), to = tensor::allocate_host(kBytes);
  const auto copy = [&] {
    const Stopwatch watch;
    std::uint32_t sum = 0;
    for (std::size_t at = 0; at < kBytes; at += kPiece) {
      std::memcpy(to.as<std::byte>().data() + at, from.as<std::byte>().data() + at, kPiece);
      sum ^= crc32c(to.as<const std::byte>().subspan(at, kPiece));
    }
    return watch.seconds() + 0 * sum;
  };
  copy();
  calibration.copy_rate = kBytes / std::min(copy(), copy());
  const RawFile file(folder / ".distdl-calibrate");
  const Stopwatch watch;
  file.write(to.as<const std::byte>(), RawFile::Cache::used);
  calibration.write_rate = kBytes / watch.seconds();
  file.remove();
}

void check_same_kind(const forecast::NodeKind& kind, comm::Communicator& communicator) {
  const auto all =
      communicator.all_gather_strings(fmt::format("{} x {}, {}", kind.processors, kind.processor, kind.backend));
  for (std::size_t r = 1; r < all.size(); ++r)
    require(all[r] == all[0],
            "rank {} ({}) is on a node of another kind ({}) than rank 0 ({}); calibrate on nodes of one kind, for "
            "instance with --constraint",
            r, communicator.host(Rank(static_cast<int>(r))), all[r], all[0]);
}

/// Measures the costs of the network. The earlier figures stay where a second rank or node is missing for a
/// measurement.
std::optional<comm::CostTable> measure_network(const std::optional<comm::CostTable>& before,
                                               comm::Communicator& communicator) {
  if (communicator.size() == 1) return before;
  auto measured = comm::measure_costs(communicator);
  auto kept = before.value_or(comm::CostTable{});
  const auto on_node = communicator.ranks_on_host_of(communicator.rank()).size();
  if (on_node == static_cast<std::size_t>(communicator.size())) measured.between = kept.between;
  if (on_node > 1) return measured;
  kept.between = measured.between;
  kept.processors = measured.processors;
  return kept;
}

void print_calibration(const forecast::Calibration& calibration, const forecast::MeasuredWork& measured) {
  const auto& work = measured.work;
  fmt::print(
      "{} processors, {}\nbackend     {}\nmicrobatch  {:.3f} ms forward, {:.3f} ms backward ({:.1f}% spread), {:.3f} "
      "ms "
      "read\nstep        {:.3f} ms update, {:.3f} ms load, {:.3f} ms an addition\nsaves       {:.2f} GB/s to memory, "
      "{:.2f} GB/s to the disk\n",
      calibration.kind.processors, calibration.kind.processor, calibration.kind.backend, work.forward * 1e3,
      work.backward * 1e3, work.spread * 100, measured.read * 1e3, work.update * 1e3, work.load * 1e3, work.add * 1e3,
      calibration.copy_rate / 1e9, calibration.write_rate / 1e9);
  if (calibration.costs)
    fmt::print("network     {:.1f} us, {:.3f} Gbit/s between nodes; {:.1f} us, {:.2f} GB/s within\n",
               calibration.costs->between.latency * 1e6, calibration.costs->between.bandwidth * 8e-9,
               calibration.costs->within.latency * 1e6, calibration.costs->within.bandwidth / 1e9);
}

/// All but the peak. Forecasts do not know the time of a device.
void measure_forecast(forecast::Calibration& calibration, const CalibrateArguments& arguments, const config::Job& job,
                      kernels::Backend& backend, comm::Communicator& communicator) {
  const auto work = forecast::workload_of(job.recipe);
  const auto measured = forecast::measure_work(job.recipe, work, backend, communicator);
  calibration.costs = measure_network(calibration.costs, communicator);
  const auto busy = forecast::measure_busy_per_byte(communicator);
  const auto nap = forecast::measure_nap(communicator);
  if (communicator.rank() != Rank(0)) return;
  calibration.memory_bytes = train::memory_of_node();
  if (busy) calibration.busy_per_byte = *busy;
  if (nap) calibration.nap_seconds = *nap;
  calibration.touch_per_byte = forecast::measure_touch_per_byte();
  measure_saves(calibration, arguments.dir);
  calibration.add(measured);
  if (!arguments.json) print_calibration(calibration, measured);
}

void calibrate(const CalibrateArguments& arguments, comm::Communicator& communicator) {
  auto job = arguments.job.load();
  job.recipe.kernels.device = place_on_host(communicator);
  const auto backend = kernels::make_backend(job.recipe.kernels);
  const auto kind = forecast::kind_of_this_node(backend->description());
  check_same_kind(kind, communicator);
  const auto file = forecast::calibration_file(kind);
  auto calibration = (file ? forecast::load_calibration(*file) : std::nullopt).value_or(forecast::Calibration{});
  calibration.kind = kind;
  if (backend->memory_is_host()) measure_forecast(calibration, arguments, job, *backend, communicator);
  const auto peak = forecast::measure_peak(*backend, communicator);
  calibration.add(peak);
  if (communicator.rank() != Rank(0)) return;
  if (arguments.json)
    fmt::print("{}", forecast::to_json(calibration));
  else
    fmt::print(
        "{}peak        {:.1f} GFLOP/s of a rank, with {} on a node\n",
        backend->memory_is_host() ? "" : fmt::format("backend     {}; only its peak is measured\n", kind.backend),
        peak.flops / 1e9, peak.ranks);
  std::fflush(stdout);  // though it may not be kept
  const auto kept = forecast::save_calibration(calibration);
  if (!arguments.json) fmt::print("kept in {}\n", kept.string());
}
}  // namespace

void add_bench_calibrate(Command bench) {
  auto command = bench.add_subcommand(
      "calibrate",
      "Measure the peak with which runs compare their speed (MFU), and what forecasts of \"distdl plan\" need: a job's "
      "model, the network, memory and disk");
  auto a = std::make_shared<CalibrateArguments>();
  a->job.add_to(command);
  a->local.ranks = 1;
  a->local.add_to(command);
  command.add_option("--dir", a->dir, "Folder on the disk of the checkpoints, with space for 64 MiB").show_default();
  command.add_flag("--json", a->json, "Print JSON");
  command.notes(
      "Takes some ten seconds on nodes of the kind that a run will have, and keeps the figures for that kind of node.");
  command.examples({{"distdl bench calibrate job.toml --local -n 2", "Measure on this machine"},
                    {"srun --nodes=2 --mpi=pmix distdl bench calibrate job.toml", "Measure on nodes"}});
  command.callback([a] {
    a->local.run([&] { a->job.load(); }, [&](comm::Communicator& communicator) { calibrate(*a, communicator); });
  });
}

}  // namespace distdl::app
