// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/parallel/server/answer_times.hpp>
#include <distdl/parallel/server/packet.hpp>
#include <distdl/parallel/server/range_bytes.hpp>
#include <distdl/parallel/server/range_code.hpp>
#include <distdl/parallel/server/scheduler.hpp>
#include <distdl/parallel/server/server.hpp>
#include <distdl/parallel/server/step_parts.hpp>
#include <distdl/parallel/server/version_memory.hpp>
#include <distdl/parallel/server/worker.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::parallel::server {

/// A rank's roles in the parameter server: runs their state machines in a thread with connections of its own, so that
/// servers answer while the caller's thread computes gradients.
///
/// Training goes in rounds of some steps. Between two rounds no message that counts is on its way, and nothing is
/// leased: the parameters are the whole state. A lost rank ends the round on all ranks with comm::PeerLost. Where
/// Setup::keep_own is given and the lost rank is not the first one and has no server, the others first do the steps
/// that have begun, without it.
class Runtime {
 public:
  struct Setup {
    Cluster cluster;
    std::vector<optim::Elements> ranges;  ///< ranges of the servers, in their order; together they have all parameters
    std::size_t parameters = 0;           ///< floats
    bool keeps_parameters = false;        ///< gradients come with their parameters, if still there
    int partner_distance = 1;             ///< see first_placement(); with Rules::has_partners
    Pulls pulls = Pulls::automatic;       ///< the same on all ranks
    std::function<void(const Keep&)> keep = {};  ///< called in the thread of the roles, before any rank gets the result
    /// Called at the end of a round, in the thread of the roles, before the round ends on any rank. Makes this rank's
    /// server state of so many steps outlive the process. Only where gradients are applied at once; on all ranks or
    /// none.
    std::function<void(std::int64_t steps)> keep_own = {};
    std::string interface = {};  ///< see comm::Communicator::duplicate()
  };
  /// Applies a gradient to a range of an arena of begin(), which becomes the version `apply.version`. Called in the
  /// thread of the roles.
  using Update = std::function<void(const Apply& apply, const RangeGradient& gradient)>;

  /// Collective.
  Runtime(comm::Communicator& communicator, Setup setup, Update update);
  /// Collective, unless an exception or a round is under way.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Call between two rounds, with the same on all ranks. Gives the servers these ranges, which are sent as they are.
  void set_ranges(std::vector<optim::Elements> ranges);
  /// Call between two rounds, with the same on all ranks. Sets how ranges are sent from now on; at first as they are.
  void use(RangeCodes codes);

  /// Begins a round on this rank; the others follow. `rules` has the steps of the round, and as many microbatches as
  /// `parts`; all numbers of steps and parts count from its beginning. Until end() the range of this rank in `arena`
  /// belongs to the server. With partners, `partner_arena` has the same bytes of the range of which this rank is the
  /// partner, at the same place.
  void begin(const Rules& rules, StepParts parts, float* arena, float* partner_arena = nullptr);

  struct Work {
    std::int64_t step = 0;              ///< step of the round, from 0
    comm::TreeNode part;                ///< microbatches of that step
    const float* parameters = nullptr;  ///< all parameters
    float* gradients = nullptr;         ///< to be written: gradients of all parameters, then the tail
    std::byte* code = nullptr;          ///< to be written where codes are in use: codes of all ranges, in their order
  };
  /// Returns the next part of a step for this rank's worker. Empty: the round is over. Calls idle() now and then while
  /// it waits. Throws comm::PeerLost, and CommError if a worker waits for longer than comm.timeout_seconds for each
  /// microbatch of the largest part.
  std::optional<Work> next(const std::function<void()>& idle);
  /// Call when the gradients of the last Work are there.
  void computed();
  /// Ends the round with the steps that have begun.
  void end_soon();
  /// Call after next() has returned nothing. Returns the steps of the round. Throws as next().
  std::int64_t end();
  /// Sends the other ranks the reason why this one leaves the round.
  void abort(const std::string& reason, ExitCode code) noexcept;

  /// For each number of updates that the parameters of a gradient lacked, how many updates of this rank's range had
  /// that many, in the last round.
  const std::vector<std::int64_t>& staleness() const { return staleness_; }
  /// Seconds, per range, that this rank's worker waited for its server in the last round.
  const std::vector<double>& answer_seconds() const { return answers_.seconds(); }

 private:
  /// A message to this rank itself, with its values.
  struct Local {
    Packet packet;
    std::shared_ptr<const void> owner;
    std::span<const std::byte> bytes;
  };
  struct Outgoing {
    Rank to;
    bool ends_round = false;  ///< it is the last one of the round
    comm::Request request;
    std::shared_ptr<const void> owner;  ///< owner of the payload
  };
  /// A read of the version that an answer names.
  struct Read {
    Packet answer;
    std::vector<std::byte> code;  ///< empty: parameters are read where they belong
    comm::Request request = {};
    std::vector<Local> later = {};  ///< answers of the same range that came meanwhile
  };

