// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include <fmt/ranges.h>
#include <poll.h>

#include <distdl/agent/agent.hpp>
#include <distdl/agent/cpu_binding.hpp>
#include <distdl/agent/inspector.hpp>
#include <distdl/agent/meeting/datagrams.hpp>
#include <distdl/agent/meeting/known_agents.hpp>
#include <distdl/agent/meeting/ledger_thread.hpp>
#include <distdl/agent/meeting/meeting.hpp>
#include <distdl/agent/membership/membership.hpp>
#include <distdl/agent/messages.hpp>
#include <distdl/agent/ranks/node_ranks.hpp>
#include <distdl/base/child_processes.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/restart.hpp>

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;

constexpr Milliseconds kTick{50};  ///< between two looks at the ranks and at the other agents

Milliseconds milliseconds(double seconds) {
  return std::chrono::ceil<Milliseconds>(std::chrono::duration<double>(seconds));
}

Rules rules_of(const AgentSpec& spec, std::int64_t nodes) {
  Rules rules;
  rules.wanted = wanted_nodes(spec.options, nodes);
  rules.own = static_cast<std::size_t>(nodes);
  rules.own_wanted = static_cast<std::size_t>(nodes - spec.options.spares);
  rules.min_nodes = static_cast<std::size_t>(std::min<std::int64_t>(spec.min_nodes, nodes - spec.options.spares));
  rules.heartbeat = 250ms;
  rules.dead = milliseconds(spec.options.node_lost_seconds);
  rules.suspect = rules.dead / 2;
  if (spec.options.regrow_seconds > 0) rules.regrow_after = milliseconds(spec.options.regrow_seconds);
  return rules;
}

BeatLimits limits_of(const Options& options) {
  return {.between = milliseconds(options.rank_frozen_seconds), .stall = stall_limits_of(options)};
}

std::string name_of(Generation generation) {
  return std::to_string(generation.value);
}

/// How many ranks the member at `place` runs, if `nodes` run `ranks`: as many as the others, or one more.
int ranks_at(std::size_t place, int ranks, std::size_t nodes) {
  const auto all = static_cast<std::size_t>(ranks);
  return static_cast<int>(all / nodes + (place % nodes < all % nodes ? 1 : 0));
}

class Agent {
 public:
  Agent(const AgentSpec& spec, Meeting meeting, SupervisorSignals& signals);
  int run();

 private:
  void wait();
  void read_signals();
  void read_datagrams();
  void read_ledger();
  void read_decision(const LedgerThread::Answer& answer);
  void look_at_ranks(Clock::time_point now);
  void look_at_others();

  void perform(const StartRanks& action);
  void perform(const StopRanks& action);
  void perform(const EndRanks& action);
  void perform(const Propose& action);
  void perform(const Read& action);
  void perform(const Report& action);
  void perform(const Send& action);
  void perform(const Finish& action);

  std::vector<Process> processes_of(const Decision& decision, Rank& first) const;
  void announce(const Decision& decision) const;
  void tell_of_break(const Decision& next);
  void tell_of_begin(const Decision& decision);
  bool is_lowest_heard(std::size_t from) const;
  InspectedNode inspected();

  const AgentSpec& spec_;
  SupervisorSignals& signals_;
  NodeId self_;
  bool joins_;  ///< this node is of another job than the launch
  Rules rules_;
  Datagrams datagrams_;
  Ledger ledger_;
  LedgerThread ledger_thread_;
  KnownAgents agents_;
  bool has_heard_ = false;  ///< true: a node of the launch itself has answered
  Membership membership_;
  std::optional<NodeRanks> ranks_;
  std::optional<Deadline> kill_at_, last_kill_at_;
  bool killed_ = false;
  int stop_signal_ = SIGUSR1;  ///< signal that asks ranks to stop: the last one that this agent received
  Clock::time_point looked_at_ = Clock::now();
  Generation faulty_;                        ///< the last generation that this node knows a fault of
  double found_ = 0;                         ///< when it did, seconds since 1970
  bool first_lost_ = false;                  ///< the first node was not heard for some time
  bool has_asked_requeue_ = false;           ///< as Slurm may have lost the batch script there
  std::vector<Clock::time_point> heard_at_;  ///< time at which each node was heard last
  Inspector inspector_;
  std::optional<int> end_;
};

