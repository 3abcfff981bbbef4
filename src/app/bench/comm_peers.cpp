// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <unistd.h>

#include <distdl/app/bench/comm_peers.hpp>
#include <distdl/app/ranks/local_ranks.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/process.hpp>

namespace distdl::app {
namespace fs = std::filesystem;

fs::path peer_programs() {
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error);
  for (auto folder = program.parent_path(); folder.has_relative_path(); folder = folder.parent_path())
    for (const char* place : {"share/distdl/bench/peers", "bench/peers"})
      if (fs::exists(folder / place / "collectives_mpi.c", error)) return folder / place;
  throw CommError(fmt::format("its program (share/distdl/bench/peers) is not installed with \"{}\"", program.string()));
}

namespace {
using namespace std::chrono_literals;
using Variables = std::map<std::string, std::string>;

constexpr auto kStart = 60s;
constexpr auto kAnswer = 300s;

/// One way to run the MPI program.
struct Mpi {
  std::string name;
  std::string version;  ///< part of what its launcher says to --version
  std::vector<std::string> compilers, launchers, options;
  Variables variables;
};

/// "Tuned": memory for temporary buffers stays in the process instead of being mapped and cleared for each call, and
/// data go through shared memory in large pieces rather than by system calls (CMA).
const std::vector<Mpi>& mpis() {
  static const std::vector<Mpi> all = {
      {"openmpi", "Open MPI", {"mpicc.openmpi", "mpicc"}, {"mpirun.openmpi", "mpirun"}, {}, {}},
      {"openmpi-tuned",
       "Open MPI",
       {"mpicc.openmpi", "mpicc"},
       {"mpirun.openmpi", "mpirun"},
       {"--mca", "btl_vader_single_copy_mechanism", "none", "--mca", "btl_vader_max_send_size", "262144", "--mca",
        "btl_vader_eager_limit", "32768"},
       {{"MALLOC_MMAP_MAX_", "0"}, {"MALLOC_TRIM_THRESHOLD_", "1099511627776"}, {"MALLOC_TOP_PAD_", "268435456"}}},
      {"mpich", "HYDRA", {"mpicc.mpich", "mpicc"}, {"mpirun.mpich", "mpirun"}, {}, {}},
  };
  return all;
}

/// The first of `programs` that works and says `version`.
std::string find_program(const std::vector<std::string>& programs, const std::string& version) {
  for (const auto& program : programs) {
    const auto said = run_command({program, "--version"}, 10s);
    if (said.exit_code == 0 && (said.output + said.errors).find(version) != std::string::npos) return program;
  }
  throw CommError(fmt::format("{} is not installed", fmt::join(programs, " or ")));
}

std::unique_ptr<LineProcess> start_mpi(const Mpi& mpi, int ranks, const fs::path& folder) {
  const auto launcher = find_program(mpi.launchers, mpi.version);
  const auto compiler = find_program(mpi.compilers, "");
  const auto program = folder / mpi.name;
  const auto made =
      run_command({compiler, "-O2", (peer_programs() / "collectives_mpi.c").string(), "-o", program.string()}, 60s);
  require<CommError>(made.exit_code == 0, "{} cannot compile its program: {}", compiler,
                     made.errors.substr(0, made.errors.find('\n')));
  std::vector<std::string> command{launcher, "-n", std::to_string(ranks)};
  if (mpi.version == "Open MPI") {
    if (::geteuid() == 0) command.emplace_back("--allow-run-as-root");
    const bool crowded = ranks > ::sysconf(_SC_NPROCESSORS_ONLN);
    for (const char* word : {"--oversubscribe", "--bind-to", crowded ? "none" : "core"}) command.emplace_back(word);
  }
  command.insert(command.end(), mpi.options.begin(), mpi.options.end());
  command.push_back(program.string());
  return std::make_unique<LineProcess>(command, mpi.variables);
}

/// Where rank 0's Gloo listens: an address that the other nodes reach, and a port that is free now.
std::string meeting_point(bool one_node) {
  std::string host = "127.0.0.1";
  ifaddrs* all = nullptr;
  if (!one_node && ::getifaddrs(&all) == 0) {
    for (auto* each = all; each; each = each->ifa_next) {
      if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET) continue;
      if ((each->ifa_flags & IFF_LOOPBACK) || !(each->ifa_flags & IFF_RUNNING)) continue;
      char text[INET_ADDRSTRLEN] = {};
      const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
      if (::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text)) host = text;
      break;
    }
    ::freeifaddrs(all);
  }
  const FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  const bool bound = ::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0;
  require<CommError>(bound, "no free port: {}", errno_text(errno));
  return fmt::format("{} {}", host, ntohs(address.sin_port));
}