  void expose_versions();
  bool is_read_here(Node worker, std::size_t bytes) const;
  bool is_node(Node node) const;
  void serve(const std::stop_token& stop);
  void serve_round(const std::stop_token& stop);
  void deliver();
  void drop_sent();
  void take_commands();
  void deliver_local();
  void tick();
  void receive(const Packet& packet, std::span<const std::byte> bytes);
  /// True if the worker can get the answer: its version is read, and those of earlier answers of its range.
  bool is_read(const Packet& packet, const Pulled& pulled, std::span<const std::byte> bytes);
  void end_reads();
  std::span<float> room_for(int range) const;
  void take_values(const Pulled& pulled, double idle_seconds, std::span<const std::byte> bytes);
  void take_gradient(int range, Version version, const Tail& tail, std::span<const std::byte> bytes);
  void store(const Store& store);
  void run_scheduler(Node from, const Message& message);
  void perform(Node self, const Actions& actions);
  void act(Node self, const Action& action);
  void send(Node from, Node to, const Message& message);
  void begin_work(const Compute& compute);
  /// Returns the values that go with a message, and their owner.
  std::pair<std::shared_ptr<const void>, std::span<const std::byte>> values_for(Node to, const Message& message);
  std::string awaited() const;

  // defined in runtime_end.cpp
  std::vector<Rank> ranks_to_spare() const;
  void look_for_losses();
  void go_on_without(Rank rank);
  void show_end();
  void end_round(const std::stop_token& stop);
  std::optional<Rank> late_rank() const;
  void tell_when_all_ended();
  bool is_over() const;
  void name_the_late(const std::stop_token& stop);

  Setup setup_;
  Update update_;
  Rank rank_;
  std::unique_ptr<comm::Communicator> communicator_;  ///< used by the thread of the roles
  std::list<Outgoing> outgoing_;
  RangeCodes codes_;
  std::vector<std::size_t> places_;  ///< begins of ranges in `code_`, and its end; none: gradients are sent as they are
  VersionMemory versions_;
  std::optional<comm::RemoteMemory> exposed_;  ///< `versions_` of all ranks; none: all versions come with messages
  tensor::Buffer pulled_;                      ///< the worker's parameters
  std::shared_ptr<tensor::Buffer> gradients_, code_;

  // State of a round, used by the thread.
  std::int64_t round_ = 0;
  Rules rules_;
  StepParts parts_;
  std::optional<Scheduler> scheduler_;
  std::optional<Server> server_;
  std::optional<Worker> worker_;
  std::map<int, RangeBytes> bytes_;  ///< the ranges on this rank
  std::map<Node, Version> sent_;     ///< the version that each worker has of this rank's range
  RangeGradient arriving_;           ///< with the Push or Replicate that is being received
  std::span<const std::byte> arriving_code_;
  std::vector<float> spare_;  ///< memory of an applied gradient, kept because its pages are there
  /// The last gradient, for the partner: it decodes the same bits.
  struct {
    Microbatch microbatch;
    Tail tail{};
    std::shared_ptr<const std::vector<std::byte>> code;
  } stored_;
  std::deque<Local> local_;
  std::map<int, Read> reads_;             ///< reads under way, by range
  std::optional<Packet> deferred_;        ///< a lease that came while the worker computes
  std::set<int> unacknowledged_;          ///< ranges to which a gradient is on its way
  LeaseId lease_;                         ///< lease of the microbatch that is computed
  bool is_busy_ = false;                  ///< the caller's thread uses pulled_ and gradients_
  std::optional<std::int64_t> finished_;  ///< the round has so many steps, and all are done
  std::set<Rank> lost_;                   ///< ranks without which the round goes on
  std::set<Rank> ended_;                  ///< on rank 0: ranks that have ended the round
  std::optional<ShownThread> shown_;      ///< shows the thread of the roles, while it ends a round without a lost rank
  bool have_all_ended_ = false;
  Clock::time_point next_tick_;
  std::vector<std::int64_t> staleness_;
  AnswerTimes answers_{0};  ///< how long the worker waited for its servers
  IdleTimes idle_;          ///< idle times of the server

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::optional<Work> work_;
  std::set<int> pulling_;  ///< ranges from which an answer is awaited
  bool is_computed_ = false, ends_soon_ = false, is_ending_ = false, is_over_ = false;
  std::int64_t steps_ = 0;
  std::exception_ptr error_;

  std::jthread thread_;
};

}  // namespace distdl::parallel::server
