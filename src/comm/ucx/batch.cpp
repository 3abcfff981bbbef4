// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/ucx/batch.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {

Batch::Batch(Fabric& fabric) : Batch(fabric.connections()) {}

Batch::~Batch() {
  connections_.cancel(*this);
}

Batch::Transfer& Batch::add(Rank peer, Kind kind) {
  ++open_;
  return transfers_.emplace_back(Transfer{.batch = this, .peer = peer, .kind = kind});
}

void Batch::begun(Transfer& transfer, ucs_status_ptr_t request) {
  if (!UCS_PTR_IS_PTR(request))
    finish(transfer, UCS_PTR_STATUS(request), 0);
  else if (transfer.is_open())  // else the callback has come already
    transfer.request = request;
}

void Batch::finish(Transfer& transfer, ucs_status_t status, std::size_t received) {
  transfer.status = status;
  transfer.received = received;
  transfer.request = nullptr;
  --open_;
  if (status == UCS_OK) end_span(transfer.span);
  failed_ |= status != UCS_OK || (transfer.kind == Kind::receive && received != transfer.size);
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

void Batch::add_awaited(std::vector<Rank>& ranks) const {
  for (bool receives : {true, false})
    for (const auto& transfer : transfers_)
      if (transfer.is_open() && (transfer.kind == Kind::receive) == receives &&
          std::find(ranks.begin(), ranks.end(), transfer.peer) == ranks.end())
        ranks.push_back(transfer.peer);
}

bool Batch::receives_from(Rank rank) const {
  return std::any_of(transfers_.begin(), transfers_.end(), [&](const Transfer& transfer) {
    return transfer.is_open() && transfer.kind == Kind::receive && transfer.peer == rank;
  });
}

}  // namespace distdl::comm
