// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/ucx/network_device.hpp>

namespace distdl::comm {
namespace {
namespace fs = std::filesystem;
const fs::path kInterfaces = "/sys/class/net";

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

/// Those of this process that are up and have an address.
std::set<std::string> working_interfaces() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  std::set<std::string> names;
  for (const auto* one = all; one; one = one->ifa_next)
    if (one->ifa_addr && (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6) &&
        (one->ifa_flags & IFF_RUNNING))
      names.insert(one->ifa_name);
  return names;
}

std::set<std::string> own_interfaces() {
  const std::unique_ptr<struct if_nameindex[], decltype(&::if_freenameindex)> all(::if_nameindex(),
                                                                                  &::if_freenameindex);
  std::set<std::string> names;
  for (const auto* one = all.get(); one && one->if_name; ++one) names.insert(one->if_name);
  return names;
}

/// Empty if all is well. UCX reads in /sys which interfaces there are; each mount of it shows one network namespace.
std::string what_is_wrong_with_sys() {
  const auto shown = names_in(kInterfaces), own = own_interfaces();
  if (std::includes(shown.begin(), shown.end(), own.begin(), own.end())) return "";
  return fmt::format(
      "/sys shows the network interfaces of another network namespace ({}), so UCX does not find those of this one "
      "({}): "
      "mount it again in this namespace (mount -t sysfs sysfs /sys; \"ip netns exec\" does so)",
      fmt::join(shown, ", "), fmt::join(own, ", "));
}

}  // namespace

std::string ucx_devices_of(const std::string& interface) {
  if (interface.find(':') != std::string::npos) return interface;
  const auto interfaces = names_in(kInterfaces);
  if (const auto wrong = what_is_wrong_with_sys(); !interfaces.contains(interface) && !wrong.empty())
    throw ConfigError(fmt::format("comm.interface or cluster.interface: cannot use \"{}\": {}", interface, wrong));
  require(interfaces.contains(interface),
          "comm.interface or cluster.interface: this host has no network interface \"{}\", only {}", interface,
          fmt::join(interfaces, ", "));
  std::string devices = interface;
  for (const auto& device : names_in(kInterfaces / interface / "device" / "infiniband"))
    devices += fmt::format(",{}:{}", device, port_of(kInterfaces / interface));
  return devices;
}

bool may_use_rdma(const std::string& interface) {
  if (interface == "auto") return !names_in("/sys/class/infiniband").empty();
  return ucx_devices_of(interface).find(':') != std::string::npos;
}

std::set<std::string> tcp_interfaces() {
  const auto shown = names_in(kInterfaces), own = working_interfaces();
  std::set<std::string> both;
  std::set_intersection(shown.begin(), shown.end(), own.begin(), own.end(), std::inserter(both, both.end()));
  return both;
}

std::string why_unreachable() {
  if (auto wrong = what_is_wrong_with_sys(); !wrong.empty()) return wrong;
  const auto networks = tcp_interfaces();
  if (networks.empty()) return "no network interface of this host is up (ip address)";
  return fmt::format(
      "either it has ended, or the networks here ({}) do not reach it: set one that all hosts share with "
      "comm.interface, and check UCX_NET_DEVICES and UCX_TLS if they are set",
      fmt::join(networks, ", "));
}

}  // namespace distdl::comm
