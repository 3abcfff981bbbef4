// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/observe/metrics/metrics_endpoint.hpp>
#include <distdl/observe/metrics/open_metrics.hpp>

namespace distdl::observe {
namespace {
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A client, which waits for 30 s at the most.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{30, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      ADD_FAILURE() << "cannot connect to port " << port;
  }
  void send(const std::string& text) const {
    static_cast<void>(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL));
  }
  /// All until the server closes.
  std::string rest() const {
    std::string text;
    char piece[4096];
    for (ssize_t n = 0; (n = ::recv(socket_.get(), piece, sizeof piece, 0)) > 0;)
      text.append(piece, static_cast<std::size_t>(n));
    EXPECT_FALSE(errno == EAGAIN && text.empty()) << "no answer, and no end";
    return text;
  }
  std::string answer(const std::string& request) const {
    errno = 0;
    send(request);
    return rest();
  }

 private:
  FileDescriptor socket_;
};

std::string refusal_of(const std::string& text) try {
  endpoint_address(text);
  return "";
} catch (const ConfigError& error) {
  return error.what();
}

TEST(MetricsEndpointAddress, IsLoopbackUnlessToldOtherwise) {
  EXPECT_EQ(endpoint_address("9464").host, "127.0.0.1");
  EXPECT_EQ(endpoint_address("9464").port, 9464);
  EXPECT_EQ(endpoint_address("0.0.0.0:80").host, "0.0.0.0");
  EXPECT_EQ(endpoint_address("[::1]:80").host, "::1");
  for (const char* wrong : {"x", "70000", "-1", "9464 ", "localhost:9464", "127.0.0.1:", ":9464", "[::1]"})
    EXPECT_THAT(refusal_of(wrong), AllOf(HasSubstr("log.openmetrics_listen"), HasSubstr(wrong))) << wrong;
  EXPECT_THROW(check(Options{.openmetrics_listen = "x"}), ConfigError);
}

TEST(MetricsEndpointServer, AnswersPrometheus) {
  const MetricsEndpoint endpoint({"127.0.0.1", 0}, [] { return std::string("distdl_step 3\n# EOF\n"); });
  ASSERT_NE(endpoint.port(), 0);
  for (int i = 0; i < 2 * MetricsEndpoint::kMostConnections; ++i)
    ASSERT_THAT(Client(endpoint.port()).answer("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
                AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("application/openmetrics-text; version=1.0.0"),
                      EndsWith("\r\n\r\ndistdl_step 3\n# EOF\n")));
  EXPECT_THAT(Client(endpoint.port()).answer("GET /metrics?name=x HTTP/1.1\r\nHost: x\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Client(endpoint.port()).answer("GET / HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 404 "));
  EXPECT_THAT(Client(endpoint.port()).answer("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD")));
  EXPECT_THAT(Client(endpoint.port()).answer("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\n")));
  EXPECT_EQ(Client(endpoint.port()).answer("\x16\x03\x01 is no HTTP\r\n\r\n"), "");
  EXPECT_EQ(Client(endpoint.port()).answer("GET /metrics HTTP/1.1\r\nX: " + std::string(9000, 'x')), "");
}

TEST(MetricsEndpointServer, HasALimitOfConnections) {
  const MetricsEndpoint endpoint({"127.0.0.1", 0}, [] { return std::string(); });
  std::vector<Client> idle;
  for (int i = 0; i < MetricsEndpoint::kMostConnections; ++i) idle.emplace_back(endpoint.port());
  EXPECT_EQ(Client(endpoint.port()).answer(""), "") << "closed at once";
  EXPECT_THAT(idle.front().answer("GET /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST(MetricsEndpointServer, IsNothingThatARunDependsOn) {
  const MetricsEndpoint first({"127.0.0.1", 0}, [] { return std::string(); });
  ::testing::internal::CaptureStderr();
  const MetricsEndpoint second({"127.0.0.1", first.port()}, [] { return std::string(); });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the run goes on without it"));
  EXPECT_EQ(second.port(), 0);
}

TEST(MetricsEndpointServer, TellsTheNewestValuesOfARun) {
  OpenMetrics metrics(Options{.openmetrics_listen = "0"}, "r");
  metrics.take({records::StepDone{.step = Step(3), .loss = 1.5}});
  metrics.take({records::StepDone{.step = Step(4), .loss = 1.25}});
  EXPECT_THAT(Client(metrics.port()).answer("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
              AllOf(HasSubstr("\ndistdl_loss{run=\"r\"} 1.25\n"), HasSubstr("\ndistdl_step{run=\"r\"} 4\n"),
                    EndsWith("\n# EOF\n")));
}
}  // namespace
}  // namespace distdl::observe
