// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <tuple>

#include <distdl/comm/algorithms/doubling_sum.hpp>

namespace distdl::comm {

DoublingSum::DoublingSum(ScheduleBuilder& build, std::vector<int> members, std::span<const LeafRange> leaves, int all,
                         std::size_t count)
    : build_(build), members_(std::move(members)), count_(count) {
  self_ = static_cast<int>(std::find(members_.begin(), members_.end(), build.rank()) - members_.begin());
  plan_tree(leaves, all);
  for (std::size_t level = 0; level < path_.size(); ++level) plan_hops(static_cast<int>(level));
  std::sort(hops_.begin(), hops_.end(), [](const Hop& a, const Hop& b) {
    return std::tuple(a.round, a.level, a.sending, a.peer) < std::tuple(b.round, b.level, b.sending, b.peer);
  });
  arrivals_ = build.reserve_scratch(path_.size() * build.line() * segments_in(count, build.line()));
}

void DoublingSum::plan_tree(std::span<const LeafRange> leaves, int all) {
  const auto reductions = reductions_of(leaves, all, Order::deterministic);
  std::vector<int> open;
  for (int i = 0; i < static_cast<int>(members_.size()); ++i) {
    open.push_back(static_cast<int>(nodes_.size()));
    nodes_.push_back({i, i, i + 1});
    for (int k = 0; k < reductions[i]; ++k) reduce_newest(open);
  }
  plan_path(open.front());
}

void DoublingSum::reduce_newest(std::vector<int>& open) {
  const int right = open.back(), left = open[open.size() - 2];
  open.pop_back();
  const Node &a = nodes_[left], &b = nodes_[right];
  const Node &small = a.size() < b.size() ? a : b, &large = a.size() < b.size() ? b : a;
  const unsigned spread = (large.size() + small.size() - 1) / small.size();  // ranks that one rank's sum must reach
  const int ready = std::max(large.ready + 1, small.ready + static_cast<int>(std::bit_width(spread)));
  open.back() = static_cast<int>(nodes_.size());
  nodes_.push_back({a.first, b.first, b.end, left, right, ready});
}

void DoublingSum::plan_path(int root) {
  for (int at = root; nodes_[at].left >= 0;) {
    path_.insert(path_.begin(), at);
    at = self_ < nodes_[at].middle ? nodes_[at].left : nodes_[at].right;
  }
}

void DoublingSum::plan_hops(int level) {
  const Node& node = nodes_[path_[level]];
  const Node &a = nodes_[node.left], &b = nodes_[node.right];
  const Node &small = a.size() < b.size() ? a : b, &large = a.size() < b.size() ? b : a;
  const bool is_small = self_ >= small.first && self_ < small.end;
  const int place = self_ - (is_small ? small.first : large.first);
  if (is_small) hops_.push_back({large.ready, level, large.first + place, false, false});
  if (!is_small && place < small.size()) hops_.push_back({large.ready, level, small.first + place, true, true});
  // The rank of the small side and those of the large side that it serves, 0, 1, 2, ...; in round d the first 2^d of
  // them send to the next 2^d.
  const int serving = place % small.size();
  const int self = is_small ? 0 : place / small.size() + 1;
  const int all = (large.size() - serving + small.size() - 1) / small.size() + 1;
  const auto member = [&](int i) {
    return i == 0 ? small.first + serving : large.first + serving + (i - 1) * small.size();
  };
  for (int d = 0; 1 << d < all; ++d) {
    const int width = 1 << d, round = small.ready + d;
    if (self < width && self + width < all) hops_.push_back({round, level, member(self + width), true, is_small});
    if (self >= width && self < 2 * width) hops_.push_back({round, level, member(self - width), false, false});
  }
}

Block DoublingSum::arrival(int level) const {
  return build_.scratch({arrivals_ + level * build_.line() * segments_in(count_, build_.line()), count_});
}

void DoublingSum::begin(const Hop& hop, const Block& own, int group) {
  const int peer = members_[hop.peer];
  if (!hop.sending)
    build_.receive(peer, arrival(hop.level), group);
  else
    build_.send(peer, hop.own ? own : arrival(hop.level), group);
}

void DoublingSum::run(Block own, std::span<const Block> results) {
  if (path_.empty()) {
    const Operand only{own, 0};
    return build_.reduce({&only, 1}, results, true);
  }
  const int group = build_.new_group();
  std::size_t next = 0;
  for (std::size_t level = 0; level < path_.size(); ++level) {
    const Node& node = nodes_[path_[level]];
    for (int round = level ? nodes_[path_[level - 1]].ready : 0; round < node.ready; ++round) {
      for (; next < hops_.size() && hops_[next].round == round; ++next) begin(hops_[next], own, group);
      build_.wait(group);
    }
    const bool left = self_ < node.middle, last = level + 1 == path_.size();
    const Block other = arrival(static_cast<int>(level));
    const Operand sources[] = {{left ? own : other, 0}, {left ? other : own, 1}};
    build_.reduce(sources, last ? results : results.first(1), last);
    own = results[0];
  }
}

}  // namespace distdl::comm
