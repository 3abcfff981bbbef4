// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include <sched.h>

#include <distdl/agent/processes.hpp>
#include <distdl/app/ranks/local_ranks.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/random.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/launch/launch_processes.hpp>
#include <distdl/launch/rendezvous.hpp>
#include <distdl/world/make_world.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;
constexpr auto kGrace = 5s;  // for the others to end after one rank failed

std::optional<cpu_set_t> before_pinning;

std::vector<int> processors() {
  cpu_set_t set;
  std::vector<int> all;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return all;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) all.push_back(i);
  return all;
}

/// A rank that moves between processors measures the scheduler.
void pin(int rank) {
  const auto all = processors();
  if (all.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(all[static_cast<std::size_t>(rank) % all.size()], &one);
  cpu_set_t before;
  if (::sched_getaffinity(0, sizeof before, &before) != 0) return;
  if (::sched_setaffinity(0, sizeof one, &one) == 0)
    before_pinning = before;
  else
    log(Severity::warning, "cannot bind rank {} to one processor: {}", rank, errno_text(errno));
}

std::vector<std::string> own_command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  require<InternalError>(!error && !words.empty(), "cannot find this program's own file: {}", error.message());
  words[0] = program.string();
  return words;
}
}  // namespace

Option LocalRanks::add_to(Command command) {
  auto option = command.add_flag(
      "--local", local, "Run the ranks as processes on this machine, each on its own processor, without Slurm");
  command.add_option("-n,--ranks", ranks, "With --local: number of ranks").positive().show_default();
  command.add_option("--interface", interface, "Network device; same as comm.interface").show_default();
  return option;
}

void LocalRanks::run(const std::function<void()>& check, const std::function<void(comm::Communicator&)>& body) const {
  if (launch(check)) return;
  auto world = world::make_world();
  const bool first = world->rank() == Rank(0);
  comm::Options options;
  options.interface = interface;
  try {
    check();
    comm::run_connected(*world, options, body);
  } catch (const Error& error) {
    const bool about_input = error.exit_code() == ExitCode::config || error.exit_code() == ExitCode::usage;
    const bool heard = dynamic_cast<const comm::PeerLost*>(&error) && error.exit_code() != ExitCode::peer_lost;
    if (about_input ? first : !heard) throw;
    throw Ended(static_cast<int>(error.exit_code()));
  }
}

bool LocalRanks::launch(const std::function<void()>& check) const {
  if (!local) return false;
  if (const auto rank = env_integer("DISTDL_RANK")) {
    pin(static_cast<int>(*rank));
    return false;
  }
  check();
  agent::SupervisorSignals signals;
  launch::Rendezvous rendezvous;
  launch::LaunchSpec spec;
  spec.worker = own_command_line();
  spec.ranks = ranks;
  agent::Processes processes(launch::processes_of(spec, {}, rendezvous.folder(), random_hex(8)));
  std::optional<Deadline> end;
  while (processes.reap() > 0) {
    const auto number = signals.wait(end ? 10ms : 1000ms);
    if (number && *number != SIGCHLD) processes.signal(*number);
    if (processes.failed() && !end) end = Deadline::after(kGrace);
    if (end && end->expired()) processes.kill();
  }
  if (processes.code() != 0) throw Ended(processes.code());
  return true;
}

Unpinned::Unpinned() {
  if (before_pinning) ::sched_setaffinity(0, sizeof *before_pinning, &*before_pinning);
}

Unpinned::~Unpinned() {
  if (const auto rank = env_integer("DISTDL_RANK"); before_pinning && rank) pin(static_cast<int>(*rank));
}

std::int64_t place_on_host(const comm::Communicator& communicator) {
  const auto on_host = communicator.ranks_on_host_of(communicator.rank());
  return std::ranges::find(on_host, communicator.rank()) - on_host.begin();
}

}  // namespace distdl::app
