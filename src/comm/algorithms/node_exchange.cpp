// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <distdl/comm/algorithms/node_exchange.hpp>

namespace distdl::comm {
namespace {

constexpr std::size_t kHalves = 2;  ///< halves of a shared area: one is filled while the other is emptied

}  // namespace

Block part_of(Block block, std::size_t first, std::size_t count) {
  block.first += first;
  block.count = count;
  return block;
}

NodeExchange::NodeExchange(ScheduleBuilder& build, Way way) : build_(build) {
  if (way == Way::staged) half_ = kSharedBytes / build.problem().element / kHalves / build.line() * build.line();
  if (alone()) return;
  if (is_direct())
    build.open_memory();
  else
    build.reserve_shared(kHalves * half_);
}

void NodeExchange::run(const std::vector<Handover>& all) {
  if (is_direct()) return run_directly(all);
  // Where each lies in the stream of what its rank has for the others.
  std::vector<Piece> places;
  std::map<int, std::size_t> ends;
  std::size_t chunks = 0;
  for (const Handover& each : all) {
    std::size_t& end = ends[each.from.rank];
    places.push_back({end, each.from.count});
    const bool stays =
        std::all_of(each.to.begin(), each.to.end(), [&](const Block& to) { return to.rank == each.from.rank; });
    if (!stays) chunks = std::max(chunks, segments_in(places.back().end(), half_));
    end += build_.line() * segments_in(each.from.count, build_.line());
    for (const Block& to : each.to)
      if (to.rank == build_.rank() && each.from.rank == to.rank) build_.copy(each.from, to);
  }
  for (std::size_t i = 0; i <= chunks && chunks > 0; ++i) {
    if (stage_) build_.await_all(stage_);
    if (i < chunks) run_turn(all, places, i, true);
    if (i > 0) run_turn(all, places, i - 1, false);
    stage_ = build_.signal();
    ++turn_;
  }
}

/// Offers chunk `turn` of the own stream, or takes chunk `turn` of the others'.
void NodeExchange::run_turn(const std::vector<Handover>& all, const std::vector<Piece>& places, std::size_t turn,
                            bool offers) {
  const std::size_t room = (offers ? turn_ : turn_ - 1) % kHalves * half_;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const Piece chunk = overlap_of(places[k], {turn * half_, half_});
    if (chunk.count == 0) continue;
    const int giver = all[k].from.rank;
    const std::size_t first = chunk.first - places[k].first;
    const Block shared = ScheduleBuilder::shared_of(giver, {room + chunk.first - turn * half_, chunk.count});
    const auto is_taken = [&](const Block& to) { return to.rank != giver; };
    if (offers && giver == build_.rank() && std::any_of(all[k].to.begin(), all[k].to.end(), is_taken))
      build_.copy(part_of(all[k].from, first, chunk.count), shared);
    for (const Block& to : all[k].to)
      if (!offers && giver != build_.rank() && to.rank == build_.rank())
        build_.copy(shared, part_of(to, first, chunk.count));
  }
}

void NodeExchange::run_directly(const std::vector<Handover>& all) {
  for (const Handover& each : all) {
    if (each.to.empty()) continue;
    const bool pulled = each.to.front().space == Space::scratch;
    const Operand source{each.from, 0};
    if ((pulled ? each.to.front().rank : each.from.rank) == build_.rank()) build_.reduce({&source, 1}, each.to, false);
  }
}

void NodeExchange::meet() {
  if (is_direct() && !alone()) build_.await_all(build_.signal());
}

}  // namespace distdl::comm
