// SPDX-License-Identifier: Apache-2.0
// Endpoints: opened when needed, used when the peer behind them has proved itself.
#include <algorithm>
#include <thread>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/comm/ucx/connections.hpp>
#include <distdl/comm/ucx/network_device.hpp>

namespace distdl::comm {
namespace {
constexpr int kMostWarnings = 10;
}

const Connections::Peer* Connections::known(Rank rank) const {
  return rank.value >= 0 && rank.value < size() && rank != self_ ? &peers_[rank.value] : nullptr;
}

void Connections::open(Peer& peer) {
  peer.opened = true;
  peer.handshake.emplace(secret_, self_, peer.rank, own_address_.generation);
  if (events_.opened) events_.opened(peer.rank);
  const bool same_memory = share_memory(self_, peer.rank);
  try {
    peer.endpoint = open_endpoint(worker_.get(), same_memory ? peer.address.full_address : peer.address.network_address,
                                  &on_peer_error, &peer);
  } catch (const CommError& error) {
    return events_.broke(peer.rank,
                         fmt::format("cannot connect to {}: {}; {}", name(peer.rank), error.what(), why_unreachable()));
  }
  post_small(peer, Channel::hello, encode(peer.handshake->hello()));
}

/// A link that has just come back refuses the first connection ("No route to host"), until the kernel has asked anew
/// for the peer's hardware address. A peer that is gone refuses the second one, too.
void Connections::on_peer_error(void* argument, ucp_ep_h, ucs_status_t status) {
  auto& peer = *static_cast<Peer*>(argument);
  Connections& all = *peer.connections;
  if (!peer.proved() && !peer.said_hello && !all.closing_down_ && !std::exchange(peer.reopened, true)) {
    peer.reopens = all.reopens_ = true;  // within this callback UCX lets nobody close an endpoint
    return;
  }
  all.events_.broke(peer.rank, fmt::format("the connection to {} failed ({}): its process or its node died",
                                           all.name(peer.rank), ucx_text(status)));
}

void Connections::reopen() {
  reopens_ = false;
  for (Peer& peer : peers_) {
    if (!std::exchange(peer.reopens, false) || !peer.endpoint) continue;
    force_close(peer);
    if (worker_ && !closed_) open(peer);
  }
}

/// Handshake messages and control messages: short enough to be sent eagerly, so the receiver need not take part.
void Connections::post_small(Peer& peer, Channel channel, std::string bytes) {
  if (!worker_ || !peer.endpoint) return;
  if (outbox_.done()) {
    outbox_.transfers_.clear();
    sent_text_.clear();
  }
  const std::string& text = sent_text_.emplace_back(std::move(bytes));
  auto& transfer = outbox_.add(peer.rank, Batch::Kind::send);
  transfer.data = const_cast<char*>(text.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  transfer.size = text.size();
  begin_send(transfer, tag(self_, {.channel = channel}));
}

void Connections::listen(Inbox& inbox, Channel channel, std::uint64_t mask, std::size_t longest) {
  inbox.text.assign(longest, '\0');
  auto& transfer = inbox.batch.add(self_, Batch::Kind::receive);
  transfer.data = inbox.text.data();
  transfer.size = inbox.text.size();
  begin_receive(transfer, tag(Rank(0), {.channel = channel}), mask);
}

std::optional<std::string> Connections::take(Inbox& inbox) {
  if (!inbox.batch.done() || inbox.batch.transfers_.empty()) return std::nullopt;
  const auto arrived = inbox.batch.transfers_.front();
  inbox.batch.transfers_.clear();
  // A message that was too long is garbage, and so is no message.
  return arrived.status == UCS_OK ? inbox.text.substr(0, arrived.received) : "";
}

void Connections::read_handshakes() {
  if (reopens_) reopen();
  while (const auto bytes = take(handshake_messages_)) {
    listen(handshake_messages_, Channel::hello, kAnyGeneration, kLongestHandshake);
    if (const auto handshake_message = decode_handshake(*bytes))
      std::visit([this](const auto& one) { handle(one); }, *handshake_message);
    else
      refuse_handshake(fmt::format("its {} bytes cannot be decoded", bytes->size()));
  }
}

void Connections::handle(const Hello& hello) {
  if (hello.generation != own_address_.generation)
    return refuse_handshake(fmt::format("it claims to come from rank {} of generation {}, but this is generation {}",
                                        hello.from, hello.generation, own_address_.generation));
  if (!known(hello.from) || hello.to != self_)
    return refuse_handshake(
        fmt::format("it claims to go from rank {} to rank {}, in a world of {} ranks", hello.from, hello.to, size()));
  Peer* peer = &peers_[hello.from.value];
  if (!peer->opened && !closed_) open(*peer);
  if (!std::exchange(peer->said_hello, true) && peer->opened && closing_down_) exchange_close(*peer);
  if (!peer->handshake) return;  // this rank is closed and has never opened that one
  // The answer goes to the endpoint that the rank has published, whoever sent the hello.
  if (const auto proof = peer->handshake->answer(hello))
    post_small(*peer, Channel::hello, encode(*proof));
  else
    refuse_handshake(fmt::format("{} has sent too many hellos", name(peer->rank)));
}

void Connections::handle(const Proof& proof) {
  Peer* peer = known(proof.from) ? &peers_[proof.from.value] : nullptr;
  if (!peer || !peer->handshake)
    return refuse_handshake(fmt::format("a proof of rank {} was not requested", proof.from));
  const bool before = peer->handshake->proved();
  if (!peer->handshake->accept(proof)) {
    ++peer->wrong_proofs;
    return refuse_handshake(fmt::format("a proof is wrong, which claims to come from {}", name(peer->rank)));
  }
  if (!before) begin_queued(*peer);
}

void Connections::finish_handshakes(Clock::duration limit, const std::function<bool(Rank)>& matters) {
  const auto is_handshaking = [&](const Peer& peer) {
    return peer.endpoint && peer.handshake && !peer.handshake->proved() && matters(peer.rank);
  };
  const Deadline deadline = Deadline::after(limit);
  while (worker_ && !deadline.expired() && std::any_of(peers_.begin(), peers_.end(), is_handshaking)) {
    if (!progress()) std::this_thread::yield();
    read_handshakes();
  }
}

void Connections::send_control(Rank rank, const std::string& text) {
  Peer& peer = peers_[rank.value];
  if (peer.proved()) post_small(peer, Channel::control, peer.handshake->seal(text));
}

void Connections::refuse_handshake(const std::string& why) {
  if (++refused_.handshake_messages <= kMostWarnings) log(Severity::warning, "refused a handshake message: {}", why);
}

void Connections::count_refused_message(const std::string& what) {
  if (++refused_.messages <= kMostWarnings) log(Severity::warning, "refused an active message: {}", what);
}

void Connections::force_close(Peer& peer) noexcept {
  if (!peer.endpoint) return;
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &how);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

void Connections::force_close_all() noexcept {
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

}  // namespace distdl::comm
