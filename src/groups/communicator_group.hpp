// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/comm/communicator.hpp>

namespace distdl::groups {

/// Implements checkpoint::Group::exchange_buffers() with a communicator. Buffers are sent in pieces, so that a late
/// receiver has to queue little.
void exchange_buffers(comm::Communicator& communicator, std::span<const checkpoint::Group::Outgoing> out,
                      std::span<const checkpoint::Group::Incoming> in, Clock::duration timeout,
                      const std::function<void(comm::Request&)>& wait);

/// The checkpoint group of a communicator's ranks. Its timeout is checkpoint.timeout_seconds, because a rank that
/// writes gigabytes does not answer during that time. Within a step the timeout is comm.timeout_seconds.
class CommunicatorGroup final : public checkpoint::Group {
 public:
  /// Throws ConfigError for an invalid timeout.
  CommunicatorGroup(comm::Communicator& communicator, double timeout_seconds);
  int rank() const override { return communicator_.rank().value; }
  int size() const override { return communicator_.size(); }
  Clock::duration timeout() const { return timeout_; }
  std::vector<std::string> all_gather(const std::string& mine) override {
    return communicator_.all_gather_strings(mine, timeout_);
  }
  std::vector<std::string> all_gather_in_step(const std::string& mine) override {
    return communicator_.all_gather_strings(mine);
  }
  void exchange_buffers(std::span<const Outgoing> out, std::span<const Incoming> in) override;

 private:
  comm::Communicator& communicator_;
  Clock::duration timeout_{};
};

}  // namespace distdl::groups
