// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/processes/rank_tolerance.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <utility>

#include <distdl/base/env.hpp>

namespace distdl::comm {
namespace {
constexpr int kMessages = 50;  ///< of each rank to each other one, after the loss
constexpr int kBegun = 3;      ///< of each rank until it counts as running
enum Number : std::uint16_t { before, after, last, numbers };

bool never() {
  return false;
}

class Talk {
 public:
  Talk(Communicator& comm, Rank fragile, std::size_t floats)
      : comm_(comm), fragile_(fragile), mine_(floats, static_cast<float>(comm.rank().value)), got_(floats) {
    for (std::uint16_t number = before; number < numbers; ++number)
      comm_.on_message(number, [this, number](Rank from, std::string_view, std::span<const std::byte> payload) {
        std::vector<float> values(payload.size() / sizeof(float));
        std::memcpy(values.data(), payload.data(), payload.size());
        require<InternalError>(std::ranges::count(values, from.value) == std::ssize(values), "a wrong message of {}",
                               from);
        ++received_[number][from];
      });
    remote_.emplace(comm_.expose(std::as_writable_bytes(std::span(mine_))));
    comm_.barrier().wait();
  }
  /// Sends each other rank `most` messages, one at a time, until so many have come from each, or `is_done`.
  void go_on(Number number, int most, int most_to_fragile, const std::function<bool()>& is_done = never) {
    while (!is_done() && !(has_all(number, most) && has_sent_all())) {
      std::erase_if(under_way_, [&](Sent& one) { return one.request.test(); });
      for (Rank rank(0); rank.value < comm_.size(); ++rank.value)
        if (rank != comm_.rank() && !is_lost(rank) && sent_[number][rank] < (rank == fragile_ ? most_to_fragile : most))
          send(number, rank);
      if (comm_.rank() == fragile_ && !is_network_) get();
      comm_.await_messages(Milliseconds(1));
    }
  }
  bool has_all(Number number, int messages) {
    for (Rank rank(0); rank.value < comm_.size(); ++rank.value)
      if (rank != comm_.rank() && !is_lost(rank) && std::min(sent_[number][rank], received_[number][rank]) < messages)
        return false;
    return true;
  }
  bool has_sent_all() const {
    return std::ranges::all_of(under_way_, [&](const Sent& one) { return is_lost(one.to); });
  }
  bool is_lost(Rank rank) const { return std::ranges::count(comm_.lost(), rank) > 0; }

 private:
  struct Sent {
    Rank to;
    Request request;
  };
  void send(Number number, Rank to) {
    if (std::ranges::count(under_way_, to, &Sent::to) > 0) return;
    const auto floats = (to == fragile_ && is_network_) || number == last ? 1 : mine_.size();
    ++sent_[number][to];
    under_way_.push_back({to, comm_.send_message(to, number, "", std::as_bytes(std::span(mine_).first(floats)))});
  }
  void get() {
    if (got_request_.test())
      got_request_ = remote_->get(std::as_writable_bytes(std::span(got_)), Rank((next_++ % 2)), 0);
  }

  /// Over TCP UCX 1.13 aborts a process from which a rank that dies gets a long message, or reads memory.
  bool is_network_ = env("RANK_PROGRAM_NETWORK").has_value();
  Communicator& comm_;
  Rank fragile_;
  std::vector<float> mine_, got_;
  std::optional<RemoteMemory> remote_;
  int next_ = 0;
  std::list<Sent> under_way_;
  Request got_request_;
  std::array<std::map<Rank, int>, numbers> sent_, received_;
};
}  // namespace

void go_on_without(Communicator& comm, Rank fragile, std::size_t floats, const std::function<void()>& running) {
  constexpr int kEndless = std::numeric_limits<int>::max();
  comm.tolerate({fragile});
  Talk talk(comm, fragile, floats);
  bool is_running = false;
  talk.go_on(before, kEndless, kEndless, [&] {
    if (!std::exchange(is_running, is_running || talk.has_all(before, kBegun)) && is_running) running();
    return talk.is_lost(fragile);
  });
  std::cout << "without " << fragile.value << std::endl;
  talk.go_on(after, kMessages, 0);
  std::cout << "went on" << std::endl;
  talk.go_on(last, 1, 0);  // nobody leaves before all have come so far
  comm.tolerate({});
  comm.await_messages(Milliseconds(1000));
}

}  // namespace distdl::comm
