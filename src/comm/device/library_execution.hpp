// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include <distdl/comm/device/device_transport.hpp>
#include <distdl/comm/execution/group.hpp>
#include <distdl/comm/execution/pending.hpp>

namespace distdl::comm {

/// A collective of a DeviceTransport. This rank's partial sums are added first, and an average is divided last.
class LibraryExecution final : public Request::Pending {
 public:
  explicit LibraryExecution(Group& group) : Pending(group.fabric), group_(group) {}

  /// `partials` are this rank's operands, at least one; several are summed into call.output. Only prepares the
  /// operation; Pending::start() begins it.
  void set(const DeviceTransport::Call& call, const std::vector<const std::byte*>& partials, double scale,
           Operation operation);

  void add_awaited(std::vector<Rank>& ranks) const override;
  Operation operation() const override { return operation_; }
  bool polls() const override { return state_ != State::idle; }
  void cancel() noexcept override;

 private:
  enum class State { idle, summing, queueing, entering, running, dividing };
  bool proceed() override;
  bool go_on();
  bool ready();

  Group& group_;
  DeviceTransport::Call call_;
  double scale_ = 1;
  Operation operation_;
  State state_ = State::idle;
  std::uint64_t number_ = 0;
  Accelerator::Mark mark_ = 0;
  std::optional<Clock::time_point> failed_since_;
};

/// Waits until the ranks are connected in the library. Errors are stored rather than thrown, because communication can
/// continue without the library.
class LibraryMeeting final : public Activity {
 public:
  LibraryMeeting(Group& group, DeviceTransport& transport) : group_(group), transport_(transport) {}
  bool advance() override;
  void add_awaited(std::vector<Rank>& ranks) const override;
  Operation operation() const override { return {"connecting NCCL", 0}; }
  bool polls() const override { return true; }
  void cancel() noexcept override { transport_.abort(); }
  const std::string& problem() const { return problem_; }

 private:
  Group& group_;
  DeviceTransport& transport_;
  std::string problem_;
};

}  // namespace distdl::comm
