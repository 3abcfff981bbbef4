// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/comm/options.hpp>
#include <distdl/comm/sum_tree.hpp>
#include <distdl/world/world.hpp>

namespace distdl::comm {

/// A peer died, froze, left or cannot be reached. The communicator is of no more use; build one of the next generation.
/// The message names operation, rank, host and, where the peer could still say it, its reason; exit_code() is then that
/// of the reason, so that all ranks end with the code of the cause.
class PeerLost : public CommError {
 public:
  PeerLost(Rank rank, std::string host, const std::string& message, ExitCode code = ExitCode::peer_lost,
           std::vector<Rank> ranks = {})
      : CommError(message, code), rank_(rank), host_(std::move(host)), ranks_(std::move(ranks)) {
    if (ranks_.empty()) ranks_ = {rank};
  }
  /// The first cause.
  Rank rank() const noexcept { return rank_; }
  const std::string& host() const noexcept { return host_; }
  /// All that this rank knows to be lost, ascending.
  const std::vector<Rank>& ranks() const noexcept { return ranks_; }

 private:
  Rank rank_;
  std::string host_;
  std::vector<Rank> ranks_;
};

/// accumulate[i] += addend[i] for all i, in that order of operands.
using AddFunction = std::function<void(std::span<float> accumulate, std::span<const float> addend)>;

/// The ranks of one generation, connected over UCX. Owned and driven by one thread. Every operation is collective and
/// called by all ranks in the same order (send and receive excepted), is bounded by Options::timeout_seconds, and
/// throws PeerLost, naming whom it waited for and in which operation. A rank that comes too late, because it computes
/// or writes for longer than that, counts as lost too: it cannot answer.
class Communicator {
 public:
  /// Exchanges addresses through `world` and greets every peer, so that a rank which cannot be reached is named here.
  /// Throws SchedulerError (bootstrap), PeerLost, or ConfigError for timeouts that make no sense.
  static std::unique_ptr<Communicator> connect(world::World& world, const Options& options);
  ~Communicator();

  Rank rank() const noexcept;
  int size() const noexcept;
  /// Host name of a rank.
  const std::string& host(Rank rank) const;
  /// Ranks on the same host as `rank`, ascending.
  std::vector<Rank> ranks_on_host_of(Rank rank) const;
  /// One line for the log: transports in use, generation.
  std::string description() const;

  /// Blocking, tagged; sizes must agree. `tag` is the caller's, 0 .. 2^16-1.
  void send(std::span<const std::byte> bytes, Rank to, std::uint16_t tag);
  void receive(std::span<std::byte> bytes, Rank from, std::uint16_t tag);

  void barrier();
  void broadcast(std::span<std::byte> bytes, Rank root);
  /// Everyone's string, in rank order; lengths may differ. Where a rank may do long work before it comes, such as
  /// writing a file, `timeout` takes the place of Options::timeout_seconds.
  std::vector<std::string> all_gather(const std::string& mine, std::optional<Clock::duration> timeout = {});

  /// Sum along the fixed tree over `leaves` leaves. `ranges[r]` are the leaves of rank r, disjoint and together all
  /// leaves; a rank may have none. `partials[k]` is the sum over node k of cover(ranges[rank()], leaves), all of the
  /// same length. On return `result` (that length; may be partials[0]) holds the sum over all leaves on every rank,
  /// with the same bits for every assignment. The partials are used as scratch.
  void tree_all_reduce(int leaves, std::span<const LeafRange> ranges, std::span<const std::span<float>> partials,
                       std::span<float> result, const AddFunction& add);

  /// Tells all peers, as far as they listen, why this rank leaves; their pending operation fails with PeerLost carrying
  /// `reason` and `code`. Never throws, returns within a second.
  void abort(const std::string& reason, ExitCode code = ExitCode::peer_lost) noexcept;
  /// Collective, orderly end. The destructor alone neither throws nor communicates.
  void close();

 private:
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Connects, runs `body`, closes. If `body` throws, the peers are told why, and the exception goes on.
/// Example: run_connected(*world::make_world(), {}, [](Communicator& comm) { comm.barrier(); });
void run_connected(world::World& world, const Options& options, const std::function<void(Communicator&)>& body);

}  // namespace distdl::comm
