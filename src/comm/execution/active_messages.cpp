// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/comm/execution/active_messages.hpp>

namespace distdl::comm {
namespace {

constexpr unsigned kUcxId = 1;  ///< our own numbers are in the envelope
/// Bytes from which a payload goes straight to where its receiver wants it. Else UCX puts its pieces together in new
/// memory, out of which it is copied. See bench/results/parameter_server.md.
constexpr std::size_t kRendezvous = std::size_t{2} << 20;

void register_with(ucp_worker_h worker, ucp_am_recv_callback_t callback, void* argument) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = kUcxId;
  param.cb = callback;
  param.arg = argument;
  check_ucx(ucp_worker_set_am_recv_handler(worker, &param), "ucp_worker_set_am_recv_handler");
}

ucs_status_t ignore(void*, const void*, std::size_t, void*, std::size_t, const ucp_am_recv_param_t*) {
  return UCS_OK;
}

}  // namespace

ActiveMessages::ActiveMessages(Fabric& fabric) : fabric_(fabric) {
  fabric_.add(*this);
  register_with(fabric_.worker(), &on_message, this);
}

ActiveMessages::~ActiveMessages() {
  fabric_.remove(*this);
  cancel();
  if (fabric_.worker()) register_with(fabric_.worker(), &ignore, nullptr);
}

void ActiveMessages::handle(std::uint16_t number, Handler handler) {
  handlers_[number] = std::move(handler);
}

void ActiveMessages::send(Batch& batch, Rank to, std::uint16_t number, std::string_view header,
                          std::span<const std::byte> payload) {
  require(header.size() <= kLongestHeader,
          "active message {}: a header of {} bytes is too long, at most {} are possible", number, header.size(),
          kLongestHeader);
  // UCX wants the header to stay until the message is sent: as long as the transfer keeps this function.
  fabric_.start(batch, to,
                [envelope = Envelope{0, fabric_.rank().value, number}, header = std::string(header),
                 text = std::string(), payload](const Contact& contact, ucp_request_param_t& how) mutable {
                  envelope.token = contact.handshake.send_token();
                  text = encode(envelope, header);
                  if (payload.size() >= kRendezvous) {
                    how.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
                    how.flags |= UCP_AM_SEND_FLAG_RNDV;
                  }
                  return ucp_am_send_nbx(contact.endpoint, kUcxId, text.data(), text.size(), payload.data(),
                                         payload.size(), &how);
                });
}

/// Called within ucp_worker_progress: only takes what has come. The sender is checked when the handshake messages that
/// came before have been read.
ucs_status_t ActiveMessages::on_message(void* argument, const void* header, std::size_t header_size, void* data,
                                        std::size_t size, const ucp_am_recv_param_t* param) {
  auto& self = *static_cast<ActiveMessages*>(argument);
  const bool is_long = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
  Incoming incoming;
  const auto opened = decode_envelope({static_cast<const char*>(header), header_size});
  if (!opened) {
    self.fabric_.count_refused_message("its header cannot be decoded");
    return is_long ? UCS_ERR_REJECTED : UCS_OK;
  }
  incoming.envelope = opened->envelope;
  incoming.header = opened->header;
  const int from = incoming.envelope.from;
  if (from < 0 || from >= self.fabric_.size()) {
    self.fabric_.count_refused_message(fmt::format("it claims to come from rank {}, which does not exist", from));
    return is_long ? UCS_ERR_REJECTED : UCS_OK;
  }
  const bool has_spare = self.spare_ && size > 0;
  incoming.payload = has_spare ? std::exchange(self.spare_, nullptr) : std::make_shared<std::vector<std::byte>>();
  if (is_long) {
    incoming.descriptor = data;
    incoming.size = size;
  } else {
    const auto* bytes = static_cast<const std::byte*>(data);
    incoming.payload->assign(bytes, bytes + size);
  }
  self.incoming_[Rank(from)].push_back(std::move(incoming));
  return is_long ? UCS_INPROGRESS : UCS_OK;
}

bool ActiveMessages::advance() {
  for (auto& [from, queue] : incoming_)
    while (!queue.empty()) {
      Incoming& first = queue.front();
      const bool trusted = first.trusted || (first.trusted = trust(first));
      const Payload payload = trusted ? fetch(first) : Payload::gone;
      if (payload == Payload::on_its_way) break;
      if (payload == Payload::gone) drop(first);
      Incoming message = std::move(first);
      queue.pop_front();
      if (payload == Payload::here) deliver(std::move(message));
    }
  return false;
}

bool ActiveMessages::trust(const Incoming& incoming) {
  const Rank from(incoming.envelope.from);
  const Handshake* handshake = fabric_.handshake_with(from);
  const bool trusted = handshake && handshake->receive_token() == incoming.envelope.token;
  if (!trusted)
    fabric_.count_refused_message(fmt::format("rank {} has not finished its handshake, or did not send it", from));
  return trusted;
}

/// If the payload is not here, its way here begins. That of a lost rank does not come.
ActiveMessages::Payload ActiveMessages::fetch(Incoming& incoming) {
  const Rank from(incoming.envelope.from);
  if ((incoming.descriptor || incoming.request) && fabric_.is_lost(from)) return Payload::gone;
  if (incoming.descriptor) {
    incoming.payload->resize(incoming.size);
    ucp_request_param_t how{};
    void* request = ucp_am_recv_data_nbx(fabric_.worker(), std::exchange(incoming.descriptor, nullptr),
                                         incoming.payload->data(), incoming.size, &how);
    if (!UCS_PTR_IS_PTR(request)) return arrived(UCS_PTR_STATUS(request), from);
    incoming.request = request;
  }
  if (!incoming.request) return Payload::here;
  const ucs_status_t status = ucp_request_check_status(incoming.request);
  if (status == UCS_INPROGRESS) return Payload::on_its_way;
  ucp_request_free(std::exchange(incoming.request, nullptr));
  return arrived(status, from);
}

/// A connection may fail before the loss behind it is known.
ActiveMessages::Payload ActiveMessages::arrived(ucs_status_t status, Rank from) const {
  if (status != UCS_OK && fabric_.tolerates(from)) return Payload::gone;
  check_ucx(status, fmt::format("the payload of an active message of {}", fabric_.name(from)));
  return Payload::here;
}

void ActiveMessages::drop(Incoming& incoming) noexcept {
  ucp_worker_h worker = fabric_.worker();
  if (incoming.descriptor && worker) ucp_am_data_release(worker, incoming.descriptor);
  if (incoming.request) {
    fabric_.keep(incoming.payload);  // UCX may still write to it
    if (worker) ucp_request_free(incoming.request);
  }
}

void ActiveMessages::deliver(Incoming incoming) {
  ++handled_;
  const auto handler = handlers_.find(static_cast<std::uint16_t>(incoming.envelope.number));
  if (handler == handlers_.end() || !handler->second)
    return fabric_.count_refused_message(fmt::format("there is no handler for number {}", incoming.envelope.number));
  handler->second(Rank(incoming.envelope.from), incoming.header, *incoming.payload);
  if (!spare_ || spare_->capacity() < incoming.payload->capacity()) spare_ = std::move(incoming.payload);
}

void ActiveMessages::cancel() noexcept {
  for (auto& [from, queue] : incoming_)
    for (auto& one : queue) drop(one);
  incoming_.clear();
}

}  // namespace distdl::comm
