// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/comm/sum_tree.hpp>
#include <distdl/parallel/server/range_bytes.hpp>

namespace distdl::parallel::server {
namespace {
void add(RangeGradient& to, const RangeGradient& from) {
  for (std::size_t i = 0; i < to.values.size(); ++i) to.values[i] += from.values[i];
  for (std::size_t i = 0; i < to.tail.size(); ++i) to.tail[i] += from.tail[i];
}
}  // namespace

Values RangeBytes::read(Version version) {
  if (auto found = find(version)) return found;
  require<InternalError>(version == version_, "version {} of a range is not there any more; report this as a defect",
                         version);
  auto code = memory_->take(code_->bytes());
  code_->encode(newest_, code->as<std::byte>().data());
  return versions_[version] = std::move(code);
}

Values RangeBytes::find(Version version) const {
  const auto found = versions_.find(version);
  return found == versions_.end() ? nullptr : found->second;
}

void RangeBytes::store(Microbatch microbatch, RangeGradient gradient) {
  if (mode_ != Mode::synchronous) {
    gradients_.emplace(microbatch, std::move(gradient));
    return;
  }
  const int leaves = parts_->microbatches;
  comm::TreeNode node = parts_->node_of(microbatch);
  for (const int root = comm::root_level(leaves); node.level < root; node = {node.level + 1, node.index / 2}) {
    const comm::TreeNode other{node.level, node.index ^ 1};
    if (comm::leaves_of(other, leaves).count == 0) continue;
    const auto found = sums_.find({other.level, other.index});
    if (found == sums_.end()) break;
    if (other.index < node.index) std::swap(found->second, gradient);
    add(gradient, found->second);
    sums_.erase(found);
  }
  sums_.emplace(std::pair(node.level, node.index), std::move(gradient));
}

RangeGradient RangeBytes::take(const Apply& apply) {
  version_ = apply.version;
  if (mode_ != Mode::synchronous) return std::move(gradients_.extract(apply.microbatches.front()).mapped());
  const auto root = sums_.extract({comm::root_level(parts_->microbatches), 0});
  require<InternalError>(!root.empty() && sums_.empty(), "{}", "a step of a range has no sum; report this as a defect");
  return std::move(root.mapped());
}

}  // namespace distdl::parallel::server
