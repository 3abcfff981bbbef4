// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <distdl/comm/execution/pending.hpp>

namespace distdl::comm {

enum class Direction { send, receive };

/// One message between two ranks.
class Transfer final : public Request::Pending {
 public:
  explicit Transfer(Fabric& fabric) : Pending(fabric), batch_(fabric), fabric_(fabric) {}

  Batch& begin(Operation operation) {
    operation_ = operation;
    return batch_;
  }
  void add_awaited(std::vector<Rank>& ranks) const override { batch_.add_awaited(ranks); }
  Operation operation() const override { return operation_; }
  void cancel() noexcept override { fabric_.cancel(batch_); }

 private:
  bool proceed() override {
    if (!batch_.done()) return false;
    fabric_.check(batch_, operation_);
    return true;
  }

  Batch batch_;
  Fabric& fabric_;
  Operation operation_;
};

}  // namespace distdl::comm
