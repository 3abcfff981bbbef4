// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {
namespace {
constexpr std::size_t kLineBytes = 64;

std::size_t round_up(std::size_t count, std::size_t unit) {
  return (count + unit - 1) / unit * unit;
}

}  // namespace

Piece slice_of(Piece whole, std::size_t parts, std::size_t index, std::size_t line) {
  const std::size_t lines = (whole.count + line - 1) / line;
  const std::size_t each = lines / parts, more = lines % parts;
  const std::size_t first = std::min(whole.count, (index * each + std::min(index, more)) * line);
  const std::size_t end = std::min(whole.count, ((index + 1) * each + std::min(index + 1, more)) * line);
  return {whole.first + first, end - first};
}

Piece segment_of(Piece whole, std::size_t index, std::size_t length) {
  const std::size_t first = std::min(whole.count, index * length);
  return {whole.first + first, std::min(length, whole.count - first)};
}

std::size_t segments_in(std::size_t count, std::size_t length) {
  return (count + length - 1) / length;
}

Piece overlap_of(Piece a, Piece b) {
  const std::size_t first = std::max(a.first, b.first), end = std::min(a.end(), b.end());
  return {first, end > first ? end - first : 0};
}

ScheduleBuilder::ScheduleBuilder(const Problem& problem, const Choice& choice) : problem_(problem), choice_(choice) {
  schedule_.rank = problem.rank;
  for (int r = 0; r < problem.size; ++r)
    if (problem.nodes[r] == problem.nodes[problem.rank]) node_ranks_.push_back(r);
  total_ = problem.counts.empty() ? problem.count : 0;
  for (std::size_t count : problem.counts) {
    offsets_.push_back(total_);
    total_ += count;
  }
}

std::size_t ScheduleBuilder::line() const {
  return std::max<std::size_t>(1, kLineBytes / problem_.element);
}

std::size_t ScheduleBuilder::segment(std::size_t longest) const {
  const std::size_t wished = choice_.segment ? round_up(choice_.segment, line()) : longest;
  return std::max<std::size_t>(1, std::min(wished, longest));
}

Piece ScheduleBuilder::slice(int owner) const {
  if (offsets_.empty()) return slice_of(whole(), size(), owner, line());
  return {offsets_[owner], problem_.counts[owner]};
}

Block ScheduleBuilder::input_of(int owner, Piece piece, int part) const {
  const bool own_slice = problem_.collective == Collective::all_gather || problem_.collective == Collective::gather;
  const std::size_t begin = own_slice ? offsets_[owner] : 0;
  return {owner, Space::input, static_cast<std::uint16_t>(part), piece.first - begin, piece.count};
}

Block ScheduleBuilder::output_of(int owner, Piece piece) const {
  const bool own_slice =
      problem_.collective == Collective::reduce_scatter || problem_.collective == Collective::scatter;
  const std::size_t begin = own_slice ? offsets_[owner] : 0;
  return {owner, Space::output, 0, piece.first - begin, piece.count};
}

std::size_t ScheduleBuilder::reserve_scratch(std::size_t count) {
  const std::size_t first = round_up(schedule_.scratch, line());
  schedule_.scratch = first + count;
  return first;
}

std::size_t ScheduleBuilder::reserve_shared(std::size_t count) {
  const std::size_t first = round_up(schedule_.shared, line());
  schedule_.shared = first + count;
  return first;
}

bool ScheduleBuilder::is_empty(const Block& block) const {
  return block.count == 0 && problem_.collective != Collective::barrier;
}

ScheduleStep& ScheduleBuilder::add(ScheduleStep::Kind kind) {
  ScheduleStep& step = schedule_.steps.emplace_back();
  step.kind = kind;
  return step;
}

void ScheduleBuilder::send(int peer, Block block, int group) {
  if (is_empty(block)) return;
  ScheduleStep& step = add(ScheduleStep::Kind::send);
  step.peer = peer;
  step.block = block;
  step.group = static_cast<std::uint16_t>(group);
  idle_.resize(schedule_.groups, true);
  idle_[group] = false;
}

void ScheduleBuilder::receive(int peer, Block block, int group) {
  if (is_empty(block)) return;
  send(peer, block, group);
  schedule_.steps.back().kind = ScheduleStep::Kind::receive;
}

void ScheduleBuilder::wait(int group) {
  idle_.resize(schedule_.groups, true);
  if (idle_[group]) return;
  add(ScheduleStep::Kind::wait).group = static_cast<std::uint16_t>(group);
  idle_[group] = true;
}

void ScheduleBuilder::reduce(std::span<const Operand> sources, std::span<const Block> targets, bool last) {
  if (sources.empty() || targets.empty() || sources.front().block.count == 0) return;
  ScheduleStep& step = add(ScheduleStep::Kind::reduce);
  step.sources = static_cast<std::uint32_t>(schedule_.sources.size());
  step.source_count = static_cast<std::uint32_t>(sources.size());
  step.targets = static_cast<std::uint32_t>(schedule_.targets.size());
  step.target_count = static_cast<std::uint32_t>(targets.size());
  step.last = last;
  schedule_.sources.insert(schedule_.sources.end(), sources.begin(), sources.end());
  schedule_.targets.insert(schedule_.targets.end(), targets.begin(), targets.end());
}

void ScheduleBuilder::copy(Block from, Block to, bool last) {
  const Operand source{from, 0};
  reduce({&source, 1}, {&to, 1}, last);
}

std::uint32_t ScheduleBuilder::signal() {
  add(ScheduleStep::Kind::signal).stage = ++stage_;
  schedule_.uses_node_ranks = true;
  return stage_;
}

void ScheduleBuilder::await(int peer, std::uint32_t stage) {
  ScheduleStep& step = add(ScheduleStep::Kind::await);
  step.peer = peer;
  step.stage = stage;
  schedule_.uses_node_ranks = true;
}

void ScheduleBuilder::await_all(std::uint32_t stage) {
  const auto self = std::find(node_ranks_.begin(), node_ranks_.end(), rank());
  // Each rank begins with another peer.
  for (auto peer = self + 1; peer != node_ranks_.end(); ++peer) await(*peer, stage);
  for (auto peer = node_ranks_.begin(); peer != self; ++peer) await(*peer, stage);
}

std::vector<Operand> operands(std::span<const Block> blocks, std::span<const std::uint16_t> reductions) {
  std::vector<Operand> all;
  for (std::size_t i = 0; i < blocks.size(); ++i) all.push_back({blocks[i], reductions[i]});
  return all;
}

}  // namespace distdl::comm
