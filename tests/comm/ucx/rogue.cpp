// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/ucx/rogue.hpp"

#include <tuple>

#include <distdl/base/clock.hpp>

namespace distdl::comm {

Rogue::Rogue(const Options& options, const std::string& address) {
  std::tie(context_, worker_) = open_context_and_worker(options);
  const auto ignore = [](void*, ucp_ep_h, ucs_status_t) {};
  endpoint_ = open_endpoint(worker_.get(), address, ignore, nullptr);
}

Rogue::~Rogue() {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_EP_CLOSE_FLAG_FORCE;
  finish(ucp_ep_close_nbx(endpoint_, &how));
}

void Rogue::finish(void* request) {
  if (!UCS_PTR_IS_PTR(request)) return;
  const Deadline deadline = Deadline::after(Milliseconds(2000));
  while (ucp_request_check_status(request) == UCS_INPROGRESS && !deadline.expired()) ucp_worker_progress(worker_.get());
  ucp_request_free(request);
}

void Rogue::send(const std::string& bytes, std::uint64_t tag) {
  const ucp_request_param_t how{};
  finish(ucp_tag_send_nbx(endpoint_, bytes.data(), bytes.size(), tag, &how));
  const ucp_request_param_t flush{};
  finish(ucp_ep_flush_nbx(endpoint_, &flush));
}

bool Rogue::heard_anything() {
  ucp_tag_recv_info_t info;
  for (int i = 0; i < 1000; ++i) ucp_worker_progress(worker_.get());
  return ucp_tag_probe_nb(worker_.get(), 0, 0, 0, &info) != nullptr;
}

}  // namespace distdl::comm
