// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <distdl/comm/ucx/ucx_handles.hpp>
#include <distdl/comm/ucx/wire_tag.hpp>

namespace distdl::comm {

/// A process that reaches a rank's worker but does not belong to the job. It can send any bytes.
class Rogue {
 public:
  Rogue(const Options& options, const std::string& address);
  ~Rogue();
  Rogue(const Rogue&) = delete;
  Rogue& operator=(const Rogue&) = delete;
  void send(const std::string& bytes, std::uint64_t tag);
  /// Did anything come back on any tag?
  bool heard_anything();
  /// Its own UCX address, for a forged peer address.
  std::string address() const { return address_of(worker_.get(), AddressKind::full); }
  ucp_ep_h endpoint() const { return endpoint_; }
  ucp_worker_h worker() const { return worker_.get(); }
  void finish(void* request);

 private:
  UcxContext context_;
  UcxWorker worker_;
  ucp_ep_h endpoint_ = nullptr;
};

}  // namespace distdl::comm
