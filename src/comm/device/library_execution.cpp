// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/comm/device/library_execution.hpp>

namespace distdl::comm {
namespace {

/// For the fabric to find out which peer's end is behind an error of the library.
constexpr Milliseconds kGrace{1000};

void add_others_in(const Group& group, std::vector<Rank>& others) {
  for (std::size_t r = 0; r < group.members.size(); ++r)
    if (static_cast<int>(r) != group.rank) others.push_back(group.members[r]);
}

}  // namespace

void LibraryExecution::set(const DeviceTransport::Call& call, const std::vector<const std::byte*>& partials,
                           double scale, Operation operation) {
  call_ = call;
  scale_ = scale;
  operation_ = operation;
  failed_since_.reset();
  number_ = group_.library->next++;
  state_ = State::queueing;
  if (partials.size() < 2) return;
  Accelerator& accelerator = *group_.device->accelerator;
  accelerator.follow_caller();
  std::vector<tensor::ReduceSource> sources;
  sources.reserve(partials.size());
  for (const std::byte* partial : partials) sources.push_back({partial, sources.empty() ? 0 : 1});
  accelerator.reduce(call_.type, call_.reduction, sources, {&call_.output, 1}, call_.count, 1);
  mark_ = accelerator.mark();
  call_.input = call_.output;
  state_ = State::summing;
}

bool LibraryExecution::ready() {
  try {
    return group_.library->transport->ready();
  } catch (const CommError&) {
    if (!failed_since_) failed_since_ = Clock::now();
    if (Clock::now() - *failed_since_ > kGrace) throw;
    return false;
  }
}

bool LibraryExecution::proceed() {
  if (!go_on()) return false;
  state_ = State::idle;
  return true;
}

/// The library takes the calls in the order in which all ranks make them, one at a time.
bool LibraryExecution::go_on() {
  Accelerator& accelerator = *group_.device->accelerator;
  LibraryAccess& library = *group_.library;
  if (state_ == State::summing) {
    if (!accelerator.reached(mark_)) return false;
    state_ = State::queueing;
  }
  if (state_ == State::queueing) {
    if (library.turn != number_ || !ready()) return false;
    library.transport->begin(call_, accelerator.library_queue());
    state_ = State::entering;
  }
  if (state_ == State::entering) {
    if (!ready()) return false;
    mark_ = accelerator.mark_library();
    ++library.turn;
    state_ = State::running;
  }
  if (state_ == State::running) {
    if (!ready() || !accelerator.reached(mark_)) return false;
    const bool has_result = call_.collective != Collective::reduce || call_.root == group_.rank;
    if (scale_ == 1 || !has_result) return true;
    const tensor::ReduceSource source{call_.output, 0};
    accelerator.reduce(call_.type, Reduction::sum, {&source, 1}, {&call_.output, 1}, call_.count, scale_);
    mark_ = accelerator.mark();
    state_ = State::dividing;
  }
  return accelerator.reached(mark_);
}

void LibraryExecution::add_awaited(std::vector<Rank>& ranks) const {
  if (state_ != State::idle) add_others_in(group_, ranks);
}

void LibraryExecution::cancel() noexcept {
  if (state_ == State::idle) return;
  state_ = State::idle;
  group_.library->transport->abort();
  group_.device->accelerator->drain();
}

bool LibraryMeeting::advance() {
  try {
    return transport_.ready();
  } catch (const CommError& error) {
    problem_ = error.what();
    return true;
  }
}

void LibraryMeeting::add_awaited(std::vector<Rank>& ranks) const {
  add_others_in(group_, ranks);
}

}  // namespace distdl::comm