Agent::Agent(const AgentSpec& spec, Meeting meeting, SupervisorSignals& signals)
    : spec_(spec),
      signals_(signals),
      self_(meeting.self),
      joins_(meeting.newest.has_value()),
      rules_(rules_of(spec, static_cast<std::int64_t>(meeting.of_launch))),
      datagrams_(std::move(meeting.datagrams)),
      ledger_(launch_folder(spec.run_folder, spec.launch_id)),
      ledger_thread_(ledger_),
      agents_(std::move(meeting.agents), datagrams_, ledger_thread_),
      membership_(self_, agents_.hosts(), rules_),
      heard_at_(agents_.size(), Clock::now()),
      inspector_(spec.run_folder) {
  if (meeting.newest) membership_.decided(*meeting.newest);
  if (self_ == NodeId(0)) agents_.publish(spec.record, meeting.secret);
  spec.connected();
  log(Severity::debug, "agent of node {} of {}, at {}", self_, agents_.size(), datagrams_.address());
}

int Agent::run() {
  while (!end_) {
    wait();
    read_signals();
    read_datagrams();
    read_ledger();
    membership_.drain(spec_.is_at_risk());
    const auto now = Clock::now();
    look_at_ranks(now);
    const auto actions = membership_.advance(now);
    agents_.look_for_joined(membership_.status().hears.size(), now);
    heard_at_.resize(agents_.size(), now);
    look_at_others();
    for (const Action& action : actions) std::visit([this](const auto& one) { perform(one); }, action);
  }
  return *end_;
}

void Agent::wait() {
  std::vector<pollfd> polled{{signals_.descriptor(), POLLIN, 0},
                             {datagrams_.descriptor(), POLLIN, 0},
                             {ledger_thread_.descriptor(), POLLIN, 0}};
  const bool failed = ::poll(polled.data(), polled.size(), static_cast<int>(kTick.count())) < 0 && errno != EINTR;
  require<InternalError>(!failed, "cannot wait for signals and heartbeats: {}", errno_text(errno));
}

void Agent::read_signals() {
  while (const auto number = signals_.poll()) {
    if (*number == SIGCHLD) continue;
    if (joins_) {
      log(Severity::info, "signal SIG{}: this node leaves the run", sigabbrev_np(*number));
      membership_.leave();
      continue;
    }
    log(Severity::info, "signal SIG{}: asking all ranks to save and stop", sigabbrev_np(*number));
    stop_signal_ = *number;
    membership_.stop();
    if (!first_lost_ || has_asked_requeue_ || !is_lowest_heard(1)) continue;
    has_asked_requeue_ = true;  // signals come again and again, and Slurm may answer slowly
    ledger_thread_.call(spec_.after_first_came_back);
  }
}

void Agent::look_at_others() {
  const Status& own = membership_.status();
  const auto end_of_own = own.hears.begin() + static_cast<std::ptrdiff_t>(rules_.own);
  has_heard_ = has_heard_ || std::find(own.hears.begin(), end_of_own, true) != end_of_own;
  if (own.decision.generation == Generation(0)) return;
  first_lost_ = first_lost_ || !own.hears.front();
  if (own.fault.empty() || faulty_ == own.decision.generation) return;
  faulty_ = own.decision.generation;
  found_ = seconds_since_1970();
}

void Agent::read_datagrams() {
  while (const auto bytes = datagrams_.receive())
    if (const auto status = status_from(*bytes)) membership_.receive(*status);
}

void Agent::read_ledger() {
  while (const auto answer = ledger_thread_.poll()) {
    if (!answer->error.empty()) log(Severity::warning, "{}", answer->error);
    if (answer->name == kLaunchRecord) continue;
    if (joins_ && answer->is_gone)
      membership_.give_up(has_heard_ ? kOk : static_cast<int>(ExitCode::scheduler), "the launch has ended meanwhile");
    if (const auto node = node_of_record(answer->name)) {
      if (const auto host = agents_.meet(*node, answer->text, Clock::now()))
        membership_.name(NodeId(static_cast<std::uint32_t>(*node)), *host);
      continue;
    }
    read_decision(*answer);
  }
}

