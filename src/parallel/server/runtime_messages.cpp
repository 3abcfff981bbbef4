// SPDX-License-Identifier: Apache-2.0
// Messages of a rank's roles: to whom they go, and the bytes that go with them.
#include <algorithm>
#include <tuple>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/server/rank_nodes.hpp>
#include <distdl/parallel/server/runtime.hpp>

namespace distdl::parallel::server {
namespace {
/// Size of a version from which on a get is faster than a message: see bench/results/parameter_server.md.
constexpr std::size_t kLeastRead = std::size_t{256} << 10;

/// Replaces a buffer that is shared or has fewer than so many bytes.
void renew(std::shared_ptr<tensor::Buffer>& buffer, std::size_t bytes) {
  if (!buffer || buffer.use_count() > 1 || buffer->bytes() < bytes)
    buffer = std::make_shared<tensor::Buffer>(tensor::allocate_host(bytes));
}
}  // namespace

/// A get costs a way to the server and back, but the bytes are copied once only, over TCP, too.
bool Runtime::is_read_here(Node worker, std::size_t bytes) const {
  return exposed_ && rank_of(worker) != rank_ && (setup_.pulls == Pulls::one_sided || bytes >= kLeastRead);
}

void Runtime::receive(const Packet& packet, std::span<const std::byte> bytes) {
  if (packet.round != round_) return;
  const Message& message = packet.message;
  check(rules_, message);
  idle_.came(Clock::now());
  if (std::holds_alternative<Pull>(message)) idle_.pulled(packet.from);
  if (const auto* pulled = std::get_if<Pulled>(&message); pulled && !is_read(packet, *pulled, bytes)) return;
  const bool ends = std::holds_alternative<Finish>(message) || std::holds_alternative<EndsEarly>(message) ||
                    std::holds_alternative<AllEnded>(message);
  require<CommError>(!ends || packet.from == node_of(Rank(0), Role::scheduler),
                     "node {} of the parameter server ends the round, but is no scheduler", packet.from);
  if (const auto* finish = std::get_if<Finish>(&message)) finished_ = finish->steps;
  if (std::holds_alternative<EndsEarly>(message)) show_end();
  if (std::holds_alternative<Ended>(message)) ended_.insert(rank_of(packet.from));
  if (std::holds_alternative<AllEnded>(message)) have_all_ended_ = true;
  if (is_busy_ && std::holds_alternative<Lease>(message)) {
    deferred_ = packet;
    return;
  }
  if (const auto* push = std::get_if<Push>(&message)) take_gradient(push->range, push->version, packet.tail, bytes);
  if (const auto* copied = std::get_if<Replicate>(&message))
    take_gradient(copied->range, copied->version, packet.tail, bytes);
  if (const auto* pushed = std::get_if<Pushed>(&message)) {
    answers_.answered(pushed->range, 0, Clock::now());
    unacknowledged_.erase(pushed->range);
  }
  const Role role = role_of(packet.to);
  if (role == Role::worker && worker_) {
    worker_->receive(packet.from, message);
    perform(packet.to, worker_->take());
  } else if (role == Role::server && server_) {
    server_->receive(packet.from, message);
    perform(packet.to, server_->take());
  } else if (role == Role::scheduler && scheduler_) {
    run_scheduler(packet.from, message);
  }
}

/// Sends Finish also to workers that have not asked, when all is done.
void Runtime::run_scheduler(Node from, const Message& message) {
  const Node self = node_of(rank_, Role::scheduler);
  const bool was_finished = scheduler_->is_finished();
  scheduler_->receive(from, message);
  perform(self, scheduler_->take());
  if (was_finished || !scheduler_->is_finished()) return;
  for (int rank = 0; rank < communicator_->size(); ++rank)
    send(self, node_of(Rank(rank), Role::worker), Finish{Leadership(1), scheduler_->steps()});
}

bool Runtime::is_read(const Packet& packet, const Pulled& pulled, std::span<const std::byte> bytes) {
  if (finished_ || !worker_) return false;
  if (const auto found = reads_.find(pulled.range); found != reads_.end()) {
    const auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
    found->second.later.push_back({packet, copy, *copy});
    return false;
  }
  if (!packet.place) {
    take_values(pulled, packet.idle_seconds, bytes);
    return true;
  }
  require<CommError>(exposed_.has_value(), "rank {} has no memory from which range {} could be read",
                     rank_of(packet.from), pulled.range);
  const auto room = std::as_writable_bytes(room_for(pulled.range));
  const RangeCode& code = codes_.parameters.at(static_cast<std::size_t>(pulled.range));
  Read& read = reads_[pulled.range];
  read.answer = packet;
  if (!code.is_plain()) read.code.resize(code.bytes());
  read.request = exposed_->get(code.is_plain() ? room : std::span(read.code), rank_of(packet.from), *packet.place);
  return false;
}

/// Memory for the pulled parameters of a range.
std::span<float> Runtime::room_for(int range) const {
  require<InternalError>(!is_busy_, "parameters of range {} came at a wrong time; report this as a defect", range);
  const auto& elements = setup_.ranges.at(static_cast<std::size_t>(range));
  return pulled_.as<float>().subspan(elements.first, elements.count());
}

void Runtime::end_reads() {
  for (auto next = reads_.begin(); next != reads_.end();) {
    const auto read = next++;
    if (!read->second.request.test()) continue;
    Read done = std::move(reads_.extract(read).mapped());
    done.answer.place.reset();
    receive(done.answer, done.code);
    for (const Local& later : done.later) receive(later.packet, later.bytes);
  }
}

/// An answer without values is of the version that is here already.
void Runtime::take_values(const Pulled& pulled, double idle_seconds, std::span<const std::byte> bytes) {
  answers_.answered(pulled.range, idle_seconds, Clock::now());
  {
    const std::lock_guard lock(mutex_);
    pulling_.erase(pulled.range);
  }
  if (bytes.empty()) return;
  const RangeCode& code = codes_.parameters.at(static_cast<std::size_t>(pulled.range));
  require<CommError>(bytes.size() == code.bytes(), "range {} came with {} bytes of parameters, but {} are expected",
                     pulled.range, bytes.size(), code.bytes());
  code.decode(bytes, room_for(pulled.range));
}

void Runtime::take_gradient(int range, Version version, const Tail& tail, std::span<const std::byte> bytes) {
  const auto index = static_cast<std::size_t>(range);
  const RangeCode& code = codes_.gradients.at(index);
  require<CommError>(bytes.size() == code.bytes(), "a gradient of range {} has {} bytes, but {} are expected", range,
                     bytes.size(), code.bytes());
  arriving_code_ = bytes;
  arriving_ = {std::exchange(spare_, {}), tail, {}};
  arriving_.values.resize(code.floats());
  code.decode(bytes, arriving_.values);
  const auto found = bytes_.find(range);
  if (!setup_.keeps_parameters || found == bytes_.end()) return;
  const Values parameters = found->second.find(version);
  if (!parameters) return;
  arriving_.parameters.resize(code.floats());
  codes_.parameters[index].decode(parameters->as<std::byte>(), arriving_.parameters);
}

void Runtime::store(const Store& store) {
  const bool has_partner = rules_.has_partners && setup_.cluster.servers.size() > 1;
  if (has_partner && store.range == setup_.cluster.server_of(rank_))
    stored_ = {store.microbatch, arriving_.tail,
               std::make_shared<const std::vector<std::byte>>(arriving_code_.begin(), arriving_code_.end())};
  bytes_.at(store.range).store(store.microbatch, std::move(arriving_));
}

/// Versions go last: an update may need the one that its gradient was computed with.
void Runtime::perform(Node self, const Actions& actions) {
  for (const Action& action : actions)
    if (!std::holds_alternative<Forget>(action)) act(self, action);
  for (const Action& action : actions)
    if (const auto* forget = std::get_if<Forget>(&action)) bytes_.at(forget->range).forget(forget->version);
}

void Runtime::act(Node self, const Action& action) {
  if (const auto* out = std::get_if<Send>(&action)) {
    send(self, out->to, out->message);
  } else if (const auto* stored = std::get_if<Store>(&action)) {
    store(*stored);
  } else if (const auto* apply = std::get_if<Apply>(&action)) {
    const auto lacked = static_cast<std::size_t>(apply->staleness);
    if (staleness_.size() <= lacked) staleness_.resize(lacked + 1);
    if (apply->range == setup_.cluster.server_of(rank_)) ++staleness_[lacked];
    RangeGradient gradient = bytes_.at(apply->range).take(*apply);
    update_(*apply, gradient);
    spare_ = std::move(gradient.values);
  } else if (const auto* keep = std::get_if<Keep>(&action)) {
    if (setup_.keep) setup_.keep(*keep);
  } else if (const auto* compute = std::get_if<Compute>(&action)) {
    begin_work(*compute);
  } else {
    throw InternalError("a range of the parameter server has lost its holder within a round; report this as a defect");
  }
}

/// The last gradients may still be on their way.
void Runtime::begin_work(const Compute& compute) {
  renew(gradients_, (setup_.parameters + std::tuple_size_v<Tail>)*sizeof(float));
  if (!places_.empty()) renew(code_, places_.back());
  lease_ = compute.lease;
  is_busy_ = true;
  const std::lock_guard lock(mutex_);
  work_ = Work{rules_.step_of(compute.microbatch), parts_.node_of(compute.microbatch), pulled_.as<float>().data(),
               gradients_->as<float>().data(), places_.empty() ? nullptr : code_->as<std::byte>().data()};
  changed_.notify_all();
}

std::pair<std::shared_ptr<const void>, std::span<const std::byte>> Runtime::values_for(Node to,
                                                                                       const Message& message) {
  if (const auto* pulled = std::get_if<Pulled>(&message); pulled && pulled->version) {
    const auto [last, is_first] = sent_.try_emplace(to, *pulled->version);
    if (!is_first && std::exchange(last->second, *pulled->version) == *pulled->version) return {};
    const Values values = bytes_.at(pulled->range).read(*pulled->version);
    return {values, values->as<std::byte>()};
  }
  if (const auto* push = std::get_if<Push>(&message)) {
    const auto index = static_cast<std::size_t>(push->range);
    const auto& range = setup_.ranges.at(index);
    if (places_.empty())
      return {gradients_, std::as_bytes(gradients_->as<float>().subspan(range.first, range.count()))};
    return {code_, code_->as<std::byte>().subspan(places_[index], places_[index + 1] - places_[index])};
  }
  if (const auto* copied = std::get_if<Replicate>(&message)) {
    require<InternalError>(stored_.code && stored_.microbatch == copied->microbatch,
                           "the gradient of microbatch {} is not there for the partner; report this as a defect",
                           copied->microbatch);
    return {stored_.code, *stored_.code};
  }
  return {};
}

void Runtime::send(Node from, Node to, const Message& message) {
  if (lost_.contains(rank_of(to))) return;
  Packet packet{round_, from, to, message, {}};
  auto [owner, bytes] = values_for(to, message);
  if (std::holds_alternative<Pulled>(message) && is_read_here(to, bytes.size()))
    packet.place = versions_.place_of(bytes.data());
  if (packet.place) bytes = {};
  if (const auto* push = std::get_if<Push>(&message)) {
    answers_.asked(push->range, Clock::now());
    unacknowledged_.insert(push->range);
    std::ranges::copy(gradients_->as<float>().subspan(setup_.parameters), packet.tail.begin());
  }
  if (std::holds_alternative<Replicate>(message)) packet.tail = stored_.tail;
  if (std::holds_alternative<Pulled>(message)) packet.idle_seconds = idle_.answered(to);
  if (const auto* pull = std::get_if<Pull>(&message)) {
    answers_.asked(pull->range, Clock::now());
    const std::lock_guard lock(mutex_);
    pulling_.insert(pull->range);
  }
  require<CommError>(is_node(to), "a message of the parameter server names node {}, which does not exist", to);
  if (rank_of(to) == rank_) {
    local_.push_back({std::move(packet), owner, bytes});
    return;
  }
  outgoing_.push_back({rank_of(to), std::holds_alternative<AllEnded>(message),
                       communicator_->send_message(rank_of(to), kPacketMessage, encode(packet), bytes), owner});
}

}  // namespace distdl::parallel::server
