// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/faults/fault_work.hpp"

#include <algorithm>

#include <distdl/comm/algorithms/registry.hpp>

namespace distdl::comm::faults {
namespace {

constexpr std::size_t kLarge = 300'001;  // elements

bool contains(const std::vector<Work>& works, Work work) {
  return std::find(works.begin(), works.end(), work) != works.end();
}

}  // namespace

Session::Session(world::World& world, const Options& options, const std::vector<Work>& works)
    : comm_(Communicator::connect(world, options)) {
  memory_.reserve(64);  // they stay where they are
  if (contains(works, Work::part)) part_ = comm_->split(comm_->rank().value * 2 / comm_->size());
  if (contains(works, Work::shared_sum)) shared_ = comm_->allocate(kLarge * sizeof(std::int32_t));
}

std::vector<std::int32_t>& Session::memory(std::size_t count) {
  return memory_.emplace_back(count, comm_->rank().value + 1);
}

void Session::begin_sum(std::span<std::int32_t> values, const CallOptions& options) {
  requests_.push_back(comm_->all_reduce(values, options));
  expected_.push_back({values, comm_->size() * (comm_->size() + 1) / 2});
}

void Session::begin(Work work) {
  requests_.clear();
  expected_.clear();
  memory_.clear();
  CallOptions network;
  network.choice = Choice{.algorithm = algorithm_of("pairwise")};
  switch (work) {
    case Work::small_sum:
      return begin_sum(memory(1));
    case Work::large_sum:
      return begin_sum(memory(kLarge));
    case Work::network_sum:
      return begin_sum(memory(kLarge / 3), network);
    case Work::shared_sum:
      std::ranges::fill(shared_.as<std::int32_t>(), comm_->rank().value + 1);
      return begin_sum(shared_.as<std::int32_t>());
    case Work::several:
      for (std::size_t count : {std::size_t{1}, kLarge / 10, std::size_t{1000}, kLarge}) begin_sum(memory(count));
      return;
    case Work::part: {
      auto& values = memory(5000);
      std::ranges::fill(values, 1);
      requests_.push_back(part_->all_reduce(values));
      expected_.push_back({values, part_->size()});
      requests_.push_back(comm_->barrier());  // a part may be but one rank, which waits for nobody
      return;
    }
    case Work::ring:
      return begin_ring();
    default:
      return begin_move(work);
  }
}

void Session::begin_move(Work work) {
  const auto ranks = static_cast<std::size_t>(comm_->size());
  const std::size_t each = kLarge / 4;
  if (work == Work::barrier) {
    requests_.push_back(comm_->barrier());
  } else if (work == Work::broadcast) {
    auto& values = memory(kLarge);
    requests_.push_back(comm_->broadcast(values, Rank(0)));
    expected_.push_back({values, 1});
  } else if (work == Work::reduce_scatter) {
    const auto& values = memory(each * ranks);
    auto& result = memory(each);
    requests_.push_back(comm_->reduce_scatter(values, result));
    expected_.push_back({result, comm_->size() * (comm_->size() + 1) / 2});
  } else {
    auto& values = memory(work == Work::all_gather ? each : each * ranks);
    auto& result = memory(each * ranks);
    requests_.push_back(work == Work::all_gather ? comm_->all_gather(values, result)
                                                 : comm_->all_to_all(values, result));
    for (std::size_t r = 0; r < ranks; ++r)
      expected_.push_back({std::span(result).subspan(r * each, each), static_cast<std::int32_t>(r) + 1});
  }
}

void Session::begin_ring() {
  const int self = comm_->rank().value, size = comm_->size();
  if (size == 1) return;
  const int next = (self + 1) % size, before = (self + size - 1) % size;
  auto& out = memory(kLarge);
  auto& in = memory(kLarge);
  requests_.push_back(comm_->receive(std::as_writable_bytes(std::span(in)), Rank(before), 1));
  requests_.push_back(comm_->send(std::as_bytes(std::span(out)), Rank(next), 1));
  expected_.push_back({in, before + 1});
}

void Session::advance() {
  for (Request& request : requests_) (void)request.test();
}

void Session::finish() {
  for (Request& request : requests_) request.wait();
  check();
}

void Session::check() const {
  for (const Expected& one : expected_)
    for (std::int32_t value : one.values) require<InternalError>(value == one.all, "{} instead of {}", value, one.all);
}

}  // namespace distdl::comm::faults
