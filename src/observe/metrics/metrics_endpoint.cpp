// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <thread>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fcntl.h>
#include <fmt/format.h>

#include <distdl/base/end_limit.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/observe/metrics/metrics_endpoint.hpp>

namespace distdl::observe {
namespace {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using Answer = http::response<http::string_body>;

constexpr std::chrono::seconds kPatience{MetricsEndpoint::kPatienceSeconds};

Answer answer_to(const http::request<http::empty_body>& request, const std::function<std::string()>& text) {
  Answer answer(http::status::ok, request.version());
  answer.keep_alive(false);
  const bool is_get = request.method() == http::verb::get;
  if (!is_get && request.method() != http::verb::head) {
    answer.result(http::status::method_not_allowed);
    answer.set(http::field::allow, "GET, HEAD");
  } else if (request.target().substr(0, request.target().find('?')) != "/metrics") {  // a query changes nothing
    answer.result(http::status::not_found);
  } else {
    answer.set(http::field::content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    if (is_get) answer.body() = text();
  }
  if (request.method() != http::verb::head) answer.prepare_payload();
  return answer;
}

/// One request and its answer. Every wait has a deadline, after which the connection is closed.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Tcp::socket socket, const std::function<std::string()>& text, int& open)
      : stream_(std::move(socket)), text_(text), open_(open) {
    ++open_;
    constexpr std::uint32_t kMostHeader = 8 << 10;
    parser_.header_limit(kMostHeader);
  }
  ~Connection() { --open_; }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void serve() {
    stream_.expires_after(kPatience);  // for all of it
    http::async_read_header(stream_, buffer_, parser_, [self = shared_from_this()](ErrorCode error, std::size_t) {
      if (!error) self->reply();
    });
  }

 private:
  void reply() {
    answer_ = answer_to(parser_.get(), text_);
    http::async_write(stream_, answer_, [self = shared_from_this()](ErrorCode, std::size_t) {
      ErrorCode ignored;
      self->stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
    });
  }

  beast::tcp_stream stream_;
  const std::function<std::string()>& text_;
  int& open_;
  beast::flat_buffer buffer_;
  http::request_parser<http::empty_body> parser_;
  Answer answer_;
};

/// Processes that this one starts must not hold the port.
void close_on_exec(int descriptor) {
  static_cast<void>(::fcntl(descriptor, F_SETFD, FD_CLOEXEC));
}
}  // namespace

struct MetricsEndpoint::Server {
  explicit Server(std::function<std::string()> what) : text(std::move(what)) {}

  void listen(const EndpointAddress& address) {
    const Tcp::endpoint place(asio::ip::make_address(address.host), address.port);
    acceptor.open(place.protocol());
    close_on_exec(acceptor.native_handle());
    acceptor.set_option(Tcp::acceptor::reuse_address(true));
    acceptor.bind(place);
    acceptor.listen(kMostConnections);
  }

  void accept() {
    acceptor.async_accept([this](ErrorCode error, Tcp::socket socket) {
      if (error) return accept_later();
      close_on_exec(socket.native_handle());
      if (open < kMostConnections) std::make_shared<Connection>(std::move(socket), text, open)->serve();
      accept();
    });
  }

  /// There may be no more descriptors now.
  void accept_later() {
    pause.expires_after(kPatience);
    pause.async_wait([this](ErrorCode error) {
      if (!error) accept();
    });
  }

  void run() try { io.run(); } catch (const std::exception& error) {
    log(Severity::warning, "log.openmetrics_listen answers no more: {}", error.what());
  }

  std::function<std::string()> text;
  int open = 0;  ///< connections
  asio::io_context io{1};
  Tcp::acceptor acceptor{io};
  asio::steady_timer pause{io};
  std::thread thread;
};

MetricsEndpoint::MetricsEndpoint(const EndpointAddress& address, std::function<std::string()> text) {
  try {
    auto server = std::make_unique<Server>(std::move(text));
    server->listen(address);
    server->accept();
    port_ = server->acceptor.local_endpoint().port();
    const SignalsBlocked blocked;
    server->thread = std::thread([raw = server.get()] { raw->run(); });
    server_ = std::move(server);
    const bool is_long = address.host.find(':') != std::string::npos;
    log(Severity::info, "metrics at http://{}:{}/metrics", is_long ? "[" + address.host + "]" : address.host, port_);
  } catch (const std::exception& error) {
    port_ = 0;
    log(Severity::warning, "cannot answer at log.openmetrics_listen, {} port {}: {}; the run goes on without it",
        address.host, address.port, error.what());
  }
}

MetricsEndpoint::~MetricsEndpoint() {
  if (!server_) return;
  server_->io.stop();
  const EndLimit limit("the thread that answers at log.openmetrics_listen", std::chrono::seconds(10));
  server_->thread.join();
}

EndpointAddress endpoint_address(const std::string& text) {
  const auto colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string number = colon == std::string::npos ? text : text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), port);
  ErrorCode error;
  asio::ip::make_address(host, error);
  require(failure == std::errc() && end == number.data() + number.size() && !error,
          "log.openmetrics_listen = \"{}\" must be a port, as \"9464\", or an address of this host and a port, as "
          "\"0.0.0.0:9464\" or \"[::1]:9464\"",
          text);
  return {host, port};
}

}  // namespace distdl::observe