void Agent::read_decision(const LedgerThread::Answer& answer) {
  const Generation generation(static_cast<std::uint32_t>(std::stoul(answer.name)));
  if (!answer.text) return membership_.unanswered(generation);
  const auto decision = decision_from(*answer.text);
  if (decision && is_valid(*decision, kMostNodes)) return membership_.decided(*decision);
  // A record never changes: no generation can follow.
  const auto problem = fmt::format("\"{}\" is damaged", ledger_.file(answer.name).string());
  log(Severity::error, "{}", problem);
  membership_.give_up(kPeerLost, problem);
}

void Agent::look_at_ranks(Clock::time_point now) {
  const auto late = std::max<Clock::duration>(now - std::exchange(looked_at_, now) - 2 * kTick, {});
  if (!ranks_) return;
  ranks_->check(now, late);
  if (kill_at_ && ranks_->end_a_round())  // after which they have their time to end
    kill_at_ = Deadline(std::max(kill_at_->when(), std::min(now + spec_.grace, last_kill_at_->when())));
  if (kill_at_ && kill_at_->expired()) {
    killed_ = true;
    ranks_->kill();
  }
  const auto running = ranks_->reap();
  if (running == 0) ranks_->check(now, {});  // their last steps
  membership_.progress(ranks_->step().value);
  const std::string cause = ranks_->cause();
  if (running > 0) {
    if (ranks_->failed()) membership_.ranks_failed(ranks_->code(), cause, ranks_->origin());
    return;
  }
  end_orphans();  // what the programs of ranks have left behind
  membership_.ranks_ended(cause.empty() && killed_ ? kPeerLost : ranks_->code(), cause, ranks_->origin());
  ranks_.reset();
}

std::vector<Process> Agent::processes_of(const Decision& decision, Rank& first) const {
  const auto place = static_cast<std::size_t>(std::ranges::find(decision.members, self_) - decision.members.begin());
  int size = 0, own = 0;
  for (std::size_t p = 0; p < decision.members.size(); ++p) {
    const int count = ranks_at(p, spec_.ranks, rules_.own_wanted);
    if (p == place) {
      first = Rank(size);
      own = count;
    }
    size += count;
  }
  auto command = spec_.worker;
  if (!spec_.has_trained()) command.insert(command.end(), spec_.at_first.begin(), spec_.at_first.end());
  const auto processors = processors_of_ranks(own);
  std::vector<Process> processes;
  processes.reserve(static_cast<std::size_t>(own));
  for (int r = 0; r < own; ++r) {
    processes.push_back({command,
                         {{"DISTDL_RANK", std::to_string(first.value + r)},
                          {"DISTDL_WORLD_SIZE", std::to_string(size)},
                          {"DISTDL_RENDEZVOUS", (launch_folder(spec_.run_folder, spec_.launch_id) / "ranks").string()},
                          {"DISTDL_LAUNCH_ID", "generation-" + name_of(decision.generation)},
                          {"DISTDL_LAUNCH", spec_.launch_id},
                          {"DISTDL_GENERATION", name_of(decision.generation)},
                          {"DISTDL_PROCESSORS", processors[static_cast<std::size_t>(r)]}}});
    if (joins_) processes.back().variables.insert(spec_.record.variables.begin(), spec_.record.variables.end());
  }
  return processes;
}

/// `next`: the decision that follows.
void Agent::tell_of_break(const Decision& next) {
  BrokenOff event{.generation = Generation(next.generation.value - 1), .cause = next.cause};
  event.kind = next.origin.kind;
  if (next.origin.node) event.host = agents_.host(*next.origin.node);
  event.rank = next.origin.rank;
  event.found = faulty_ == event.generation ? found_ : seconds_since_1970();
  ledger_thread_.call([&tell = spec_.events.broke_off, event] { tell(event); });
}

void Agent::tell_of_begin(const Decision& decision) {
  GenerationBegan event{decision.generation, decision.cause, 0, agents_.hosts(decision.members)};
  for (std::size_t place = 0; place < event.hosts.size(); ++place)
    event.ranks += ranks_at(place, spec_.ranks, rules_.own_wanted);
  ledger_thread_.call([&tell = spec_.events.began, event] { tell(event); });
}

