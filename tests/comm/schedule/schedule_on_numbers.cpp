// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/schedule/schedule_on_numbers.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>

namespace distdl::comm {
namespace {

using Number = std::uint64_t;
constexpr Number kRubbish = 0xDEADBEEF;

Number operand(int rank, int part, std::size_t element) {
  return (rank * 1000003ULL + part * 7919ULL + element + 1) * 0x9E3779B97F4A7C15ULL;
}

Number add(Number a, Number b, Order order) {
  return order == Order::any ? a + b : a * 6364136223846793005ULL + std::rotl(b, 23) * 3202034522624059733ULL + 1;
}

Number finish(Number sum) {
  return 3 * sum + 7;
}

std::size_t total(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::size_t before(const std::vector<std::size_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

bool is_sum(const Problem& problem) {
  return problem.collective == Collective::reduce || problem.collective == Collective::all_reduce ||
         problem.collective == Collective::reduce_scatter;
}

std::vector<TreeNode> parts_of(const Problem& problem, int rank) {
  if (!is_sum(problem) || problem.ranges.empty()) return {{0, rank}};
  return cover(problem.ranges[rank], problem.leaves);
}

/// The sum along the tree of one element, from what the ranks bring.
Number tree_sum(const Problem& problem, TreeNode node, std::size_t element, Order order) {
  const int leaves = problem.ranges.empty() ? problem.size : problem.leaves;
  for (int r = 0; r < problem.size; ++r) {
    const auto parts = parts_of(problem, r);
    for (std::size_t p = 0; p < parts.size(); ++p)
      if (leaves_of(parts[p], leaves) == leaves_of(node, leaves)) return operand(r, static_cast<int>(p), element);
  }
  const TreeNode right{node.level - 1, 2 * node.index + 1};
  const Number left = tree_sum(problem, {node.level - 1, 2 * node.index}, element, order);
  return leaves_of(right, leaves).count ? add(left, tree_sum(problem, right, element, order), order) : left;
}

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Transfer {
  const ScheduleStep* step;
  Number *from = nullptr, *to = nullptr;
  bool matched = false, delivered = false;
};

struct Rank {
  std::vector<std::vector<Number>> inputs;
  std::vector<Number> output, scratch, shared, result;
  std::size_t input_size = 0, output_size = 0;
  std::ptrdiff_t input_at = -1, output_at = 0;  ///< in `output`; input_at -1: apart
  bool begun = false, ended = false, arrived = false;
  std::size_t next = 0;
  std::uint32_t stage = 0;
  std::map<int, std::vector<Transfer*>> groups;
};

class NumberRun {
 public:
  NumberRun(std::span<const Problem> problems, std::span<const Schedule> schedules, Order order, bool in_place,
            unsigned seed)
      : problems_(problems), schedules_(schedules), order_(order), random_(seed), ranks_(problems.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) lay_out(static_cast<int>(r), in_place);
  }

  void run() {
    std::vector<int> order(ranks_.size());
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t ended = 0; ended < ranks_.size();) {
      std::shuffle(order.begin(), order.end(), random_);
      bool moved = false;
      for (int r : order) {
        for (auto burst = random_() % 4; burst > 0 && !ranks_[r].ended && step(r); --burst) moved = true;
        if (random_() % 4 == 0) deliver_one();
      }
      ended = std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
      if (!moved && ended < ranks_.size()) {
        for (int r : order) moved |= !ranks_[r].ended && step(r);
        if (!moved) throw Wrong("nobody can go on");
      }
    }
    for (const auto& [pair, queue] : channels_)
      if (!queue.empty()) throw Wrong("a message is left over");
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].result != expected(static_cast<int>(r))) throw Wrong("wrong result");
  }

 private:
  void lay_out(int r, bool in_place) {
    const Problem& problem = problems_[r];
    const std::size_t all = total(problem.counts);
    const bool root = r == problem.root;
    Rank& rank = ranks_[r];
    switch (problem.collective) {
      case Collective::barrier:
        break;
      case Collective::broadcast:
        rank.input_size = root ? problem.count : 0, rank.output_size = problem.count;
        break;
      case Collective::reduce:
        rank.input_size = problem.count, rank.output_size = root ? problem.count : 0;
        break;
      case Collective::all_reduce:
        rank.input_size = rank.output_size = problem.count;
        break;
      case Collective::reduce_scatter:
        rank.input_size = all, rank.output_size = problem.counts[r];
        break;
      case Collective::all_gather:
        rank.input_size = problem.counts[r], rank.output_size = all;
        break;
      case Collective::gather:
        rank.input_size = problem.counts[r], rank.output_size = root ? all : 0;
        break;
      case Collective::scatter:
        rank.input_size = root ? all : 0, rank.output_size = problem.counts[r];
        break;
      case Collective::all_to_all:
        rank.input_size = total(problem.send_counts), rank.output_size = total(problem.receive_counts);
    }
    rank.inputs.assign(parts_of(problem, r).size(), std::vector<Number>(rank.input_size, kRubbish));
    std::size_t room = rank.output_size;
    if (in_place && rank.input_size && rank.output_size && !rank.inputs.empty()) {
      const std::ptrdiff_t offset = in_place_offset(problem);
      rank.output_at = std::max<std::ptrdiff_t>(0, -offset);
      rank.input_at = rank.output_at + offset;
      room = std::max(rank.output_at + rank.output_size, rank.input_at + rank.input_size);
    }
    rank.output.assign(room, kRubbish);
    rank.scratch.assign(schedules_[r].scratch, kRubbish);
    rank.shared.assign(schedules_[r].shared, kRubbish);
  }

