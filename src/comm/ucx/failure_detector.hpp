// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
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

/// The loss board of a node: the NodeMemory functions of the same names. It works even if a rank froze while it held a
/// place in the queue of UCX's shared memory, which blocks all messages behind it.
struct LossBoard {
  std::function<void(const NodeLoss&)> post_loss;
  std::function<std::optional<NodeLoss>()> posted_loss;
  std::function<void(std::optional<Rank>, const Operation&)> show_wait;
  std::function<std::optional<NodeWait>(Rank)> shown_wait;
};

/// A connection may fail because the peer gives up after a loss that this rank does not know yet. Certain evidence
/// therefore takes precedence, and gets some time to arrive.
enum class Evidence { certain, broken_connection };
struct RankLoss {
  Rank rank;
  Evidence evidence;
  std::string why;
  ExitCode code;  ///< exit code of the rank, as far as it is known
  Clock::time_point since = Clock::now();
};

/// Detects lost ranks, and finds the rank that causes a wait to take too long. It uses failed connections, ended
/// processes, control messages of other ranks and the node's loss board. It sends its findings to the other ranks.
class FailureDetector {
 public:
  /// All arguments must outlive this object.
  FailureDetector(Connections& connections, Activities& activities, Idle& idle);
  /// Call it after Connections::connect(). It then reads control messages.
  void listen();
  void stop_listening() noexcept { connections_.cancel(control_messages_.batch); }
  void use(LossBoard board) { board_ = std::move(board); }
  /// See Fabric.
  void expect_barrier(std::optional<Deadline> deadline) { barrier_deadline_ = deadline; }
  /// See Communicator.
  void tolerate(std::set<Rank> ranks) { tolerated_ = std::move(ranks); }
  bool tolerates(Rank rank) const { return tolerated_.contains(rank); }

  /// Watches the process of a rank if it is on this node.
  void watch(Rank rank);
  RankLoss mark_lost(Rank rank, Evidence evidence, const std::string& why, ExitCode code = ExitCode::peer_lost);
  bool is_lost(Rank rank) const;
  /// Ascending: the cause and all other ranks with certain evidence. Ranks with only a failed connection may have given
  /// up because of the cause.
  std::vector<Rank> lost_ranks(Rank cause) const;
  /// The loss that ends this generation, if there is one.
  std::optional<RankLoss> find_loss() const;
  /// Ascending: the tolerated ranks that are lost.
  std::vector<Rank> tolerated_losses() const;
  /// Marks those of `ranks` whose processes have ended.
  void mark_processes_lost(std::span<const Rank> ranks);

  /// Reads control messages and finds processes that have ended.
  void poll();
  /// Called every millisecond of a wait for losses that no message reports.
  void check_liveness();
  /// Finds the rank that is to blame when an activity, which began `waited` ago, takes longer than `timeout`. The
  /// awaited rank may itself wait for another one; the chain is followed to a rank that does not answer. Returns
  /// nothing if the activity ends after all. `progress` lets everything advance and pauses.
  std::optional<RankLoss> find_culprit(const Activity& activity, Clock::duration waited, Clock::duration timeout,
                                       const std::function<void()>& progress);

  /// Finds the cause of a loss and reports it to all ranks.
  RankLoss settle(const RankLoss& loss);
  /// Reports to the other ranks that `subject` is lost. Each rank forwards a loss once to all peers with a finished
  /// handshake, which do the same.
  void tell_all(Rank subject, const std::string& why, ExitCode code) noexcept;
  /// Continues to read after tell_all() until each peer has left or has reported its own reason, after which it sends
  /// nothing; at most for `limit`. A connection that is closed with unread data is reset, and a peer that then sends
  /// may lose the reason that it has not read yet.
  void await_leaving(Milliseconds limit) noexcept;
  int refused_messages() const { return refused_messages_; }

 private:
  using Peer = Connections::Peer;
  struct Observed {
    bool watched = false;                  ///< its process is watched
    std::optional<ControlMessage> answer;  ///< answer to the last question
    std::uint64_t looks = 0;               ///< value on the board at the time of the question
    bool has_told = false;                 ///< it has sent the reason why it gives up
  };

  bool matters(const RankLoss& loss) const;
  bool is_tolerated(const RankLoss& loss) const;
  void close_tolerated() noexcept;
  bool is_certain(Rank rank) const;  ///< there is more evidence than a failed connection
  void mark_ended();
  void read_board();
  void mark_process_lost(Rank rank);
  std::string end_of(Rank rank) const;
  bool is_known_dead(const Peer& peer) const;
  RankLoss cause_of(const RankLoss& loss);
  std::vector<Rank> ask(const std::vector<Rank>& suspects, const Activity& activity, const Deadline& deadline,
                        const std::function<void()>& progress);
  std::string silence_of(const std::vector<Rank>& silent) const;

  // defined in failure_messages.cpp
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
  std::vector<Observed> observed_;  ///< observation of each rank
  std::vector<RankLoss> losses_;    ///< in the order of detection
  std::vector<Rank> ended_;         ///< ended processes of ranks without an endpoint
  std::optional<Deadline> barrier_deadline_;
  std::set<Rank> tolerated_;
  bool told_ = false;  ///< this rank has sent the others the reason why it gives up
  int refused_messages_ = 0;
  Connections::Inbox control_messages_;
};

}  // namespace distdl::comm
