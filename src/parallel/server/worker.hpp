// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <distdl/parallel/server/messages.hpp>

namespace distdl::parallel::server {

/// A worker: gets a lease, pulls all ranges, computes the gradient, pushes it to all ranges. It has no state that
/// others need: it can come and go at any time.
class Worker {
 public:
  /// The worker is silent until a scheduler has sent Lead. `rules` must outlive it. Throws ConfigError for rules that
  /// make no run. `first_range`: range that it pulls first, so that not all workers pull from the same server at once.
  explicit Worker(const Rules& rules, int first_range = 0);

  /// Throws CommError as check().
  void receive(Node from, const Message& message);
  void tick();                          ///< repeats messages without an answer
  void computed(const LeaseId& lease);  ///< the gradient is there; one of an earlier lease is not used
  Actions take() { return std::exchange(actions_, {}); }

  /// True if all microbatches are done. A new scheduler without that information asks again.
  bool is_finished() const { return state_ == State::finished; }
  /// Number of pulls that began again because the version was gone, as after the loss of a server.
  std::int64_t repeated_pulls() const { return repeated_pulls_; }
  /// Version with which the gradient of a range is computed.
  Version version(int range) const { return ranges_[static_cast<std::size_t>(range)].version; }

 private:
  enum class State { idle, pulling, computing, pushing, done, finished };
  struct Reading {
    int next_piece = 0;
    Version version{0};
    std::int64_t complete = 0;
    bool is_there = false;  ///< the range has the update
  };

  void handle(Node from, const Lead& lead);
  void handle(Node from, const Lease& lease);
  void handle(Node from, const Finish& finish);
  void handle(Node from, const Pulled& pulled);
  void handle(Node from, const Pushed& pushed);
  template <class Other>
  void handle(Node /*from*/, const Other& /*for another role*/) {}

  void begin(const Lease& lease);
  void pull(int range);
  void push(int range);
  void ask();
  void after_piece();
  void done();
  bool all_there() const;
  void send(Node to, Message message) { actions_.emplace_back(Send{to, std::move(message)}); }

  const Rules& rules_;
  int first_range_;
  Leadership leadership_{0};
  std::optional<Node> scheduler_;
  State state_ = State::idle;
  LeaseId lease_;
  Microbatch microbatch_;
  Directory directory_;
  std::vector<Reading> ranges_;
  std::int64_t repeated_pulls_ = 0;
  Actions actions_;
};

}  // namespace distdl::parallel::server
