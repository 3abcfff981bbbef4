// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <distdl/base/errors.hpp>
#include <distdl/comm/execution/window.hpp>

namespace distdl::comm {

Window::Window(Fabric& fabric, std::span<std::byte> memory)
    : fabric_(fabric), memory_(memory), exposed_(fabric.context(), fabric.exposed(), memory) {}

Window::~Window() {
  if (fabric_.worker()) return;
  for (auto& remote : remotes_) static_cast<void>(remote.key.release());  // gone with the worker
}

std::string Window::description() const {
  const std::uint64_t numbers[] = {reinterpret_cast<std::uintptr_t>(memory_.data()), memory_.size()};
  return std::string(reinterpret_cast<const char*>(numbers), sizeof numbers) + exposed_.key();
}

void Window::connect(const std::vector<std::string>& descriptions) {
  require<CommError>(descriptions.size() == static_cast<std::size_t>(fabric_.size()),
                     "there are {} descriptions of a window for {} ranks", descriptions.size(), fabric_.size());
  remotes_.resize(descriptions.size());
  for (std::size_t r = 0; r < descriptions.size(); ++r) {
    std::uint64_t numbers[2];
    require<CommError>(descriptions[r].size() >= sizeof numbers,
                       "the description of rank {}'s window is too short: {} bytes", r, descriptions[r].size());
    std::memcpy(numbers, descriptions[r].data(), sizeof numbers);
    remotes_[r].address = numbers[0];
    remotes_[r].size = numbers[1];
    remotes_[r].packed = descriptions[r].substr(sizeof numbers);
  }
}

Window::Remote& Window::check(Rank rank, std::size_t offset, std::size_t size, const char* what) {
  require(rank.value >= 0 && static_cast<std::size_t>(rank.value) < remotes_.size(),
          "{}: rank {} is not one of the {} ranks of the window", what, rank, remotes_.size());
  Remote& remote = remotes_[static_cast<std::size_t>(rank.value)];
  require(offset <= remote.size && size <= remote.size - offset,
          "{}: bytes {} to {} are outside the window of {}, which has {} bytes", what, offset, offset + size,
          fabric_.name(rank), remote.size);
  return remote;
}

/// The key is of use with that endpoint only.
ucs_status_t Window::unpack(Remote& remote, ucp_ep_h endpoint) {
  if (remote.key) return UCS_OK;
  ucp_rkey_h key = nullptr;
  const ucs_status_t status = ucp_ep_rkey_unpack(endpoint, remote.packed.data(), &key);
  if (status == UCS_OK) remote.key.reset(key);
  return status;
}

void Window::put(Batch& batch, std::span<const std::byte> bytes, Rank to, std::size_t offset) {
  Remote& remote = check(to, offset, bytes.size(), "put");
  if (bytes.empty()) return;
  if (to == fabric_.rank()) {
    std::memmove(memory_.data() + offset, bytes.data(), bytes.size());
    return;
  }
  fabric_.start(batch, to, [&remote, bytes, offset](const Contact& contact, ucp_request_param_t& how) {
    const ucs_status_t status = unpack(remote, contact.endpoint);
    if (status != UCS_OK) return UCS_STATUS_PTR(status);
    return ucp_put_nbx(contact.endpoint, bytes.data(), bytes.size(), remote.address + offset, remote.key.get(), &how);
  });
}

void Window::get(Batch& batch, std::span<std::byte> room, Rank from, std::size_t offset) {
  Remote& remote = check(from, offset, room.size(), "get");
  if (room.empty()) return;
  if (from == fabric_.rank()) {
    std::memmove(room.data(), memory_.data() + offset, room.size());
    return;
  }
  fabric_.start(batch, from, [&remote, room, offset](const Contact& contact, ucp_request_param_t& how) {
    const ucs_status_t status = unpack(remote, contact.endpoint);
    if (status != UCS_OK) return UCS_STATUS_PTR(status);
    return ucp_get_nbx(contact.endpoint, room.data(), room.size(), remote.address + offset, remote.key.get(), &how);
  });
}

void Window::flush(Batch& batch, Rank peer) {
  check(peer, 0, 0, "flush");
  if (peer == fabric_.rank()) return;
  fabric_.start(batch, peer, [](const Contact& contact, ucp_request_param_t& how) {
    return ucp_ep_flush_nbx(contact.endpoint, &how);
  });
}

}  // namespace distdl::comm
