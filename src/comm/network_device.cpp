// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/network_device.hpp>

namespace distdl::comm {
namespace {
namespace fs = std::filesystem;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.insert(entry->path().filename().string());
  return names;
}

/// sysfs counts ports from 0, UCX from 1.
int port_of(const fs::path& interface) {
  int port = 0;
  std::ifstream(interface / "dev_port") >> port;
  return port + 1;
}

}  // namespace

std::string ucx_devices_of(const std::string& interface) {
  if (interface.find(':') != std::string::npos) return interface;
  const fs::path all = "/sys/class/net";
  const auto interfaces = names_in(all);
  require(interfaces.contains(interface), "comm.interface: this host has no network interface \"{}\", only {}",
          interface, fmt::join(interfaces, ", "));
  std::string devices = interface;
  for (const auto& device : names_in(all / interface / "device" / "infiniband"))
    devices += fmt::format(",{}:{}", device, port_of(all / interface));
  return devices;
}

bool may_use_rdma(const std::string& interface) {
  if (interface == "auto") return !names_in("/sys/class/infiniband").empty();
  return ucx_devices_of(interface).find(':') != std::string::npos;
}

}  // namespace distdl::comm
