// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/comm/accelerator.hpp>
#include <distdl/comm/cost_table.hpp>
#include <distdl/comm/options.hpp>
#include <distdl/comm/peer_lost.hpp>
#include <distdl/comm/remote_memory.hpp>
#include <distdl/comm/request.hpp>
#include <distdl/comm/schedule.hpp>
#include <distdl/comm/traffic.hpp>
#include <distdl/comm/vector.hpp>
#include <distdl/tensor/buffer.hpp>
#include <distdl/world/world.hpp>

namespace distdl::comm {

/// Options of one call.
struct CallOptions {
  Reduction reduction = Reduction::sum;
  Order order = Order::deterministic;           ///< any: a sum's bits may depend on number and placement of ranks
  std::optional<Clock::duration> timeout = {};  ///< replaces Options::timeout_seconds
  std::optional<Choice> choice = {};            ///< replaces the fastest choice by measured cost; equal on all ranks
};

/// The leaves of the fixed tree that each rank contributes: ranges[r] are those of rank r. The ranges are disjoint, and
/// together they contain all `count` leaves. A rank may have none.
struct Leaves {
  int count = 0;
  std::vector<LeafRange> ranges;
};

/// Handles an active message. Header and payload are valid only during the call.
using MessageHandler = std::function<void(Rank from, std::string_view header, std::span<const std::byte> payload)>;

/// The ranks of one generation, connected by shared memory within a node and by UCX between nodes. One thread at a time
/// uses a Communicator and those that were split from it.
///
/// All ranks call the same collectives in the same order. A collective begins at once and is complete when wait() of
/// its Request returns. Until then the caller must not access its memory. Several may be under way.
///
/// Every wait ends after Options::timeout_seconds and then throws PeerLost, which names the awaited ranks and the
/// operation. The generation has then ended: everything under way fails, and a Communicator of the next generation has
/// to be created. A rank that is late by more than the timeout, because it computes or writes, also counts as lost.
///
/// Sums, averages, maxima and minima follow the fixed tree of sum_tree.hpp, so that their bits do not depend on the
/// placement of ranks. Collectives within a node are several times faster on memory from allocate(), because the ranks
/// of the node then access it directly.
///
/// Throws ConfigError for sizes and types that do not match, and CommError if ranks called different operations.
class Communicator {
 public:
  /// Exchanges addresses through `world` and connects to all peers. The error names a rank that cannot be reached.
  /// Throws SchedulerError (bootstrap), PeerLost, or ConfigError for invalid timeouts.
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
  /// The costs that determine the choice of algorithms: those that an earlier run measured, or the built-in ones.
  const CostTable& costs() const noexcept;
  /// Sets these costs, see measure_costs(). They must be equal on all ranks.
  void set_costs(const CostTable& costs);
  /// The seconds that an all_reduce() of `count` elements over leaves would take with these costs, on memory from
  /// allocate(). The same on all ranks.
  double predicted_seconds(const Leaves& leaves, std::size_t count, DataType type) const;
  /// The choice for the last collective that began.
  Choice last_choice() const;
  /// Each kind of collective that this rank has called, also through communicators that were split from the same one.
  std::vector<Traffic> traffic() const;

  /// Collective. The ranks of equal `color` form a new communicator, ordered by `key`, then by rank. It must be
  /// destroyed before this one. Ranks with a negative color get none.
  std::unique_ptr<Communicator> split(int color, int key = 0);
  /// Collective. A communicator of the same ranks with its own connections, which another thread may use. It is
  /// independent of this one. `interface`: as Options::interface; empty: that of this one. Throws as connect() does.
  std::unique_ptr<Communicator> duplicate(const std::string& interface = {});
  /// Collective. Returns zeroed memory, aligned to a page, that the other ranks of the node have also mapped. `bytes`
  /// may differ between ranks. The memory must be freed before the communicator. Throws NoMemory on all ranks if one
  /// has none; the communicator can be used all the same.
  tensor::Buffer allocate(std::size_t bytes);
  /// Whether all ranks have one node's memory, and may use it (Options::shared_memory_ranks).
  bool shares_memory() const noexcept;
  /// Collective, where shares_memory(). The same, but one memory for all ranks. Who writes where, and when others may
  /// read it, is up to the callers.
  tensor::Buffer allocate_common(std::size_t bytes);

  /// Collective. Afterwards operands of collectives may also be in the memory of this device; each rank has one device.
  /// This includes communicators that are split from this one. In one operation, the operands of all ranks are in
  /// device memory, or those of none. The address decides, even for an operand without elements. Operands are aligned
  /// to their elements.
  ///
  /// UCX transfers device memory directly if it supports that on all ranks. Otherwise the data are staged in pinned
  /// host memory in pieces. Sums are computed on the device with the same bits as on the host (except in a NaN).
  ///
  /// An operation begins after the work that the caller has queued on the device before, and is complete when wait()
  /// returns. nullptr: this rank has no device. No operation may be under way. Throws ConfigError if only some ranks
  /// have a device.
  void use(std::shared_ptr<Accelerator> accelerator);

  /// Uses host memory. Both sides must give the same size. `tag` is chosen by the caller, 0 .. 2^28-1; messages with
  /// equal tags arrive in order.
  Request send(std::span<const std::byte> bytes, Rank to, std::uint32_t tag, const CallOptions& options = {});
  Request receive(std::span<std::byte> bytes, Rank from, std::uint32_t tag, const CallOptions& options = {});
  /// Receives the next message with this tag for which no other receive was posted, whichever rank has sent it.
  /// `found` is called with that rank before the request is done.
  Request receive_any(std::span<std::byte> bytes, std::uint32_t tag, std::function<void(Rank)> found,
                      const CallOptions& options = {});

