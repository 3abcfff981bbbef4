// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/short_slices.hpp>
#include <distdl/parallel/server/placement.hpp>
#include <distdl/parallel/server/range_division.hpp>
#include <distdl/parallel/server/rank_nodes.hpp>
#include <distdl/parallel/server/runtime.hpp>

namespace distdl::parallel::server {
namespace {
using namespace std::chrono_literals;
constexpr auto kTick = 1s;               ///< leases are late after Rules::late_ticks of it
constexpr std::size_t kMostPlaces = 16;  ///< versions of a range that others can read at the same time
constexpr auto kIdle = 50ms;             ///< interval at which a waiting caller checks for a request to stop

std::vector<Node> nodes_of(const std::vector<Rank>& ranks, Role role) {
  std::vector<Node> nodes;
  nodes.reserve(ranks.size());
  for (const Rank rank : ranks) nodes.push_back(node_of(rank, role));
  return nodes;
}

}  // namespace

Runtime::Runtime(comm::Communicator& communicator, Setup setup, Update update)
    : setup_(std::move(setup)),
      update_(std::move(update)),
      rank_(communicator.rank()),
      communicator_(communicator.duplicate(setup_.interface)),
      codes_(plain_codes(setup_.ranges)) {
  if (setup_.cluster.has_worker(rank_)) pulled_ = tensor::allocate_host(setup_.parameters * sizeof(float));
  communicator_->on_message(
      kPacketMessage, [this](Rank from, std::string_view header, std::span<const std::byte> payload) {
        const Packet packet = decode(header);
        require<CommError>(
            is_node(packet.from) && rank_of(packet.from) == from && is_node(packet.to) && rank_of(packet.to) == rank_,
            "rank {} sent a message of the parameter server from node {} to node {}, which is not possible", from,
            packet.from, packet.to);
        receive(packet, payload);
      });
  expose_versions();
  communicator_->barrier().wait();
}

/// Beside the versions that are kept, each worker may read one of its own. Ranges may grow: places that are not used
/// take no memory.
void Runtime::expose_versions() {
  if (const int own = setup_.cluster.server_of(rank_); own >= 0)
    versions_ = VersionMemory(
        std::min(setup_.cluster.workers.size() + 2, kMostPlaces),
        std::min(setup_.parameters, kMostGrowth * setup_.ranges.at(static_cast<std::size_t>(own)).count()));
  if (setup_.pulls != Pulls::messages) exposed_.emplace(communicator_->expose(versions_.all()));
}

void Runtime::set_ranges(std::vector<optim::Elements> ranges) {
  setup_.ranges = std::move(ranges);
  use(plain_codes(setup_.ranges));
}

void Runtime::use(RangeCodes codes) {
  codes_ = std::move(codes);
  places_.clear();
  if (std::ranges::all_of(codes_.gradients, &RangeCode::is_plain)) return;
  places_.push_back(0);
  for (const RangeCode& code : codes_.gradients) places_.push_back(places_.back() + code.bytes());
}

Runtime::~Runtime() {
  const bool is_orderly = std::uncaught_exceptions() == 0 && !thread_.joinable() && !error_;
  if (thread_.joinable()) {
    thread_.request_stop();
    communicator_->wake();
    thread_.join();
  }
  outgoing_.clear();
  reads_.clear();
  exposed_.reset();
  try {
    if (is_orderly) {
      communicator_->close();
      return;
    }
  } catch (const std::exception& error) {
    log(Severity::debug, "the parameter server did not close its connections in order: {}", error.what());
  }
  communicator_->abort("a rank left the parameter server");
}

void Runtime::begin(const Rules& rules, StepParts parts, float* arena, float* partner_arena) {
  ++round_;
  rules_ = rules;
  parts_ = std::move(parts);
  assert(rules_.microbatches == std::ssize(parts_.nodes));
  const auto servers = nodes_of(setup_.cluster.servers, Role::server);
  const auto workers = nodes_of(setup_.cluster.workers, Role::worker);
  scheduler_.reset();
  server_.reset();
  worker_.reset();
  bytes_.clear();
  reads_.clear();
  if (rank_ == Rank(0))
    scheduler_.emplace(rules_, Leadership(1), std::set(servers.begin(), servers.end()),
                       std::set(workers.begin(), workers.end()));
  if (const int own = setup_.cluster.server_of(rank_); own >= 0) {
    const Node self = node_of(rank_, Role::server);
    const auto placement = first_placement(rules_.ranges, servers, rules_.has_partners ? setup_.partner_distance : 0);
    server_.emplace(rules_, self, placement);
    for (int i = 0; i < rules_.ranges; ++i) {
      const auto index = static_cast<std::size_t>(i);
      if (i != own && placement[index].partner != self) continue;
      const auto& range = setup_.ranges.at(index);
      bytes_.emplace(i, RangeBytes({(i == own ? arena : partner_arena) + range.first, range.count()}, rules_.mode,
                                   parts_, codes_.parameters[index], versions_));
    }
  }
  if (setup_.cluster.has_worker(rank_)) worker_.emplace(rules_, rank_.value % rules_.ranges);
  sent_.clear();
  local_.clear();
  deferred_.reset();
  unacknowledged_.clear();
  pulling_.clear();
  work_.reset();
  staleness_.clear();
  answers_ = AnswerTimes(rules_.ranges);
  idle_ = {};
  finished_.reset();
  lost_.clear();
  ended_.clear();
  have_all_ended_ = false;
  communicator_->tolerate(ranks_to_spare());
  is_busy_ = is_computed_ = ends_soon_ = is_ending_ = is_over_ = false;
  next_tick_ = Clock::now() + kTick;
  thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
}

std::optional<Runtime::Work> Runtime::next(const std::function<void()>& idle) {
  const auto patience = most_microbatches(parts_) * communicator_->timeout();
  Clock::duration waited{};  // while this process ran: a job may be suspended
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kIdle, [this] { return error_ || is_over_ || work_; })) {
    waited += kIdle;
    if (setup_.cluster.has_worker(rank_) && !is_ending_ && waited > patience)
      throw CommError(fmt::format(
          "rank {} waited for {:.0f} s ({}comm.timeout_seconds) for {}: a rank computes for longer, or hangs", rank_,
          std::chrono::duration<double>(patience).count(),
          most_microbatches(parts_) > 1 ? "the microbatches of a part times " : "", awaited()));
    lock.unlock();
    idle();
    lock.lock();
  }
  if (error_) std::rethrow_exception(error_);
  if (is_over_) return std::nullopt;
  return std::exchange(work_, std::nullopt);
}

