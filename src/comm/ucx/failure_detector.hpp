// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/comm/shm/node_memory.hpp>
#include <distdl/comm/ucx/activities.hpp>
#include <distdl/comm/ucx/connections.hpp>
#include <distdl/comm/ucx/control_message.hpp>
#include <distdl/comm/ucx/idle.hpp>

namespace distdl::comm {

/// The loss board of a node: NodeMemory's functions of these names. It works even if a rank was frozen while it held a
/// place in the queue of UCX's shared memory, which blocks all messages behind it.
struct LossBoard {
  std::function<void(const NodeLoss&)> post_loss;
  std::function<std::optional<NodeLoss>()> posted_loss;
  std::function<void(std::optional<Rank>, const Operation&)> show_wait;
  std::function<std::optional<NodeWait>(Rank)> shown_wait;
};

/// A connection may break because the peer gives up after a loss that is not known here yet. Certain evidence
/// therefore takes precedence, and gets some time to arrive.
enum class Evidence { certain, broken_connection };
struct RankLoss {
  Rank rank;
  Evidence evidence;
  std::string why;
  ExitCode code;  ///< that the rank ends with, as far as it could tell
  Clock::time_point since = Clock::now();
};

/// Which ranks are lost, and who is to blame when a wait takes too long: by broken connections, ends of processes,
/// control messages of other ranks and the node's loss board. Tells the others what it knows.
class FailureDetector {
 public:
  /// All must outlive this object.
  FailureDetector(Connections& connections, Activities& activities, Idle& idle);
  /// After Connections::connect(): reads control messages from now on.
  void listen();
  void stop_listening() noexcept { connections_.cancel(control_messages_.batch); }
  void use(LossBoard board) { board_ = std::move(board); }
  /// See Fabric.
  void expect_barrier(std::optional<Deadline> deadline) { barrier_deadline_ = deadline; }

  /// Watches the process of a rank, if it is one of this node.
  void watch(Rank rank);
  RankLoss mark_lost(Rank rank, Evidence evidence, const std::string& why, ExitCode code = ExitCode::peer_lost);
  bool is_lost(Rank rank) const;
  /// Ascending: the cause and the others of which there is certain evidence. Those whose connections broke may only
  /// have given up because of the cause.
  std::vector<Rank> lost_ranks(Rank cause) const;
  /// The loss that ends this generation, if there is one.
  std::optional<RankLoss> find_loss() const;
  /// Marks those of `ranks` whose processes have ended.
  void mark_processes_lost(std::span<const Rank> ranks);

  /// Reads control messages and learns which processes have ended.
  void poll();
  /// Every millisecond of a wait: what no message tells.
  void check_liveness();
  /// The wait for an activity, which began `waited` ago, takes longer than `timeout`: the one to blame. The rank that
  /// it waits for may itself wait for another; the chain is followed to the one that does not answer. Nothing if the
  /// activity ends after all. `progress` lets everything advance and pauses.
  std::optional<RankLoss> find_culprit(const Activity& activity, Clock::duration waited, Clock::duration timeout,
                                       const std::function<void()>& progress);

  /// Finds the cause behind a loss and tells it to all.
  RankLoss settle(const RankLoss& loss);
  /// Tells the others that `subject` is lost. Each rank forwards a loss once to all peers with a finished handshake,
  /// which do the same.
  void tell_all(Rank subject, const std::string& why, ExitCode code) noexcept;
  int refused_messages() const { return refused_messages_; }

 private:
  using Peer = Connections::Peer;
  struct Observed {
    bool watched = false;                  ///< its process
    std::optional<ControlMessage> answer;  ///< to the last question
    std::uint64_t looks = 0;               ///< on the board when it was asked
  };

  bool matters(const RankLoss& loss) const;
  bool is_certain(Rank rank) const;  ///< not only by a broken connection
  void mark_ended();
  void mark_process_lost(Rank rank);
  std::string end_of(Rank rank) const;
  bool is_known_dead(const Peer& peer) const;
  RankLoss cause_of(const RankLoss& loss);
  std::vector<Rank> ask(const std::vector<Rank>& suspects, const Activity& activity, const Deadline& deadline,
                        const std::function<void()>& progress);
  std::string silence_of(const std::vector<Rank>& silent) const;

  // failure_messages.cpp
  void drain_control_messages();
  void read_control_messages();
  std::optional<ControlMessage> open_control_message(std::string_view sealed) const;
  void handle(const ControlMessage& control_message);
  void answer(Rank asking);
  void read_answer_on_board(Rank rank);
  void shake_hands_with_partners();

  Connections& connections_;
  Activities& activities_;
  Idle& idle_;
  LossBoard board_;
  std::vector<Observed> observed_;  ///< of each rank
  std::vector<RankLoss> losses_;    ///< in the order in which they came to light
  std::vector<Rank> ended_;         ///< processes that ended, of ranks without an endpoint
  std::optional<Deadline> barrier_deadline_;
  bool told_ = false;  ///< the others know why this rank gives up
  int refused_messages_ = 0;
  Connections::Inbox control_messages_;
};

}  // namespace distdl::comm
