// SPDX-License-Identifier: Apache-2.0
// Transfers. Endpoints and handshakes are in endpoints.cpp.
#include <algorithm>
#include <thread>
#include <tuple>

#include <distdl/base/errors.hpp>
#include <distdl/base/random.hpp>
#include <distdl/comm/ucx/connections.hpp>

namespace distdl::comm {
namespace {

ucp_request_param_t how_for(void* transfer, ucs_memory_type_t memory = UCS_MEMORY_TYPE_UNKNOWN) {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.user_data = transfer;
  if (memory != UCS_MEMORY_TYPE_UNKNOWN) {
    how.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    how.memory_type = memory;
  }
  return how;
}

/// Those of users are recorded by their Transfer, which also knows messages without UCX.
Span span_of(SpanKind kind, Rank peer, const Label& label, std::size_t bytes) {
  const std::int64_t begin = begin_of_span();
  if (begin == 0 || label.channel != Channel::collective) return {};
  return {.begin = begin,
          .name = name_of(kind),
          .bytes = bytes,
          .number = label.number,
          .peer = peer.value,
          .kind = kind,
          .group = label.communicator};
}
}  // namespace

Connections::Connections(const Options& options)
    : options_(options), own_address_(describe_this_process(options.generation)) {
  std::tie(context_, worker_) = open_context_and_worker(options);
  own_address_.network_address = address_of(worker_.get(), AddressKind::network_only);
  own_address_.full_address = address_of(worker_.get(), AddressKind::full);
}

void Connections::shut_down() noexcept {
  cancel(handshake_messages_.batch);
  force_close_all();
  cancel(outbox_);
}

PeerAddress Connections::own_address(Rank self) {
  if (self == Rank(0) && own_address_.secret.empty()) own_address_.secret = random_bytes(kSecretBytes);
  return own_address_;
}

void Connections::connect(Rank self, std::vector<PeerAddress> addresses, Events events) {
  require(!addresses.empty() && addresses.size() <= std::size_t{kMostRanks},
          "a world has {} ranks, but 1 to {} are possible", addresses.size(), kMostRanks);
  self_ = self;
  events_ = std::move(events);
  peers_.resize(addresses.size());
  for (int r = 0; r < size(); ++r) {
    peers_[r].connections = this;
    peers_[r].rank = Rank(r);
    peers_[r].address = std::move(addresses[r]);
    require<CommError>(peer(Rank(r)).address.generation == own_address_.generation,
                       "{} belongs to generation {}, but this rank to generation {}", name(Rank(r)),
                       peer(Rank(r)).address.generation, own_address_.generation);
  }
  secret_ = peer(Rank(0)).address.secret;
  require<CommError>(
      secret_.size() == kSecretBytes,
      "the address of {} has a secret of {} bytes, expected {}: without it ranks cannot authenticate each other",
      name(Rank(0)), secret_.size(), kSecretBytes);
  listen(handshake_messages_, Channel::hello, kAnyGeneration, kLongestHandshake);
}

std::string Connections::name(Rank rank) const {
  return fmt::format("rank {} ({})", rank, peer(rank).address.host);
}

bool Connections::share_memory(Rank one, Rank other) const {
  const auto together = static_cast<int>(options_.shared_memory_ranks);
  return peer(one).address.memory == peer(other).address.memory &&
         (together == 0 || one.value / together == other.value / together);
}

std::string Connections::lanes_to(Rank rank) const {
  if (rank == self_) return "self";
  auto* const endpoint = peers_[rank.value].endpoint;
  return endpoint ? lanes_of(endpoint) : "not connected";
}

std::uint64_t Connections::tag(Rank source, const Label& label) const {
  return wire_tag(Generation(own_address_.generation), source, label);
}

void Connections::send(Batch& batch, std::span<const std::byte> bytes, Rank to, const Label& label,
                       ucs_memory_type_t memory) {
  auto& transfer = batch.add(to, Batch::Kind::send);
  transfer.data = const_cast<std::byte*>(bytes.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  transfer.size = bytes.size();
  transfer.span = span_of(SpanKind::send, to, label, bytes.size());
  transfer.tag = tag(self_, label);
  transfer.memory = memory;
  begin_or_queue(transfer);
}

void Connections::receive(Batch& batch, std::span<std::byte> bytes, Rank from, const Label& label,
                          ucs_memory_type_t memory) {
  auto& transfer = batch.add(from, Batch::Kind::receive);
  transfer.data = bytes.data();
  transfer.size = bytes.size();
  transfer.span = span_of(SpanKind::receive, from, label, bytes.size());
  transfer.tag = tag(from, label);
  transfer.memory = memory;
  begin_or_queue(transfer);
}

bool Connections::holds(Rank from, const Label& label) const {
  const Peer& peer = peers_[from.value];
  if (!worker_ || !peer.proved()) return false;
  ucp_tag_recv_info_t info{};
  const std::uint64_t disguised_tag = tag(from, label) ^ (peer.handshake->receive_token() & kDisguised);
  // NOLINTNEXTLINE(readability-suspicious-call-argument): the mask has "tag" in its name
  return ucp_tag_probe_nb(worker_.get(), disguised_tag, kWholeTag, 0, &info) != nullptr;
}

void Connections::start(Batch& batch, Rank peer, Begin begin) {
  auto& transfer = batch.add(peer, Batch::Kind::other);
  transfer.begin = std::move(begin);
  begin_or_queue(transfer);
}

void Connections::begin_or_queue(Batch::Transfer& transfer) {
  Peer& peer = peers_[transfer.peer.value];
  if (peer.rank != self_ && !peer.opened && worker_ && !closed_) open(peer);
  if (!peer.handshake || peer.handshake->proved()) return begin(transfer);
  transfer.queued = true;
  peer.queue.push_back(&transfer);
}

void Connections::begin_queued(Peer& peer) {
  for (auto* transfer : std::exchange(peer.queue, {})) {
    transfer->queued = false;
    begin(*transfer);
  }
}

void Connections::begin(Batch::Transfer& transfer) {
  const Peer& peer = peers_[transfer.peer.value];
  if (!worker_ || !peer.endpoint) return transfer.batch->finish(transfer, UCS_ERR_NOT_CONNECTED, 0);
  switch (transfer.kind) {
    case Batch::Kind::send:
      return begin_send(transfer, transfer.tag ^ (peer.handshake->send_token() & kDisguised));
    case Batch::Kind::receive:
      return begin_receive(transfer, transfer.tag ^ (peer.handshake->receive_token() & kDisguised), kWholeTag);
    case Batch::Kind::other: {
      auto how = how_for(&transfer);
      how.cb.send = &Batch::on_sent;
      transfer.batch->begun(transfer, transfer.begin({peer.endpoint, *peer.handshake}, how));
    }
  }
}

void Connections::begin_send(Batch::Transfer& transfer, std::uint64_t tag) {
  auto how = how_for(&transfer, transfer.memory);
  how.cb.send = &Batch::on_sent;
  auto* const endpoint = peers_[transfer.peer.value].endpoint;
  transfer.batch->begun(transfer, ucp_tag_send_nbx(endpoint, transfer.data, transfer.size, tag, &how));
}

void Connections::begin_receive(Batch::Transfer& transfer, std::uint64_t tag, std::uint64_t mask) {
  auto how = how_for(&transfer, transfer.memory);
  // Without the flag a receive that finds its message there is done at once, but UCX 1.13 does not report its length.
  how.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  how.cb.recv = &Batch::on_received;
  transfer.batch->begun(transfer, ucp_tag_recv_nbx(worker_.get(), transfer.data, transfer.size, tag, mask, &how));
}

// NOLINTNEXTLINE(readability-make-member-function-const): it changes the batch
std::optional<Connections::BrokenTransfer> Connections::check(Batch& batch, const Operation& operation) {
  for (std::size_t i = 0; batch.failed_ && i < batch.transfers_.size(); ++i) {
    const auto& transfer = batch.transfers_[i];
    if (transfer.is_open()) continue;
    const bool receives = transfer.kind == Batch::Kind::receive;
    if (transfer.status == UCS_ERR_MESSAGE_TRUNCATED ||
        (transfer.status == UCS_OK && receives && transfer.received != transfer.size))
      refuse_size(operation, transfer.peer, transfer.received, transfer.size);
    if (transfer.status == UCS_OK || (closing_down_ && !receives)) continue;
    return BrokenTransfer{
        transfer.peer, fmt::format("the connection to {} failed ({})", name(transfer.peer), ucx_text(transfer.status))};
  }
  if (!batch.done()) return std::nullopt;
  batch.transfers_.clear();
  batch.failed_ = false;
  return std::nullopt;
}

void Connections::refuse_size(const Operation& operation, Rank peer, std::uint64_t sent, std::size_t expected) const {
  throw CommError(
      fmt::format("{}: {} sent {} bytes, expected {}: all ranks must call the same operation with the same sizes",
                  to_string(operation), name(peer), sent, expected));
}

/// A receive that has not met its message can be cancelled; any other transfer ends with its endpoint. Only then is its
/// memory the caller's again.
void Connections::cancel(Batch& batch) noexcept {
  for (auto& transfer : batch.transfers_) {
    if (!transfer.queued) continue;
    std::erase(peers_[transfer.peer.value].queue, &transfer);
    batch.finish(transfer, UCS_ERR_CANCELED, 0);
  }
  if (worker_ && !batch.done()) {
    for (auto& transfer : batch.transfers_)
      if (transfer.request && transfer.kind == Batch::Kind::receive)
        ucp_request_cancel(worker_.get(), transfer.request);
    if (!drain(batch, Milliseconds(20))) {
      for (const auto& transfer : batch.transfers_)
        if (transfer.request) force_close(peers_[transfer.peer.value]);
      // UCX 1.13 keeps a large receive whose sender died half-way, even when its endpoint is closed.
      if (!drain(batch, Milliseconds(100))) destroy_worker();
    }
  }
  batch.transfers_.clear();
  batch.open_ = 0;
  batch.failed_ = false;
}

/// Nothing can be sent or received any more.
void Connections::destroy_worker() noexcept {
  force_close_all();
  for (ExposedMemory* memory : exposed_) memory->unmap();
  for (int i = 0; i < 100 && ucp_worker_progress(worker_.get()) > 0; ++i) {
  }
  worker_.reset();
}

bool Connections::drain(const Batch& batch, Milliseconds limit) noexcept {
  const Deadline deadline = Deadline::after(limit);
  while (!batch.done() && !deadline.expired())
    if (ucp_worker_progress(worker_.get()) == 0) std::this_thread::yield();
  return batch.done();
}

/// A finished send may still lie in a buffer of UCX, from where a forced close would throw it away.
void Connections::flush(Milliseconds limit) noexcept {
  const ucp_request_param_t how{};
  void* request = ucp_worker_flush_nbx(worker_.get(), &how);
  if (!UCS_PTR_IS_PTR(request)) return;
  closing_.push_back(request);
  const Deadline deadline = Deadline::after(limit);
  while (ucp_request_check_status(request) == UCS_INPROGRESS && !deadline.expired())
    if (ucp_worker_progress(worker_.get()) == 0) std::this_thread::yield();
}

void Connections::flush_small(Milliseconds limit) noexcept {
  if (!worker_) return;
  drain(outbox_, limit);
  flush(limit);
}

void Connections::begin_close() {
  closing_down_ = true;
  for (Peer& peer : peers_)
    if (peer.opened && peer.said_hello) exchange_close(peer);
}

void Connections::exchange_close(Peer& peer) {
  receive(closes_, {}, peer.rank, {.channel = Channel::close}, UCS_MEMORY_TYPE_UNKNOWN);
  send(closes_, {}, peer.rank, {.channel = Channel::close}, UCS_MEMORY_TYPE_UNKNOWN);
}

}  // namespace distdl::comm