/// One Python per rank, on the processor of that rank.
std::unique_ptr<LineProcess> start_gloo(comm::Communicator& communicator, bool one_node) {
  std::string meeting, problem;
  if (communicator.rank() == Rank(0)) try {
      const auto torch = run_command({"/usr/bin/python3", "-c", "import torch.distributed as d; d.TCPStore"}, 60s);
      require<CommError>(torch.exit_code == 0, "{}", "/usr/bin/python3 has no PyTorch with torch.distributed");
      peer_programs();
      meeting = meeting_point(one_node);
    } catch (const Error& error) {
      problem = error.what();
    }
  meeting = communicator.all_gather_strings(meeting).front();
  require<CommError>(!meeting.empty(), "{}", problem);
  std::istringstream words(meeting);
  std::string host, port;
  words >> host >> port;
  return std::make_unique<LineProcess>(
      std::vector<std::string>{"/usr/bin/python3", (peer_programs() / "collectives_gloo.py").string(),
                               std::to_string(communicator.rank().value), std::to_string(communicator.size()), host,
                               port},
      Variables{{"OMP_NUM_THREADS", "1"}});
}

std::unique_ptr<LineProcess> start(const std::string& name, comm::Communicator& communicator, const PeerFolder& folder,
                                   bool local) {
  const bool one_node = static_cast<int>(communicator.ranks_on_host_of(Rank(0)).size()) == communicator.size();
  if (name == "gloo") return start_gloo(communicator, one_node);
  require<CommError>(local, "{}", "MPI is measured with --local only");
  if (communicator.rank() != Rank(0)) return nullptr;
  const Unpinned anywhere;
  const auto mpi = std::find_if(mpis().begin(), mpis().end(), [&](const Mpi& each) { return each.name == name; });
  return start_mpi(*mpi, communicator.size(), folder.path());
}
}  // namespace

Peer::Peer(std::string name, std::unique_ptr<LineProcess> program, bool speaks)
    : name_(std::move(name)), program_(std::move(program)) {
  if (!speaks) return;
  const auto ready = program_->read_line(kStart);
  require<CommError>(ready && ready->starts_with("ready "),
                     "its program does not start (run it by hand to see the error)");
  version_ = ready->substr(6);
}

Peer::Answer Peer::measure(Operation operation, comm::DataType type, std::size_t bytes, double seconds) {
  program_->write_line(
      fmt::format("measure {} {} {} {:.3f}", app::name_of(operation), comm::name_of(type), bytes, seconds));
  const auto line = program_->read_line(kAnswer);
  if (!line) return {{}, "it gave no answer"};
  std::istringstream words(*line);
  std::string kind;
  words >> kind;
  Answer answer;
  if (kind == "times")
    for (double time; words >> time;) answer.times.push_back(time);
  if (answer.times.empty()) answer.refused = kind == "refused" ? line->substr(8) : "it answered \"" + *line + "\"";
  return answer;
}

void check_peers(const std::vector<std::string>& names) {
  for (const auto& name : names)
    require<UsageError>(name == "openmpi" || name == "mpich" || name == "gloo",
                        "there is no peer \"{}\", only openmpi, mpich, gloo", name);
}

std::vector<Peer> start_peers(const std::vector<std::string>& names, comm::Communicator& communicator,
                              const PeerFolder& folder, bool local) {
  std::vector<std::string> wanted;
  for (const auto& name : names) {
    wanted.push_back(name);
    if (name == "openmpi") wanted.emplace_back("openmpi-tuned");
  }
  std::vector<Peer> peers;
  const bool first = communicator.rank() == Rank(0);
  for (const auto& name : wanted) {
    std::string problem;
    std::optional<Peer> peer;
    try {
      peer.emplace(name, start(name, communicator, folder, local), first);
    } catch (const Error& error) {
      problem = error.what();
    }
    problem = communicator.all_gather_strings(problem, kStart).front();
    if (problem.empty())
      peers.push_back(std::move(*peer));
    else if (first)
      fmt::print(stderr, "distdl: {} is left out: {}\n", name, problem);
  }
  return peers;
}

}  // namespace distdl::app
