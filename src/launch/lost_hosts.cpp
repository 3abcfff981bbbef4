// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <distdl/base/log.hpp>
#include <distdl/launch/lost_hosts.hpp>
#include <distdl/slurm/unreachable_nodes.hpp>

namespace distdl::launch {

LostHosts::LostHosts(const std::vector<std::string>& nodes, Milliseconds limit) {
  const auto look = [this, nodes, limit] {
    return slurm::unreachable_nodes(nodes, limit, [this] { return leaves_.load(); });
  };
  try {
    found_ = std::async(std::launch::async, look);
  } catch (const std::system_error& error) {  // no more threads here
    log(Severity::debug, "lost nodes are not looked for: {}", error.what());
  }
}

std::optional<std::vector<std::string>> LostHosts::poll() {
  if (!found_.valid() || found_.wait_for(Milliseconds(0)) != std::future_status::ready) return std::nullopt;
  return found_.get();
}

}  // namespace distdl::launch
