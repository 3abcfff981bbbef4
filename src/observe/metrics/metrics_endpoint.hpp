// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace distdl::observe {

/// Where to listen: an address of this host, as numbers.
struct EndpointAddress {
  std::string host;  ///< "127.0.0.1", "::1"
  std::uint16_t port;
};

/// Parses "9464" (on loopback), "0.0.0.0:9464" or "[::1]:9464". Throws ConfigError if the text is no such address.
EndpointAddress endpoint_address(const std::string& text);

/// Answers GET /metrics by HTTP, for Prometheus. One thread, which takes no signals; it has at most kMostConnections,
/// each for kPatience at the longest, with one request of at most 8 KiB. Others are closed at once.
class MetricsEndpoint {
 public:
  static constexpr int kMostConnections = 16, kPatienceSeconds = 5;

  /// `text`: is called by the thread. Only warns if it cannot listen there: a run does not depend on it.
  MetricsEndpoint(const EndpointAddress& address, std::function<std::string()> text);
  ~MetricsEndpoint();
  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  /// Where it listens, also if the port was to be any (0); 0: nowhere.
  std::uint16_t port() const { return port_; }

 private:
  struct Server;
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
};

}  // namespace distdl::observe
