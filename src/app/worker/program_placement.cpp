// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>

#include <netinet/in.h>
#include <sys/socket.h>

#include <distdl/agent/own_address.hpp>
#include <distdl/app/worker/program_placement.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/observe/run/run_identity.hpp>
#include <distdl/program/error_file.hpp>

namespace distdl::app {
namespace {

/// Where the other ranks reach rank 0.
std::string master_address(const config::Job& job, const comm::Communicator& communicator) {
  const auto here = communicator.ranks_on_host_of(Rank(0)).size();
  return here == static_cast<std::size_t>(communicator.size()) ? "127.0.0.1" : agent::own_address(job.comm.interface);
}
}  // namespace

HeldPort::HeldPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int one = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  // NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast): the way of the socket interface
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool bound = socket_.get() >= 0 &&
                     ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                     ::bind(socket_.get(), any, length) == 0 && ::getsockname(socket_.get(), any, &length) == 0;
  // NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast)
  require_call<SchedulerError>(bound, "cannot get a free port for MASTER_PORT");
  number_ = ntohs(address.sin_port);
}

program::Placement placement_of(const comm::Communicator& communicator) {
  program::Placement place;
  place.rank = communicator.rank().value;
  place.size = communicator.size();
  std::vector<Rank> firsts;  // of each node
  for (Rank rank(0); rank.value < place.size; ++rank.value) {
    const auto here = communicator.ranks_on_host_of(rank);
    if (here.front() == rank) firsts.push_back(rank);
  }
  const auto own = communicator.ranks_on_host_of(communicator.rank());
  place.local_size = static_cast<int>(own.size());
  place.local_rank = static_cast<int>(std::ranges::find(own, communicator.rank()) - own.begin());
  place.nodes = static_cast<int>(firsts.size());
  place.node = static_cast<int>(std::ranges::find(firsts, own.front()) - firsts.begin());
  return place;
}

void complete_placement(program::Placement& place, const config::Job& job, comm::Communicator& communicator, int port,
                        const program::ContractServer& server, bool keeps_pmix) {
  const auto identity = observe::find_identity(job.run_dir);
  const std::int64_t start = static_cast<std::int64_t>(observe::read_starts(job.run_dir).size()) + 1;
  const std::string mine = place.rank == 0 ? fmt::format("{} {} {} {}", master_address(job, communicator), port, start,
                                                         identity ? identity->id : "distdl")
                                           : "";
  const auto all = communicator.all_gather_strings(mine);
  std::istringstream words(all.front());
  words >> place.master_address >> place.master_port >> place.start >> place.run_id;
  place.run_folder = std::filesystem::absolute(resolved(job.run_dir)).string();
  place.contract = server.path().string();
  place.launch_id = fmt::format("{}-{}-program", env("DISTDL_LAUNCH_ID").value_or("launch"), place.start);
  place.rendezvous = env("DISTDL_RENDEZVOUS").value_or(keeps_pmix ? "" : place.run_folder + "/launches");
  place.error_file = (server.folder().path() / program::kErrorFile).string();
}

}  // namespace distdl::app
