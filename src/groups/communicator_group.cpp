// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include <distdl/base/errors.hpp>
#include <distdl/groups/communicator_group.hpp>

namespace distdl::groups {

CommunicatorGroup::CommunicatorGroup(comm::Communicator& communicator, double timeout_seconds)
    : communicator_(communicator) {
  require(timeout_seconds > 0 && timeout_seconds <= 1e6,
          "checkpoint.timeout_seconds is {}, but must be above 0 and at most 1e6", timeout_seconds);
  timeout_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_seconds));
}

void exchange_buffers(comm::Communicator& communicator, std::span<const checkpoint::Group::Outgoing> out,
                      std::span<const checkpoint::Group::Incoming> in, Clock::duration timeout,
                      const std::function<void(comm::Request&)>& wait) {
  static constexpr std::size_t kPiece = std::size_t{16} << 20;
  constexpr std::uint32_t kTag = (1U << 28) - 1;  // the last one: those of callers of the C interface are smaller
  comm::CallOptions options;
  options.timeout = timeout;
  const auto piece_of = [](auto bytes, std::size_t at) {
    return bytes.subspan(at, std::min<std::size_t>(kPiece, bytes.size() - at));
  };
  std::size_t longest = 0;
  for (const auto& one : out) longest = std::max(longest, one.bytes.size());
  for (const auto& one : in) longest = std::max(longest, one.bytes.size());
  for (std::size_t at = 0; at < longest; at += kPiece) {
    std::vector<comm::Request> requests;
    for (const auto& one : in)
      if (at < one.bytes.size())
        requests.push_back(communicator.receive(piece_of(one.bytes, at), Rank(one.from), kTag, options));
    for (const auto& one : out)
      if (at < one.bytes.size())
        requests.push_back(communicator.send(piece_of(one.bytes, at), Rank(one.to), kTag, options));
    for (comm::Request& request : requests) wait(request);
  }
}

void CommunicatorGroup::exchange_buffers(std::span<const Outgoing> out, std::span<const Incoming> in) {
  groups::exchange_buffers(communicator_, out, in, timeout_, [](comm::Request& request) { request.wait(); });
}

}  // namespace distdl::groups
