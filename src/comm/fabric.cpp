// SPDX-License-Identifier: Apache-2.0
// Endpoints and transfers. Waiting is in fabric_wait.cpp, notices are in fabric_notice.cpp.
#include <thread>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/comm/fabric.hpp>

namespace distdl::comm {
namespace {

constexpr Operation kGreeting{"greeting", 0};
constexpr Operation kGoodbye{"goodbye", 0};
std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

std::string to_string(const Operation& operation) {
  return operation.sequence ? fmt::format("{} {}", operation.name, operation.sequence) : operation.name;
}

Batch::~Batch() {
  fabric_.cancel(*this);
}

void Batch::finish(Transfer& transfer, ucs_status_t status, std::size_t received) {
  transfer.status = status;
  transfer.received = received;
  transfer.request = nullptr;
  --open_;
}

void Batch::on_sent(void* request, ucs_status_t status, void* argument) {
  auto& transfer = *static_cast<Transfer*>(argument);
  transfer.batch->finish(transfer, status, 0);
  ucp_request_free(request);
}

void Batch::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* argument) {
  auto& transfer = *static_cast<Transfer*>(argument);
  transfer.batch->finish(transfer, status, info->length);
  ucp_request_free(request);
}

Fabric::Fabric(const Options& options)
    : options_(options),
      own_card_(describe_this_process(options.generation)),
      context_(open_context(options)),
      worker_(open_worker(context_.get())),
      idle_(worker_.get()) {
  own_card_.network_address = address_of(worker_.get(), AddressKind::network_only);
  own_card_.full_address = address_of(worker_.get(), AddressKind::full);
}

Fabric::~Fabric() {
  cancel(inbox_);
  force_close_all();
  cancel(outbox_);
}

PeerCard Fabric::card() const {
  return own_card_;
}

std::string Fabric::name(Rank rank) const {
  return fmt::format("rank {} ({})", rank, card_of(rank).host);
}

std::string Fabric::lanes_to(Rank rank) const {
  const ucp_ep_h endpoint = peers_[rank.value].endpoint;
  return endpoint ? lanes_of(endpoint) : "self";
}

void Fabric::connect(Rank self, std::vector<PeerCard> cards, Clock::duration timeout) {
  require(cards.size() <= std::size_t{kMostRanks}, "a world of {} ranks: at most {} are possible", cards.size(),
          kMostRanks);
  self_ = self;
  peers_.resize(cards.size());
  for (int r = 0; r < size(); ++r) {
    peers_[r].fabric = this;
    peers_[r].rank = Rank(r);
    peers_[r].card = std::move(cards[r]);
    require<CommError>(card_of(Rank(r)).generation == own_card_.generation,
                       "{} is of generation {}, this rank of generation {}", name(Rank(r)), card_of(Rank(r)).generation,
                       own_card_.generation);
  }
  listen();
  open_endpoints();
  greet(timeout);
}

void Fabric::open_endpoints() {
  for (Peer& peer : peers_) {
    const bool same_memory = peer.card.memory == own_card_.memory;
    if (peer.rank == self_) continue;
    try {
      peer.endpoint = open_endpoint(worker_.get(), same_memory ? peer.card.full_address : peer.card.network_address,
                                    &on_peer_error, &peer);
    } catch (const CommError& error) {
      throw CommError(fmt::format("no way to {}: {}; comm.interface must name a network that all hosts share",
                                  name(peer.rank), error.what()));
    }
    // Ranks that are threads of one process end together.
    if (peer.card.process_space == own_card_.process_space && peer.card.pid != own_card_.pid)
      idle_.watch(peer.rank, peer.card.pid);
  }
}

/// The greeting carries the receiver's secret: the sender has its card, and the message belongs to this launch.
void Fabric::greet(Clock::duration timeout) {
  std::vector<std::string> greetings(peers_.size(), std::string(own_card_.secret.size(), '\0'));
  Batch batch(*this);
  for (Peer& peer : peers_) {
    if (peer.rank == self_) continue;
    receive(batch, std::as_writable_bytes(std::span(greetings[peer.rank.value])), peer.rank, Channel::hello, 0, 0);
    send(batch, bytes_of(peer.card.secret), peer.rank, Channel::hello, 0, 0);
  }
  wait(batch, kGreeting, timeout);
  for (const Peer& peer : peers_)
    require<CommError>(peer.rank == self_ || greetings[peer.rank.value] == own_card_.secret,
                       "{} greeted with a wrong secret: it belongs to another launch", name(peer.rank));
}

std::uint64_t Fabric::tag(Channel channel, Rank source, std::uint32_t sequence, std::uint16_t stage) const {
  return wire_tag(Generation(own_card_.generation), channel, source, sequence, stage);
}

void Fabric::send(Batch& batch, std::span<const std::byte> bytes, Rank to, Channel channel, std::uint32_t sequence,
                  std::uint16_t stage) {
  auto& transfer = batch.transfers_.emplace_back(
      Batch::Transfer{.batch = &batch, .peer = to, .direction = Batch::Direction::send, .size = bytes.size()});
  ++batch.open_;
  const ucp_ep_h endpoint = peers_[to.value].endpoint;
  if (!endpoint) return batch.finish(transfer, UCS_ERR_NOT_CONNECTED, 0);
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.send = &Batch::on_sent;
  how.user_data = &transfer;
  void* request = ucp_tag_send_nbx(endpoint, bytes.data(), bytes.size(), tag(channel, self_, sequence, stage), &how);
  if (UCS_PTR_IS_PTR(request))
    transfer.request = request;
  else
    batch.finish(transfer, UCS_PTR_STATUS(request), 0);
}

void Fabric::receive(Batch& batch, std::span<std::byte> bytes, Rank from, Channel channel, std::uint32_t sequence,
                     std::uint16_t stage) {
  auto& transfer = batch.transfers_.emplace_back(
      Batch::Transfer{.batch = &batch, .peer = from, .direction = Batch::Direction::receive, .size = bytes.size()});
  ++batch.open_;
  ucp_request_param_t how{};
  // Without the flag a receive that finds its message there is done at once, but UCX 1.13 does not tell its length.
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  how.cb.recv = &Batch::on_received;
  how.user_data = &transfer;
  const std::uint64_t mask = channel == Channel::notice ? kAnySource : kWholeTag;
  void* request =
      ucp_tag_recv_nbx(worker_.get(), bytes.data(), bytes.size(), tag(channel, from, sequence, stage), mask, &how);
  if (!UCS_PTR_IS_PTR(request))
    batch.finish(transfer, UCS_PTR_STATUS(request), 0);
  else if (transfer.status == UCS_INPROGRESS)  // else the callback has come already
    transfer.request = request;
}

/// A receive that has not met its message can be cancelled; any other transfer ends with its endpoint. Only then is its
/// memory the caller's again.
void Fabric::cancel(Batch& batch) noexcept {
  if (worker_) {
    for (auto& transfer : batch.transfers_)
      if (transfer.request && transfer.direction == Batch::Direction::receive)
        ucp_request_cancel(worker_.get(), transfer.request);
    if (!drain(batch, Milliseconds(20))) {
      for (const auto& transfer : batch.transfers_)
        if (transfer.request) force_close(peers_[transfer.peer.value]);
      // UCX 1.13 keeps a large receive whose sender died half-way, even when its endpoint is closed.
      if (!drain(batch, Milliseconds(100))) {
        force_close_all();
        worker_.reset();
      }
    }
  }
  batch.transfers_.clear();
  batch.open_ = 0;
}

bool Fabric::drain(const Batch& batch, Milliseconds limit) noexcept {
  const Deadline deadline = Deadline::after(limit);
  while (!batch.done() && !deadline.expired())
    if (ucp_worker_progress(worker_.get()) == 0) std::this_thread::yield();
  return batch.done();
}

/// A finished send may still lie in a buffer of UCX, from where a forced close would throw it away.
void Fabric::flush(Milliseconds limit) noexcept {
  const ucp_request_param_t how{};
  void* request = ucp_worker_flush_nbx(worker_.get(), &how);
  if (!UCS_PTR_IS_PTR(request)) return;
  closing_.push_back(request);
  const Deadline deadline = Deadline::after(limit);
  while (ucp_request_check_status(request) == UCS_INPROGRESS && !deadline.expired())
    if (ucp_worker_progress(worker_.get()) == 0) std::this_thread::yield();
}

void Fabric::force_close(Peer& peer) noexcept {
  if (!peer.endpoint) return;
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &how);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

void Fabric::force_close_all() noexcept {
  if (!worker_) return;
  for (Peer& peer : peers_) force_close(peer);
  const Deadline deadline = Deadline::after(Milliseconds(200));
  for (void* request : closing_) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS && !deadline.expired())
      ucp_worker_progress(worker_.get());
    ucp_request_free(request);
  }
  closing_.clear();
}

void Fabric::close() {
  closing_down_ = true;
  Batch batch(*this);
  for (const Peer& peer : peers_) {
    if (peer.rank == self_) continue;
    receive(batch, {}, peer.rank, Channel::goodbye, 0, 0);
    send(batch, {}, peer.rank, Channel::goodbye, 0, 0);
  }
  wait(batch, kGoodbye);
  flush(Milliseconds(500));
  closed_ = true;
  force_close_all();
}

void Fabric::on_peer_error(void* argument, ucp_ep_h, ucs_status_t status) {
  auto& peer = *static_cast<Peer*>(argument);
  peer.fabric->mark_lost(peer.rank, Evidence::broken_connection,
                         fmt::format("the connection to {} broke ({}): its process or its node died",
                                     peer.fabric->name(peer.rank), ucx_text(status)));
}

}  // namespace distdl::comm
