// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <unistd.h>

#include <distdl/base/env.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/base/vote.hpp>
#include <distdl/comm/check_options.hpp>
#include <distdl/comm/execution/communicator_impl.hpp>
#include <distdl/comm/selection/cost_cache.hpp>

namespace distdl::comm {
namespace {

constexpr int kFewSpins = 20;

Milliseconds milliseconds(double seconds) {
  return Milliseconds(static_cast<Milliseconds::rep>(seconds * 1000));
}

}  // namespace

void check(const Options& options) {
  constexpr double kMost = 1e6;  // seconds
  for (auto [key, seconds] : {std::pair("comm.timeout_seconds", options.timeout_seconds),
                              std::pair("comm.connect_timeout_seconds", options.connect_timeout_seconds)})
    require(seconds > 0 && seconds <= kMost, "{} is {}, but must be above 0 and at most {}", key, seconds, kMost);
  require(options.shared_memory_ranks >= 0, "comm.shared_memory_ranks is {}, but must not be negative",
          options.shared_memory_ranks);
}

namespace {
std::vector<Rank> first_ranks(int count) {
  std::vector<Rank> ranks;
  ranks.reserve(static_cast<std::size_t>(count));
  for (int r = 0; r < count; ++r) ranks.emplace_back(r);
  return ranks;
}

/// The ranks of a communicator, which exchange the addresses of their next one.
class ConnectedWorld final : public world::World {
 public:
  explicit ConnectedWorld(Communicator& communicator) : communicator_(communicator) {}
  Rank rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  std::string description() const override { return fmt::format("{} connected ranks", size()); }
  std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds timeout) override {
    return communicator_.all_gather_strings(mine, timeout);
  }