  /// Collective. Exposes memory for one-sided puts and gets of the other ranks.
  RemoteMemory expose(std::span<std::byte> memory);
  /// Sets the handler of messages with this number; an empty one removes it. The handler runs in waits and tests of
  /// this rank. It may start operations but must not wait. Messages without a handler are dropped, so a barrier should
  /// follow this call before others send. Only for the communicator of the whole world.
  void on_message(std::uint16_t number, MessageHandler handler);
  /// Sends a message to the handler at `to`. `header` has at most 1024 bytes. When the request is done, `payload` may
  /// be reused.
  Request send_message(Rank to, std::uint16_t number, std::string_view header, std::span<const std::byte> payload,
                       const CallOptions& options = {});

  /// For a thread that serves messages: sleeps until something has happened that may be of use to it, wake() was
  /// called, or so much time has passed. Handlers run in it, and what is under way advances. Throws PeerLost if any
  /// peer is lost, and what a handler throws. Nobody counts as late.
  void await_messages(Clock::duration most);
  /// From now on the loss of these ranks ends the generation only if they report another reason than a lost peer.
  /// Without ranks all losses count again, also those that were tolerated. A request with a lost rank is not done: keep
  /// it, as cancelling it may end all. Collectives need all ranks. Only for the communicator of the whole world.
  void tolerate(const std::vector<Rank>& ranks);
  /// The tolerated ranks that are lost, ascending.
  std::vector<Rank> lost() const;
  /// Ends await_messages(), or the next one. The only function that a thread may call while another one uses the
  /// communicator.
  void wake() const noexcept;
  /// Options::timeout_seconds.
  Clock::duration timeout() const noexcept;

  Request barrier(const CallOptions& options = {});
  /// Sends root's values to all ranks.
  Request broadcast(Vector values, Rank root, const CallOptions& options = {});
  /// The result is needed only on the root. It has the length of `values` and may be the same memory.
  Request reduce(ConstVector values, Vector result, Rank root, const CallOptions& options = {});
  Request all_reduce(ConstVector values, Vector result, const CallOptions& options = {});
  Request all_reduce(Vector values, const CallOptions& options = {}) { return all_reduce(values, values, options); }
  /// Reduces over leaves instead of ranks. partials[k] is this rank's sum over node k of cover(leaves.ranges[rank()],
  /// leaves.count). All partials have the length of the result, which may be partials[0]. The result has the same bits
  /// for every assignment of leaves to ranks. The memory of the other partials is not changed.
  Request all_reduce(const Leaves& leaves, std::span<const ConstVector> partials, Vector result,
                     const CallOptions& options = {});
  /// Rank r gets the sum over its slice of counts[r] elements (default: equal slices). In place: the result is the own
  /// slice of values.
  Request reduce_scatter(ConstVector values, Vector result, std::span<const std::size_t> counts = {},
                         const CallOptions& options = {});
  /// Reduces over leaves, as all_reduce(): with the bits of its result. All partials have as many elements as all
  /// slices together. In place: the result is the own slice of partials[0], the rest of which is not changed.
  Request reduce_scatter(const Leaves& leaves, std::span<const ConstVector> partials, Vector result,
                         std::span<const std::size_t> counts, const CallOptions& options = {});
  /// Rank r contributes counts[r] elements (default: equal counts). In place: values are the own slice of the result.
  Request all_gather(ConstVector values, Vector result, std::span<const std::size_t> counts = {},
                     const CallOptions& options = {});
  /// Sends send_counts[r] elements to rank r and receives receive_counts[r] from it. Either all ranks or none give
  /// counts. Without counts, all ranks send equal numbers to all, for which there are faster algorithms. The operation
  /// may be in place if the rank's send and receive counts are equal. Throws ConfigError for other overlaps.
  Request all_to_all(ConstVector values, Vector result, std::span<const std::size_t> send_counts = {},
                     std::span<const std::size_t> receive_counts = {}, const CallOptions& options = {});
  Request gather(ConstVector values, Vector result, Rank root, std::span<const std::size_t> counts = {},
                 const CallOptions& options = {});
  Request scatter(ConstVector values, Vector result, Rank root, std::span<const std::size_t> counts = {},
                  const CallOptions& options = {});
  /// Waits that a stop can end poll like others while the flag is set: the thread that computes waits, too. nullptr:
  /// they always sleep. The flag must outlive these waits.
  void poll_while(const std::atomic<bool>* flag) noexcept;

  /// Blocking. Returns all ranks' strings in rank order. Their lengths may differ.
  std::vector<std::string> all_gather_strings(const std::string& mine, std::optional<Clock::duration> timeout = {});
  /// Gathers where the caller waits in its own way: `wait` returns when the request is done.
  std::vector<std::string> all_gather_strings(const std::string& mine, const CallOptions& options,
                                              const std::function<void(Request&)>& wait);

  /// Sends the reason why this rank ends to all reachable peers. Their pending operations fail with PeerLost, with
  /// `reason` and `code`. Never throws, and returns within a second.
  void abort(const std::string& reason, ExitCode code = ExitCode::peer_lost) noexcept;
  /// Collective. Ends the communicator in order. The destructor alone neither throws nor communicates.
  void close();

 private:
  friend class RemoteMemory;
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Connects, runs `body` and closes. If `body` throws, abort() sends the reason to the peers, and the exception is
/// rethrown. Example: run_connected(*world::make_world(), {}, [](Communicator& comm) { comm.barrier().wait(); });
void run_connected(world::World& world, const Options& options, const std::function<void(Communicator&)>& body);

}  // namespace distdl::comm