/// One of the members does, of each generation but the first.
void Agent::announce(const Decision& decision) const {
  const bool is_loss = decision.origin.kind != CauseKind::unknown;
  log(Severity::warning, "{}{}; generation {} begins on {}", decision.cause,
      is_loss ? fmt::format(" ({})", name_of(decision.origin.kind)) : "", decision.generation,
      fmt::join(agents_.hosts(decision.members), ", "));
}

void Agent::perform(const StartRanks& action) {
  const Decision& decision = action.decision;
  if (decision.generation > Generation(1) && decision.members.front() == self_) announce(decision);
  killed_ = false;
  kill_at_.reset();
  try {
    Rank first;
    auto processes = processes_of(decision, first);
    ranks_.emplace(first, std::move(processes), limits_of(spec_.options), Clock::now());
  } catch (const Error& error) {  // the system refuses a process
    log(Severity::error, "{}", error.what());
    membership_.ranks_ended(static_cast<int>(error.exit_code()), error.what());
  }
}

void Agent::perform(const StopRanks&) {
  if (ranks_) ranks_->stop(stop_signal_, Clock::now());
}

void Agent::perform(const EndRanks&) {
  kill_at_ = Deadline::after(spec_.grace);
  last_kill_at_ = Deadline::after(spec_.round_grace);
}

void Agent::perform(const Propose& action) {
  ledger_thread_.create(name_of(action.decision.generation), to_text(action.decision));
}

void Agent::perform(const Read& action) {
  ledger_thread_.read(name_of(action.generation));
}

void Agent::perform(const Report& action) {
  if (action.broke_off) tell_of_break(action.decision);
  const Generation generation = action.decision.generation;
  const bool is_past = generation < membership_.status().decision.generation;  // this agent was late
  if (!action.decision.end && generation > Generation(1) && !is_past) tell_of_begin(action.decision);
}

void Agent::perform(const Send&) {
  const std::string bytes = to_text(membership_.status());
  for (std::size_t node = 0; node < agents_.size(); ++node)
    if (node != self_.value) datagrams_.send(node, bytes);
  inspector_.update(inspected());
}

/// For "distdl why".
InspectedNode Agent::inspected() {
  const auto now = Clock::now();
  const Status& own = membership_.status();
  InspectedNode node{agents_.host(self_), self_.value};
  if (ranks_) node.ranks = ranks_->started();
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    if (i == self_.value || (i < own.hears.size() && own.hears[i])) heard_at_[i] = now;
    const NodeId one(static_cast<std::uint32_t>(i));
    const bool has_ranks = contains(own.decision.members, one);
    node.nodes.push_back({agents_.host(one), has_ranks, std::chrono::duration<double>(now - heard_at_[i]).count()});
  }
  return node;
}

void Agent::perform(const Finish& action) {
  if (action.code != 0)
    log(Severity::info, "the launch ends with code {}: {}", action.code, action.cause);
  else if (!action.decided)
    log(Severity::info, "{}", action.cause);
  end_ = joins_ && (has_heard_ || action.decided) ? 0 : action.code;
  if (!action.decided) return;
  if (!first_lost_ || !is_lowest_heard(1)) return;
  // srun and the supervisor run on the first node.
  if (!membership_.status().hears.front())
    spec_.without_supervisor(action.code);
  else if (decide_restart(action.code) != RestartDecision::give_up)
    ledger_thread_.call(spec_.after_first_came_back);
}

/// Whether no other node from number `from` on is heard that is lower. The first of all may be heard.
bool Agent::is_lowest_heard(std::size_t from) const {
  const auto& hears = membership_.status().hears;
  return std::find(hears.begin() + static_cast<std::ptrdiff_t>(from), hears.end(), true) - hears.begin() ==
         static_cast<std::ptrdiff_t>(self_.value);
}
}  // namespace

StallLimits stall_limits_of(const Options& options) {
  return {.least = milliseconds(options.stalled_seconds),
          .least_of_saves = milliseconds(options.stalled_save_seconds),
          .most = milliseconds(options.stalled_at_most_seconds),
          .after_stop = milliseconds(options.stalled_stop_seconds),
          .stopped = milliseconds(options.rank_frozen_seconds)};
}

int run_agent(const AgentSpec& spec, world::World* world, SupervisorSignals& signals) {
  adopt_orphans();
  return Agent(spec, world ? meet(spec, *world) : join(spec), signals).run();
}

}  // namespace distdl::agent