  Number* find(int self, const Block& block) {
    if (block.rank < 0 || block.rank >= problems_[self].size ||
        problems_[self].nodes[block.rank] != problems_[self].nodes[self])
      throw Wrong("not a rank of the same node");
    Rank& rank = ranks_[block.rank];
    std::size_t size = rank.input_size;
    Number* data = nullptr;
    if (block.space == Space::input) {
      if (block.part >= rank.inputs.size()) throw Wrong("no such part");
      data =
          block.part == 0 && rank.input_at >= 0 ? rank.output.data() + rank.input_at : rank.inputs[block.part].data();
    } else if (block.space == Space::output) {
      size = rank.output_size, data = rank.output.data() + rank.output_at;
    } else {
      auto& space = block.space == Space::scratch ? rank.scratch : rank.shared;
      size = space.size(), data = space.data();
    }
    if (block.first + block.count > size) throw Wrong("out of bounds");
    return data + block.first;
  }

  void begin(int r) {
    Rank& rank = ranks_[r];
    rank.begun = true;
    if (problems_[r].collective == Collective::barrier) return;
    std::fill(rank.output.begin(), rank.output.end(), kRubbish);
    for (std::size_t part = 0; part < rank.inputs.size(); ++part) {
      Number* data = part == 0 && rank.input_at >= 0 ? rank.output.data() + rank.input_at : rank.inputs[part].data();
      for (std::size_t e = 0; e < rank.input_size; ++e) data[e] = operand(r, static_cast<int>(part), e);
    }
  }

  void end(int r) {
    Rank& rank = ranks_[r];
    for (const auto& [group, transfers] : rank.groups)
      if (!transfers.empty()) throw Wrong("ends without waiting");
    if (problems_[r].collective == Collective::barrier)
      for (const Rank& other : ranks_)
        if (!other.begun) throw Wrong("leaves before all have come");
    rank.result.assign(rank.output.begin() + rank.output_at, rank.output.begin() + rank.output_at + rank.output_size);
    std::fill(rank.output.begin(), rank.output.end(), kRubbish);
    for (auto& part : rank.inputs) std::fill(part.begin(), part.end(), kRubbish);
    rank.ended = true;
  }

  bool is_on_node(int a, int b) const { return problems_[a].nodes[a] == problems_[a].nodes[b]; }

  /// False if the rank must wait.
  bool step(int r) {
    Rank& rank = ranks_[r];
    if (!rank.begun) {
      begin(r);
      if (schedules_[r].reads_node_ranks) rank.stage = 1;
      return true;
    }
    if (schedules_[r].reads_node_ranks && !rank.arrived) {
      for (std::size_t q = 0; q < ranks_.size(); ++q)
        if (is_on_node(r, static_cast<int>(q)) && ranks_[q].stage < 1) return false;
      rank.arrived = true;
    }
    if (rank.next == schedules_[r].steps.size()) {
      end(r);
      return true;
    }
    if (!perform(r, schedules_[r].steps[rank.next])) return false;
    ++rank.next;
    return true;
  }

  bool perform(int r, const ScheduleStep& step) {
    Rank& rank = ranks_[r];
    switch (step.kind) {
      case ScheduleStep::Kind::send:
      case ScheduleStep::Kind::receive:
        begin_transfer(r, step);
        return true;
      case ScheduleStep::Kind::wait: {
        auto& group = rank.groups[step.group];
        if (!std::all_of(group.begin(), group.end(), [](Transfer* each) { return each->matched; })) return false;
        for (Transfer* each : group) deliver(*each);
        group.clear();
        return true;
      }
      case ScheduleStep::Kind::reduce:
        reduce(r, step);
        return true;
      case ScheduleStep::Kind::signal:
        if (step.stage <= rank.stage) throw Wrong("stages must ascend");
        rank.stage = step.stage;
        return true;
      case ScheduleStep::Kind::await:
        if (step.peer < 0 || step.peer >= static_cast<int>(ranks_.size()) || step.peer == r ||
            !is_on_node(r, step.peer))
          throw Wrong("awaits a rank of another node");
        return ranks_[step.peer].stage >= step.stage;
    }
    return true;
  }