 private:
  Communicator& communicator_;
};

/// A part of the names of shared memory, which identifies the job of a stale segment.
std::string job_name() {
  return env("SLURM_JOB_ID").value_or("local");
}

long processors() {
  return std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

Group::Group(Fabric& the_fabric, std::uint8_t the_id, std::vector<Rank> ranks, Rank self)
    : fabric(the_fabric), id(the_id), members(std::move(ranks)) {
  rank = static_cast<int>(std::find(members.begin(), members.end(), self) - members.begin());
  for (Rank member : members) {
    const auto shares = [&](Rank other) { return fabric.share_memory(member, other); };
    nodes.push_back(std::find_if(members.begin(), members.end(), shares)->value);
  }
}

void Communicator::Impl::meet_node_ranks(const std::vector<std::string>& segments) {
  group.local_of.assign(group.members.size(), -1);
  std::vector<NodeRank> node_ranks;
  for (std::size_t r = 0; r < group.members.size(); ++r) {
    if (group.nodes[r] != group.nodes[static_cast<std::size_t>(group.rank)]) continue;
    group.local_of[r] = static_cast<int>(node_ranks.size());
    node_ranks.push_back({group.members[r], segments[r]});
  }
  attach("connect", [&] { memory->attach(node_ranks); });
  group.node_ranks.emplace(*memory);
  mail.emplace(*memory);
  poller = fabric->add([this] { return mail->poll_all(); });
  if (static_cast<long>(node_ranks.size()) > processors()) group.spins = kFewSpins;
}

std::string Communicator::Impl::first_problem(const std::vector<std::string>& votes) const {
  const auto failed = failure_of(votes);
  if (!failed) return "";
  return fmt::format("rank {} ({}): {}", failed->rank, fabric->peer_address(group.members[failed->rank]).host,
                     failed->message);
}

/// Memory that is gone belonged to a rank that died, or to one that left because another died.
void Communicator::Impl::attach(const char* name, const std::function<void()>& how) {
  try {
    how();
  } catch (const CommError&) {
    fabric->look_for_loss(group.members, {name, 0});
    throw;
  }
}

void Communicator::Impl::agree_on_costs(Communicator& communicator) {
  std::vector<std::string> hosts;
  for (Rank member : group.members) hosts.push_back(fabric->peer_address(member).host);
  CostTable own = group.rank == 0 ? load_costs(hosts) : CostTable();
  own.processors = static_cast<double>(processors());
  std::string text = own.encode();
  const auto bytes = std::as_writable_bytes(std::span(text));
  communicator.broadcast(bytes, Rank(0)).wait();
  use(CostTable::decode(text));
}

void Communicator::Impl::use(const CostTable& others) {
  costs = others;
  plans_.clear();
}

std::unique_ptr<Communicator> Communicator::connect(world::World& world, const Options& options) {
  check(options);
  if (options.gpu_transport == GpuTransport::nccl) load_nccl();
  const Deadline deadline = Deadline::after(milliseconds(options.connect_timeout_seconds));
  NodeMemory::sweep();
  const std::string job = job_name();
  auto memory = std::make_unique<NodeMemory>(job);
  auto fabric = std::make_shared<Fabric>(options);
  PeerAddress address = fabric->own_address(world.rank());
  address.segment = memory->name();
  std::vector<PeerAddress> addresses;
  for (const auto& bytes : world.all_gather_strings(encode(address), milliseconds(options.connect_timeout_seconds)))
    addresses.push_back(decode_peer_address(bytes));
  std::vector<std::string> segments;
  segments.reserve(addresses.size());
  for (const auto& one : addresses) segments.push_back(one.segment);
  fabric->connect(world.rank(), std::move(addresses));
  fabric->expect_barrier(deadline);
  auto impl =
      std::make_unique<Impl>(fabric, std::uint8_t{0}, first_ranks(world.size()), world.rank(), job, std::move(memory));
  impl->connect_options = options;
  impl->meet_node_ranks(segments);
  NodeMemory& board = *impl->memory;
  fabric->use({[&board](const NodeLoss& loss) { board.post_loss(loss); }, [&board] { return board.posted_loss(); },
               [&board](auto awaited, const Operation& operation) { board.show_wait(awaited, operation); },
               [&board](Rank rank) { return board.shown_wait(rank); }});
  std::unique_ptr<Communicator> communicator(new Communicator(std::move(impl)));
  communicator->barrier({.timeout = deadline.remaining()}).wait();
  fabric->barrier_passed();
  communicator->impl_->memory->unlink();
  communicator->impl_->agree_on_costs(*communicator);
  log(Severity::debug, "connected: {}, {}", world.description(), communicator->description());
  return communicator;
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::~Communicator() = default;

Rank Communicator::rank() const noexcept {
  return Rank(impl_->group.rank);
}
int Communicator::size() const noexcept {
  return static_cast<int>(impl_->group.members.size());
}

const std::string& Communicator::host(Rank rank) const {
  return impl_->fabric->peer_address(impl_->group.members.at(static_cast<std::size_t>(rank.value))).host;
}

std::vector<Rank> Communicator::ranks_on_host_of(Rank rank) const {
  std::vector<Rank> ranks;
  for (int r = 0; r < size(); ++r)
    if (host(Rank(r)) == host(rank)) ranks.emplace_back(r);
  return ranks;
}

std::string Communicator::description() const {
  const Group& group = impl_->group;
  std::string lanes;
  for (Rank member : group.members)
    if (lanes.empty() && impl_->fabric->proved(member)) lanes = impl_->fabric->lanes_to(member);
  return fmt::format("{} ranks, generation {}: {} share this node's memory{}{}", size(),
                     impl_->fabric->peer_address(impl_->fabric->rank()).generation, group.node_ranks->size(),
                     lanes.empty() ? "" : ", UCX uses for the others ", lanes);
}

const CostTable& Communicator::costs() const noexcept {
  return impl_->costs;
}

void Communicator::set_costs(const CostTable& costs) {
  impl_->use(costs);
}

Choice Communicator::last_choice() const {
  return impl_->last_choice();
}

std::vector<Traffic> Communicator::traffic() const {
  static_assert(static_cast<std::size_t>(Collective::scatter) + 1 == Fabric::kCollectives);
  std::vector<Traffic> all;
  const auto& counted = impl_->fabric->traffic();
  for (std::size_t i = 0; i < counted.size(); ++i)
    if (counted[i].calls > 0) all.emplace_back(counted[i]).name = name_of(static_cast<Collective>(i));
  return all;
}

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  struct Wish {
    int color, key, newest_id;
  };
  auto memory = std::make_unique<NodeMemory>(impl_->job);
  const std::string mine = fmt::format("{} {} {} {}", color, key, impl_->newest_id, memory->name());
  std::vector<std::pair<int, int>> chosen;  // key and rank
  std::vector<std::string> segments(static_cast<std::size_t>(size()));
  int id = 0;
  const auto wishes = all_gather_strings(mine);
  for (int r = 0; r < size(); ++r) {
    std::istringstream words(wishes[static_cast<std::size_t>(r)]);
    Wish wish{};
    words >> wish.color >> wish.key >> wish.newest_id >> segments[static_cast<std::size_t>(r)];
    id = std::max(id, wish.newest_id + 1);
    if (wish.color == color) chosen.emplace_back(wish.key, r);
  }
  require(id <= kMostCommunicators, "split: more than {} communicators", kMostCommunicators);
  impl_->newest_id = static_cast<std::uint8_t>(id);
  std::unique_ptr<Communicator> part;
  if (color >= 0) {
    std::sort(chosen.begin(), chosen.end());
    std::vector<Rank> members;
    std::vector<std::string> names;
    for (auto [ignored, r] : chosen) {
      members.push_back(impl_->group.members[static_cast<std::size_t>(r)]);
      names.push_back(segments[static_cast<std::size_t>(r)]);
    }
    auto impl = std::make_unique<Impl>(impl_->fabric, impl_->newest_id, std::move(members), impl_->fabric->rank(),
                                       impl_->job, std::move(memory));
    impl->newest_id = impl_->newest_id;
    impl->costs = impl_->costs;
    impl->group.device = impl_->group.device;
    impl->connect_options = impl_->connect_options;
    impl->meet_node_ranks(names);
    part.reset(new Communicator(std::move(impl)));
    part->barrier().wait();
    part->impl_->memory->unlink();
    part->impl_->agree_on_library(*part);
  }
  return part;
}

std::unique_ptr<Communicator> Communicator::duplicate(const std::string& interface) {
  ConnectedWorld world(*this);
  Options options = impl_->connect_options;
  if (!interface.empty()) options.interface = interface;
  return connect(world, options);
}

tensor::Buffer Communicator::allocate(std::size_t bytes) {
  const auto created = impl_->allocate(*this, bytes);
  return impl_->owned(created.id, created.data, bytes);
}

bool Communicator::shares_memory() const noexcept {
  return std::ranges::all_of(impl_->group.local_of, [](int local) { return local >= 0; });
}

/// The memory is the first rank's.
tensor::Buffer Communicator::allocate_common(std::size_t bytes) {
  require<InternalError>(shares_memory(), "{}", "memory in common needs ranks of one node");
  const auto created = impl_->allocate(*this, rank() == Rank(0) ? bytes : 0);
  return impl_->owned(created.id, impl_->memory->data_of(created.id, impl_->group.local_of.front()), bytes);
}

tensor::Buffer Communicator::Impl::owned(int id, std::byte* data, std::size_t bytes) const {
  return {data, bytes, [all = memory.get(), id](void*) { all->release_buffer(id); }};
}

NodeMemory::Created Communicator::Impl::allocate(Communicator& communicator, std::size_t bytes) {
  NodeMemory::Created created{};
  const auto votes = communicator.all_gather_strings(vote_on([&] {
    created = memory->create_buffer(bytes);
    return created.segment;
  }));
  if (const auto failed = failure_of(votes)) {
    if (created.data) memory->release_buffer(created.id);
    if (failed->code == ExitCode::storage || failed->code == ExitCode::config)
      throw NoMemory(first_problem(votes), failed->code);
    throw CommError(first_problem(votes));
  }
  const auto segments = results_of(votes);
  std::vector<std::string> names;
  for (std::size_t r = 0; r < segments.size(); ++r)
    if (group.local_of[r] >= 0) names.push_back(segments[r]);
  attach("allocate", [&] { memory->attach_buffer(created.id, names); });
  communicator.barrier().wait();
  memory->unlink_buffer(created.id);
  return created;
}

void Communicator::poll_while(const std::atomic<bool>* flag) noexcept {
  impl_->fabric->poll_while(flag);
}

void Communicator::abort(const std::string& reason, ExitCode code) noexcept {
  impl_->fabric->abort(reason, code);
}
void Communicator::close() {
  barrier().wait();  // also for those who only ever met in shared memory
  if (impl_->group.id == 0) impl_->fabric->close();
}

void run_connected(world::World& world, const Options& options, const std::function<void(Communicator&)>& body) {
  const auto communicator = Communicator::connect(world, options);
  try {
    body(*communicator);
    communicator->close();
  } catch (const std::exception& error) {
    communicator->abort(message_of(error), exit_code_of(error));
    throw;
  }
}

}  // namespace distdl::comm
