// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

#include <distdl/comm/execution/group.hpp>
#include <distdl/comm/execution/transfer.hpp>

namespace distdl::comm {

/// A message from any other rank of a communicator: it looks for one that has come, and then receives it.
class AnyReceive final : public Transfer {
 public:
  AnyReceive(Group& group, Mail& mail) : Transfer(group.fabric), group_(group), mail_(mail) {}

  void begin(std::span<std::byte> message, std::uint32_t wanted, std::function<void(Rank)> found) {
    Transfer::begin(operation_of(wanted));
    message_ = message;
    wanted_ = wanted;
    found_ = std::move(found);
    looks_ = true;
  }
  void add_awaited(std::vector<Rank>& ranks) const override {
    if (!looks_) return Transfer::add_awaited(ranks);
    for (int rank = 0; rank < size(); ++rank)
      if (rank != group_.rank) ranks.push_back(member(rank));
  }
  bool polls() const override { return looks_ || Transfer::polls(); }
  void cancel() noexcept override {
    looks_ = false;
    Transfer::cancel();
  }

 private:
  static Operation operation_of(std::uint32_t wanted) { return {"receive from any rank with tag", wanted}; }
  int size() const { return static_cast<int>(group_.members.size()); }
  Rank member(int rank) const { return group_.members[static_cast<std::size_t>(rank)]; }
  int local(int rank) const { return group_.local_of[static_cast<std::size_t>(rank)]; }
  Label label() const { return {Channel::user, group_.id, wanted_}; }

  bool holds(int rank) {
    if (!mail_.reaches(local(rank))) return group_.fabric.holds(member(rank), label());
    mail_.poll(local(rank));
    return mail_.holds(local(rank), wanted_);
  }
  /// Begins behind the rank that was served last, so that all get their turn.
  bool finds_one() {
    for (int i = 1; i <= size(); ++i) {
      const int rank = (last_ + i) % size();
      if (rank == group_.rank || !holds(rank)) continue;
      last_ = rank;
      looks_ = false;
      Transfer::begin(operation_of(wanted_), Direction::receive, message_, member(rank), label(), mail_, local(rank));
      if (found_) found_(Rank(rank));
      return true;
    }
    return false;
  }
  bool proceed() override { return (!looks_ || finds_one()) && Transfer::proceed(); }

  Group& group_;
  Mail& mail_;
  std::span<std::byte> message_;
  std::uint32_t wanted_ = 0;
  std::function<void(Rank)> found_;
  bool looks_ = false;  ///< for a message
  int last_ = 0;
};

}  // namespace distdl::comm