  void begin_transfer(int r, const ScheduleStep& step) {
    const bool sending = step.kind == ScheduleStep::Kind::send;
    if (step.peer < 0 || step.peer >= static_cast<int>(ranks_.size()) || step.peer == r) throw Wrong("no such peer");
    if (step.block.rank != r) throw Wrong("not its own memory");
    Number* data = find(r, step.block);
    auto& queue = channels_[sending ? std::pair(r, step.peer) : std::pair(step.peer, r)];
    Transfer* mine = &transfers_.emplace_back(Transfer{&step});
    ranks_[r].groups[step.group].push_back(mine);
    (sending ? mine->from : mine->to) = data;
    if (!sending) {
      if (step.block.space == Space::input) throw Wrong("writes the input");
      std::fill(data, data + step.block.count, kRubbish);
    }
    if (queue.empty() || queue.front()->step->kind == step.kind) {
      queue.push_back(mine);
      return;
    }
    Transfer* theirs = queue.front();
    queue.pop_front();
    if (theirs->step->block.count != step.block.count) throw Wrong("lengths differ");
    mine->matched = theirs->matched = true;
    Transfer *from = sending ? mine : theirs, *to = sending ? theirs : mine;
    from->to = to->to;
    to->from = from->from;
    flying_.emplace_back(from, to);
  }

  void deliver(Transfer& transfer) {
    const auto pair = std::find_if(flying_.begin(), flying_.end(), [&](const auto& each) {
      return each.first == &transfer || each.second == &transfer;
    });
    if (pair == flying_.end()) return;
    std::copy_n(pair->first->from, pair->first->step->block.count, pair->first->to);
    flying_.erase(pair);
  }

  void deliver_one() {
    if (!flying_.empty()) deliver(*flying_[random_() % flying_.size()].first);
  }

  void reduce(int r, const ScheduleStep& step) {
    const Schedule& schedule = schedules_[r];
    const std::size_t count = schedule.sources.at(step.sources).block.count;
    std::vector<const Number*> sources;
    for (std::uint32_t i = 0; i < step.source_count; ++i) {
      const Block& block = schedule.sources.at(step.sources + i).block;
      if (block.count != count || (block.space == Space::scratch && block.rank != r)) throw Wrong("bad source");
      sources.push_back(find(r, block));
    }
    std::vector<Number> sums;
    for (std::size_t e = 0; e < count; ++e) {
      std::vector<Number> stack;
      for (std::uint32_t i = 0; i < step.source_count; ++i) {
        stack.push_back(sources[i][e]);
        for (int left = schedule.sources[step.sources + i].reductions; left > 0; --left) {
          if (stack.size() < 2) throw Wrong("bad reductions");
          const Number right = stack.back();
          stack.pop_back();
          stack.back() = add(stack.back(), right, order_);
        }
      }
      if (stack.size() != 1) throw Wrong("bad reductions");
      sums.push_back(step.last ? finish(stack[0]) : stack[0]);
    }
    for (std::uint32_t i = 0; i < step.target_count; ++i) {
      const Block& block = schedule.targets.at(step.targets + i);
      if (block.space == Space::input || block.count != count) throw Wrong("bad target");
      std::copy(sums.begin(), sums.end(), find(r, block));
    }
  }

  std::vector<Number> expected(int r) const {
    const Problem& problem = problems_[r];
    std::vector<Number> wanted;
    const std::size_t first =
        problem.collective == Collective::reduce_scatter || problem.collective == Collective::scatter
            ? before(problem.counts, r)
            : 0;
    if (ranks_[r].output_size == 0) return wanted;
    if (is_sum(problem) || problem.collective == Collective::broadcast || problem.collective == Collective::scatter) {
      const int leaves = problem.ranges.empty() ? problem.size : problem.leaves;
      for (std::size_t e = first; e < first + ranks_[r].output_size; ++e)
        wanted.push_back(is_sum(problem) ? finish(tree_sum(problem, {root_level(leaves), 0}, e, order_))
                                         : operand(problem.root, 0, e));
      return wanted;
    }
    for (int q = 0; q < problem.size; ++q) {
      const bool exchange = problem.collective == Collective::all_to_all;
      const std::size_t begin = exchange ? before(problems_[q].send_counts, r) : 0;
      for (std::size_t e = 0; e < (exchange ? problem.receive_counts[q] : problem.counts[q]); ++e)
        wanted.push_back(operand(q, 0, begin + e));
    }
    return wanted;
  }

  std::span<const Problem> problems_;
  std::span<const Schedule> schedules_;
  Order order_;
  std::mt19937 random_;
  std::vector<Rank> ranks_;
  std::deque<Transfer> transfers_;
  std::map<std::pair<int, int>, std::deque<Transfer*>> channels_;
  std::vector<std::pair<Transfer*, Transfer*>> flying_;
};

}  // namespace

std::string run_on_numbers(std::span<const Problem> problems, std::span<const Schedule> schedules, Order order,
                           bool in_place, unsigned seed) {
  try {
    NumberRun(problems, schedules, order, in_place, seed).run();
    return "";
  } catch (const std::exception& wrong) {
    return wrong.what();
  }
}

}  // namespace distdl::comm
