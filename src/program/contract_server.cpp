// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/random.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/files/temporary_folder.hpp>
#include <distdl/program/contract_server.hpp>

namespace distdl::program {
namespace {
constexpr std::size_t kMostClients = 64;

/// A socket's path is short: a long TMPDIR does not do.
std::filesystem::path place_of_folder() {
  const auto name = "distdl-contract-" + random_hex(8);
  const auto wished = resolved(temporary_folder()) / name;
  constexpr std::size_t kNameOfSocket = 2;
  return wished.string().size() + kNameOfSocket < sizeof(sockaddr_un::sun_path) ? wished
                                                                                : std::filesystem::path("/tmp") / name;
}
}  // namespace

ContractServer::ContractServer() : folder_(PrivateFolder::make(place_of_folder())), path_(folder_->path() / "s") {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.string().size());
  socket_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the way of the socket interface
  const auto* const any = reinterpret_cast<const sockaddr*>(&address);
  constexpr int kWaiting = 16;
  const bool listens =
      socket_.get() >= 0 && ::bind(socket_.get(), any, sizeof address) == 0 && ::listen(socket_.get(), kWaiting) == 0;
  const int number = errno;
  if (listens) return;
  folder_->remove();
  throw FileError("make a socket", path_, number);
}

ContractServer::~ContractServer() {
  try {
    folder_->remove();
  } catch (const StorageError&) {  // it lies in the folder of temporary files
  }
}

void ContractServer::add_to(std::vector<pollfd>& polled) const {
  polled.push_back({socket_.get(), POLLIN, 0});
  for (const auto& client : clients_) polled.push_back({client->socket.get(), POLLIN, 0});
}

void ContractServer::accept_new() {
  for (;;) {
    FileDescriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) return;
    if (clients_.size() >= kMostClients) continue;
    auto client = std::make_unique<Client>();
    client->socket = std::move(socket);
    const bool hears = (!told_.is_asked && !told_.stop_at) || send(*client, told_);
    if (hears) clients_.push_back(std::move(client));
  }
}

std::vector<FromProgram> ContractServer::poll() {
  accept_new();
  std::vector<FromProgram> told;
  bool hears_all = told_.is_asked;
  std::erase_if(clients_, [&](const std::unique_ptr<Client>& client) {
    constexpr int kMostReads = 16;  // at a time: nobody keeps this process busy
    for (int i = 0; i < kMostReads; ++i) {
      std::array<char, 4096> bytes{};
      const ssize_t count = ::recv(client->socket.get(), bytes.data(), bytes.size(), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
      if (count <= 0) return true;
      client->lines.add({bytes.data(), static_cast<std::size_t>(count)}, [&](std::string_view line) {
        auto message = from_program(line);
        if (!message) return;
        client->asks_left = client->asks_left || message->asks_left;
        asks_ = asks_ || message->asks;
        if (message->call) question_ = std::max(question_.value_or(0), *message->call);
        told.push_back(std::move(*message));
      });
    }
    return hears_all = false;
  });
  has_heard_ = has_heard_ || hears_all;
  return told;
}

std::optional<std::int64_t> ContractServer::last_question() const {
  if (!has_heard_ || (asks_ && !question_)) return std::nullopt;
  return question_.value_or(0);
}

bool ContractServer::send(const Client& client, const ToProgram& message) {
  const std::string line = to_line(message);
  return ::send(client.socket.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(line.size());
}

void ContractServer::tell_all(const ToProgram& message) {
  std::erase_if(clients_, [&](const std::unique_ptr<Client>& client) { return !send(*client, message); });
}

void ContractServer::tell_asked() {
  told_.is_asked = true;
  tell_all(told_);
}

void ContractServer::tell_stop_at(std::int64_t call) {
  told_.stop_at = call;
  tell_all(told_);
}

void ContractServer::tell_left(std::optional<double> seconds) {
  std::erase_if(clients_, [&](const std::unique_ptr<Client>& client) {
    if (!std::exchange(client->asks_left, false)) return false;
    return !send(*client, {.tells_left = true, .left = seconds});
  });
}

}  // namespace distdl::program
