// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include <distdl/comm/device/device_transfers.hpp>
#include <distdl/comm/execution/group.hpp>
#include <distdl/comm/execution/pending.hpp>
#include <distdl/comm/reduce/reduce.hpp>
#include <distdl/comm/vector.hpp>

namespace distdl::comm {

/// Performs one rank's schedule; it is the interpreter of all collectives. It may be reused when it is done.
class Execution final : public Request::Pending {
 public:
  explicit Execution(Group& group) : Pending(group.fabric), group_(group) {}

  struct Call {
    std::vector<const std::byte*> inputs;  ///< per part
    std::byte* output = nullptr;
    std::size_t input_bytes = 0, output_bytes = 0;  ///< bytes of one part; bytes of the output
    DataType type = DataType::byte;
    Reduction reduction = Reduction::sum;
    double scale = 1;        ///< factor of the final result
    bool on_device = false;  ///< inputs and output are in the memory of group.device
  };
  /// Only prepares the operation; Pending::start() begins it.
  void set(const std::shared_ptr<const CollectivePlan>& plan, const Call& call, Operation operation);

  void add_awaited(std::vector<Rank>& ranks) const override;
  Operation operation() const override { return operation_; }
  Span wait_span() const override {
    return {.name = operation_.name,
            .bytes = operation_.bytes,
            .number = operation_.sequence,
            .peer = group_.members.front().value,
            .kind = SpanKind::collective_wait,
            .group = group_.id};
  }
  void cancel() noexcept override;
  bool polls() const override;
  std::uint64_t steps() const override { return steps_ + (transfers_ ? transfers_->steps() : 0); }
  std::string own_delay() const override;

 private:
  bool proceed() override;
  enum class State { idle, entering, arriving, running, finishing };

  void use(const Schedule& schedule);
  void set_up_device();
  bool enter();
  bool arrive();
  bool run();
  bool finish_on_device();
  bool all_reached(std::uint32_t stage);
  void publish();
  bool choose_direct();
  bool any_in_place() const;
  void transfer(const ScheduleStep& step);
  bool wait_for(const ScheduleStep& step);
  bool await(const ScheduleStep& step);
  void reduce(const ScheduleStep& step);
  bool copy_short(const ScheduleStep& step);
  std::byte* address(const Block& block);
  std::byte* shared(int local) const;
  Batch& batch(int group);
  std::uint64_t fingerprint() const;
  void check_fingerprint(int local) const;

  Group& group_;
  std::shared_ptr<const CollectivePlan> plan_;
  const Schedule* schedule_ = nullptr;
  Call call_;
  Operation operation_;
  State state_ = State::idle;
  std::uint64_t number_ = 0;  ///< NodeRanks::next()
  std::size_t next_ = 0;      ///< number of the next step
  std::uint64_t steps_ = 0;   ///< steps taken by all operations so far
  std::vector<std::byte> scratch_;
  std::deque<Batch> batches_;  ///< per group of transfers
  tensor::Buffer device_scratch_;
  std::optional<DeviceTransfers> transfers_;  ///< used instead of the batches after an operation on the device
  Accelerator::Mark end_ = 0;                 ///< end of its work, in State::finishing
  struct Theirs {
    std::byte* output = nullptr;
    std::vector<std::byte*> inputs;
  };
  std::vector<Theirs> theirs_;  ///< per rank of the node, if the schedule accesses their memory
  std::vector<ReduceSource> sources_;
  std::vector<void*> targets_;
};

}  // namespace distdl::comm
