// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include <distdl/train/audit/audit_rules.hpp>
#include <distdl/train/sync/own_order.hpp>

namespace distdl::train {

OwnOrder::OwnOrder(const parallel::MicrobatchPlan& plan, Rank self, const OwnGroups& groups, std::int64_t audit_every)
    : plan_(plan),
      self_(self),
      audit_every_(audit_every),
      groups_(groups.all),
      range_(plan.of(self)),
      own_{groups.own.first * plan.microbatches + range_.first,
           (groups.own.count - 1) * plan.microbatches + range_.count} {}

std::int64_t OwnOrder::after(Step step, int m) const {
  const int end = own_.first + own_.count;
  const bool is_own = m >= own_.first && m < end;
  if (is_own && m + 1 < end) return m + 1;
  if (is_own)
    if (const auto other = recomputed_microbatch(plan_, audit_every_, self_, step)) return *other;
  return groups_ * plan_.microbatches + own_.first;
}

comm::LeafRange OwnOrder::divided_with(int m) const {
  return {m / plan_.microbatches * plan_.microbatches + range_.first, range_.count};
}

}  // namespace distdl::train
