// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include <distdl/parallel/server/step_parts.hpp>
#include <distdl/train/compute/reading_order.hpp>

namespace distdl::train {

/// Reads the microbatches that a worker of a parameter server is likely to be leased, if all workers are equally fast.
class LeaseOrder final : public ReadingOrder {
 public:
  LeaseOrder(parallel::server::StepParts parts, int workers) : parts_(std::move(parts)), workers_(workers) {}

  int first() const override { return 0; }
  std::int64_t after(Step, int m) const override { return next_microbatch(parts_, workers_, m); }
  comm::LeafRange divided_with(int m) const override {
    return comm::leaves_of(parts_.nodes[part_of(parts_, m)], parts_.microbatches);
  }

 private:
  parallel::server::StepParts parts_;
  int workers_;
};

}  // namespace distdl::train
