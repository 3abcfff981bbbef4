// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/comm/execution/execution.hpp>

namespace distdl::comm {
namespace {

constexpr std::uint32_t kArrived = 1;
constexpr std::size_t kShortCopy = 1024;  ///< bytes
/// In place of a location: there is nothing to find.
constexpr std::uint64_t kNothing = ~std::uint64_t{0};

}  // namespace

void Execution::set(const std::shared_ptr<const CollectivePlan>& plan, const Call& call, Operation operation) {
  if (plan_ != plan) plan_ = plan;  // counting references takes time
  call_ = call;
  if (call_.on_device) set_up_device();
  use(plan_->schedule);
  operation_ = operation;
  operation_.bytes = call.input_bytes;
  next_ = 0;
  state_ = State::running;
  if (plan_->uses_node_ranks) {
    number_ = group_.node_ranks->next();
    state_ = State::entering;
  }
}

void Execution::set_up_device() {
  Accelerator& accelerator = *group_.device->accelerator;
  if (!transfers_) transfers_.emplace(group_.fabric, *group_.device);
  const std::size_t needed = plan_->schedule.scratch * plan_->problem.element;
  if (device_scratch_.bytes() < needed) device_scratch_ = accelerator.allocate(needed);
  accelerator.follow_caller();
}

void Execution::use(const Schedule& schedule) {
  schedule_ = &schedule;
  if (call_.on_device) return;
  const std::size_t needed = schedule.scratch * plan_->problem.element;
  if (scratch_.size() < needed) scratch_.resize(needed);
}

bool Execution::proceed() {
  if (state_ == State::entering && !enter()) return false;
  if (state_ == State::arriving && !arrive()) return false;
  if (call_.on_device) transfers_->advance(operation_);
  if (state_ == State::running && !run()) return false;
  if (call_.on_device && !finish_on_device()) return false;
  if (plan_->uses_node_ranks) group_.node_ranks->complete(number_);
  state_ = State::idle;
  return true;
}

bool Execution::enter() {
  NodeRanks& node_ranks = *group_.node_ranks;
  if (!node_ranks.all_have_completed(NodeRanks::previous(number_, schedule_->is_short))) return false;
  node_ranks.control_block(node_ranks.self(), number_).fingerprint.store(fingerprint(), std::memory_order_relaxed);
  if (schedule_->is_short) node_ranks.prepare(number_, schedule_->shared * plan_->problem.element);
  state_ = plan_->needs_arrival ? State::arriving : State::running;
  if (!plan_->needs_arrival) return true;
  publish();
  node_ranks.signal(number_, kArrived);
  return true;
}

void Execution::publish() {
  const NodeMemory& memory = group_.node_ranks->memory();
  OperandBlock& own = group_.node_ranks->operand_block(group_.node_ranks->self(), number_);
  const auto locate = [&](const std::byte* data, std::size_t bytes) {
    return bytes == 0 ? kNothing : memory.locate(data, bytes);
  };
  // Parts beyond kParts cannot be found; then the output counts as not shared either.
  const std::size_t parts = std::min(call_.inputs.size(), OperandBlock::kParts);
  own.output.store(parts < call_.inputs.size() ? 0 : locate(call_.output, call_.output_bytes),
                   std::memory_order_relaxed);
  own.parts.store(static_cast<std::uint32_t>(parts), std::memory_order_relaxed);
  for (std::size_t part = 0; part < parts; ++part)
    own.inputs[part].store(locate(call_.inputs[part], call_.input_bytes), std::memory_order_relaxed);
}

bool Execution::arrive() {
  if (!all_reached(kArrived)) return false;
  if (!choose_direct())
    use(plan_->staged.value());
  else if (plan_->disjoint && !any_in_place())
    use(*plan_->disjoint);
  state_ = State::running;
  return true;
}

bool Execution::all_reached(std::uint32_t stage) {
  for (int local = 0; local < group_.node_ranks->size(); ++local)
    if (!group_.node_ranks->has_reached(local, number_, stage)) return false;
  return true;
}

/// All ranks of the node see the same locations, so they decide alike.
bool Execution::choose_direct() {
  const NodeRanks& node_ranks = *group_.node_ranks;
  theirs_.resize(static_cast<std::size_t>(node_ranks.size()));
  bool direct = true;
  for (int local = 0; local < node_ranks.size(); ++local) {
    check_fingerprint(local);
    const OperandBlock& operand_block = node_ranks.operand_block(local, number_);
    Theirs& theirs = theirs_[static_cast<std::size_t>(local)];
    const auto resolve = [&](std::uint64_t location) -> std::byte* {
      direct = direct && location != 0;
      return location == 0 || location == kNothing ? nullptr : node_ranks.memory().resolve(local, location);
    };
    theirs.output = resolve(operand_block.output.load(std::memory_order_relaxed));
    theirs.inputs.resize(operand_block.parts.load(std::memory_order_relaxed));
    for (std::size_t part = 0; part < theirs.inputs.size(); ++part)
      theirs.inputs[part] = resolve(operand_block.inputs[part].load(std::memory_order_relaxed));
  }
  return direct;
}

/// Also a decision that is the same on all ranks of the node.
bool Execution::any_in_place() const {
  return std::any_of(theirs_.begin(), theirs_.end(), [](const Theirs& rank) { return rank.output == rank.inputs[0]; });
}

std::uint64_t Execution::fingerprint() const {
  return plan_->fingerprint + static_cast<std::uint64_t>(call_.reduction);
}

void Execution::check_fingerprint(int local) const {
  const NodeRanks& node_ranks = *group_.node_ranks;
  const auto theirs = node_ranks.control_block(local, number_).fingerprint.load(std::memory_order_relaxed);
  if (theirs != fingerprint())
    throw CommError(
        fmt::format("{}: {} calls another operation, or uses other sizes, types or options: all ranks "
                    "must call the same operations in the same order",
                    to_string(operation_), group_.fabric.name(node_ranks.memory().rank_of(local))));
}

bool Execution::run() {
  for (; next_ < schedule_->steps.size(); ++next_, ++steps_) {
    const ScheduleStep& step = schedule_->steps[next_];
    switch (step.kind) {
      case ScheduleStep::Kind::send:
      case ScheduleStep::Kind::receive:
        transfer(step);
        break;
      case ScheduleStep::Kind::wait:
        if (!wait_for(step)) return false;
        break;
      case ScheduleStep::Kind::reduce:
        reduce(step);
        break;
      case ScheduleStep::Kind::signal:
        group_.node_ranks->signal(number_, step.stage);
        break;
      case ScheduleStep::Kind::await:
        if (!await(step)) return false;
        break;
    }
  }
  return true;
}

/// The caller may use the result by any way that it likes, also such that do not follow the device's queue.
bool Execution::finish_on_device() {
  Accelerator& accelerator = *group_.device->accelerator;
  if (state_ == State::running) end_ = accelerator.mark();
  state_ = State::finishing;
  if (!accelerator.reached(end_)) return false;
  transfers_->advance(operation_);  // gives back what was kept for the last pieces
  ++steps_;
  return true;
}

Batch& Execution::batch(int group) {
  while (batches_.size() <= static_cast<std::size_t>(group)) batches_.emplace_back(group_.fabric);
  return batches_[static_cast<std::size_t>(group)];
}

void Execution::transfer(const ScheduleStep& step) {
  const std::span<std::byte> bytes(address(step.block), step.block.count * plan_->problem.element);
  const Rank peer = group_.members[static_cast<std::size_t>(step.peer)];
  const Label label{Channel::collective, group_.id, operation_.sequence};
  if (call_.on_device)
    return transfers_->add(
        step.kind == ScheduleStep::Kind::send ? DeviceTransfers::Direction::send : DeviceTransfers::Direction::receive,
        bytes, peer, label, step.group);
  if (step.kind == ScheduleStep::Kind::send)
    group_.fabric.send(batch(step.group), bytes, peer, label);
  else
    group_.fabric.receive(batch(step.group), bytes, peer, label);
}

bool Execution::wait_for(const ScheduleStep& step) {
  if (call_.on_device) return transfers_->done(step.group);
  Batch& transfers = batch(step.group);
  if (!transfers.done()) return false;
  group_.fabric.check(transfers, operation_);
  return true;
}

bool Execution::await(const ScheduleStep& step) {
  const int local = group_.local_of[static_cast<std::size_t>(step.peer)];
  if (!group_.node_ranks->has_reached(local, number_, step.stage)) return false;
  check_fingerprint(local);
  group_.node_ranks->prefetch(local, number_ + 1);
  return true;
}

std::byte* Execution::address(const Block& block) {
  const std::size_t offset = block.first * plan_->problem.element;
  const bool own = block.rank == group_.rank;
  const int local = own ? 0 : group_.local_of[static_cast<std::size_t>(block.rank)];
  switch (block.space) {
    case Space::input:
      // The interpreter writes to an input only where a schedule says so, as a scratch for sums.
      return (own ? const_cast<std::byte*>(call_.inputs[block.part])  // NOLINT(cppcoreguidelines-pro-type-const-cast)
                  : theirs_[static_cast<std::size_t>(local)].inputs[block.part]) +
             offset;
    case Space::output:
      return (own ? call_.output : theirs_[static_cast<std::size_t>(local)].output) + offset;
    case Space::shared:
      return shared(own ? group_.node_ranks->self() : local) + offset;
    case Space::scratch:
      if (call_.on_device) return static_cast<std::byte*>(device_scratch_.data()) + offset;
      break;
  }
  return scratch_.data() + offset;
}

std::byte* Execution::shared(int local) const {
  const NodeRanks& node_ranks = *group_.node_ranks;
  return schedule_->is_short ? node_ranks.control_block(local, number_).payload
                             : node_ranks.operand_block(local, number_).payload;
}

/// Copies up to this size need none of what comm::reduce() does for long ones.
bool Execution::copy_short(const ScheduleStep& step) {
  const Block& target = schedule_->targets[step.targets];
  const std::size_t bytes = target.count * plan_->problem.element;
  if (step.source_count != 1 || step.target_count != 1 || bytes > kShortCopy || call_.on_device) return false;
  if (step.last && call_.scale != 1) return false;
  const std::byte* const from = address(schedule_->sources[step.sources].block);
  std::byte* const to = address(target);
  if (from != to) std::memcpy(to, from, bytes);
  return true;
}

void Execution::reduce(const ScheduleStep& step) {
  if (copy_short(step)) return;
  sources_.clear();
  targets_.clear();
  for (std::uint32_t i = 0; i < step.source_count; ++i) {
    const Operand& operand = schedule_->sources[step.sources + i];
    sources_.push_back({address(operand.block), operand.reductions});
  }
  for (std::uint32_t i = 0; i < step.target_count; ++i) {
    std::byte* target = address(schedule_->targets[step.targets + i]);
    if (step.source_count > 1 || target != sources_[0].data || (step.last && call_.scale != 1))
      targets_.push_back(target);
  }
  if (targets_.empty()) return;
  const std::size_t count = schedule_->targets[step.targets].count;
  const double scale = step.last ? call_.scale : 1;
  if (call_.on_device)
    group_.device->accelerator->reduce(call_.type, call_.reduction, sources_, targets_, count, scale);
  else
    comm::reduce(call_.type, call_.reduction, sources_, targets_, count, scale);
}

void Execution::add_awaited(std::vector<Rank>& ranks) const {
  if (state_ == State::idle || state_ == State::finishing) return;
  const auto ranks_that = [&](auto lack) {
    for (int local = 0; local < group_.node_ranks->size(); ++local)
      if (lack(local)) ranks.push_back(group_.node_ranks->memory().rank_of(local));
  };
  if (state_ == State::entering)
    ranks_that([&](int local) {
      return !group_.node_ranks->has_completed(local, NodeRanks::previous(number_, schedule_->is_short));
    });
  else if (state_ == State::arriving)
    ranks_that([&](int local) { return !group_.node_ranks->has_reached(local, number_, kArrived); });
  else if (const ScheduleStep& step = schedule_->steps[next_]; step.kind == ScheduleStep::Kind::await)
    ranks.push_back(group_.members[static_cast<std::size_t>(step.peer)]);
  else if (step.kind == ScheduleStep::Kind::wait)
    call_.on_device ? transfers_->add_awaited(step.group, ranks) : batches_[step.group].add_awaited(ranks);
}

std::string Execution::own_delay() const {
  if (!call_.on_device || state_ == State::idle) return Pending::own_delay();
  return fmt::format("its own device ({}), which has not finished its work", group_.device->accelerator->description());
}

bool Execution::polls() const {
  if (call_.on_device && state_ != State::idle) return state_ == State::finishing || transfers_->awaits_device();
  return state_ == State::entering || state_ == State::arriving ||
         (state_ == State::running && schedule_->steps[next_].kind == ScheduleStep::Kind::await);
}

void Execution::cancel() noexcept {
  for (Batch& transfers : batches_) group_.fabric.cancel(transfers);
  if (call_.on_device && state_ != State::idle) {
    transfers_->cancel();
    group_.device->accelerator->drain();
  }
  if (plan_ && plan_->uses_node_ranks && state_ != State::idle) group_.node_ranks->complete(number_);
  state_ = State::idle;
}

}  // namespace distdl::comm