/// Call with the lock.
std::string Runtime::awaited() const {
  if (pulling_.empty()) return "a microbatch from the scheduler on rank 0";
  std::vector<std::string> ranks;
  for (const int range : pulling_) {
    const Rank rank = setup_.cluster.servers.at(static_cast<std::size_t>(range));
    ranks.push_back(fmt::format("rank {} ({})", rank, communicator_->host(rank)));
  }
  return fmt::format("parameters from {}", fmt::join(ranks, ", "));
}

void Runtime::computed() {
  {
    const std::lock_guard lock(mutex_);
    is_computed_ = true;
  }
  communicator_->wake();
}

void Runtime::end_soon() {
  {
    const std::lock_guard lock(mutex_);
    ends_soon_ = true;
  }
  communicator_->wake();
}

std::int64_t Runtime::end() {
  thread_.join();
  if (error_) std::rethrow_exception(error_);
  return steps_;
}

void Runtime::abort(const std::string& reason, ExitCode code) noexcept {
  if (thread_.joinable()) {
    thread_.request_stop();
    communicator_->wake();
    thread_.join();
  }
  communicator_->abort(reason, code);
}

bool Runtime::is_node(Node node) const {
  return node.value >= 0 && node.value < communicator_->size() * kRoles;
}

void Runtime::serve(const std::stop_token& stop) {
  try {
    take_short_slices();  // others wait for its answers while this rank computes
    serve_round(stop);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
  shown_.reset();
}

void Runtime::serve_round(const std::stop_token& stop) {
  if (scheduler_) perform(node_of(rank_, Role::scheduler), scheduler_->take());
  while (!finished_) {
    if (stop.stop_requested()) return;
    take_commands();
    end_reads();
    deliver();
    if (Clock::now() >= next_tick_) tick();
    if (local_.empty() && !finished_) communicator_->await_messages(next_tick_ - Clock::now());
  }
  end_round(stop);
}

void Runtime::deliver() {
  look_for_losses();
  deliver_local();
  drop_sent();
}

void Runtime::drop_sent() {
  std::erase_if(outgoing_, [](Outgoing& one) { return one.request.test(); });
}

void Runtime::take_commands() {
  bool is_computed = false, ends_soon = false;
  {
    const std::lock_guard lock(mutex_);
    is_computed = std::exchange(is_computed_, false);
    ends_soon = std::exchange(ends_soon_, false);
  }
  const Node self = node_of(rank_, Role::worker);
  if (ends_soon) send(self, node_of(Rank(0), Role::scheduler), End{});
  if (!is_computed) return;
  is_busy_ = false;
  worker_->computed(lease_);
  perform(self, worker_->take());
  if (const auto deferred = std::exchange(deferred_, std::nullopt)) receive(*deferred, {});
}

void Runtime::deliver_local() {
  while (!local_.empty()) {
    const Local next = std::move(local_.front());
    local_.pop_front();
    receive(next.packet, next.bytes);
  }
}

/// No message is lost between living ranks. A tick repeats messages for late leases, and for workers that have waited
/// since.
void Runtime::tick() {
  next_tick_ = Clock::now() + kTick;
  if (scheduler_) {
    scheduler_->tick();
    perform(node_of(rank_, Role::scheduler), scheduler_->take());
  }
  if (!worker_ || !unacknowledged_.empty()) return;
  worker_->tick();
  perform(node_of(rank_, Role::worker), worker_->take());
}

}  // namespace distdl::parallel::server
