// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <distdl/comm/schedule/sum_order.hpp>
#include <distdl/comm/verify/symbolic_run.hpp>

namespace distdl::comm {

namespace {

const char* name_of(ScheduleStep::Kind kind) {
  constexpr const char* kNames[] = {"send", "receive", "wait", "reduce", "signal", "await"};
  return kNames[static_cast<int>(kind)];
}

std::string text_of(const ScheduleStep& step) {
  switch (step.kind) {
    case ScheduleStep::Kind::send:
      return fmt::format("send {} to {}", step.block.count, step.peer);
    case ScheduleStep::Kind::receive:
      return fmt::format("receive {} from {}", step.block.count, step.peer);
    case ScheduleStep::Kind::wait:
      return fmt::format("wait for group {}", step.group);
    case ScheduleStep::Kind::await:
      return fmt::format("await stage {} of {}", step.stage, step.peer);
    default:
      return name_of(step.kind);
  }
}

}  // namespace

SymbolicRun::SymbolicRun(std::span<const Problem> problems, std::span<const Schedule> schedules, bool in_place)
    : problems_(problems), schedules_(schedules) {
  std::map<int, std::size_t> index;
  for (std::size_t r = 0; r < problems.size(); ++r) {
    const auto [node, is_new] = index.try_emplace(problems[r].nodes[r], node_ranks_.size());
    if (is_new) node_ranks_.emplace_back();
    node_ranks_[node->second].push_back(static_cast<int>(r));
  }
  members_.resize(problems.size());
  for (const std::vector<int>& node : node_ranks_)
    for (std::size_t local = 0; local < node.size(); ++local) {
      members_[node[local]].local = static_cast<std::uint32_t>(local);
      members_[node[local]].seen.assign(node.size(), 0);
      add_member(node[local], in_place);
    }
}

void SymbolicRun::add_member(int rank, bool in_place) {
  const Problem& problem = problems_[rank];
  const Schedule& schedule = schedules_[rank];
  Member& member = members_[rank];
  member.rank = rank;
  member.seen[member.local] = 1;
  const auto inputs = static_cast<std::ptrdiff_t>(input_size(problem));
  const auto outputs = static_cast<std::ptrdiff_t>(output_size(problem));
  std::ptrdiff_t begin = 0, end = outputs;
  if (in_place && inputs > 0 && outputs > 0 && input_parts(problem) > 0) {
    member.in_place = in_place_offset(problem);
    begin = std::min(begin, *member.in_place);
    end = std::max(end, *member.in_place + inputs);
  }
  member.spaces.emplace_back(begin, end, member.local, 1);
  member.spaces.emplace_back(0, schedule.scratch, member.local, 0);
  member.spaces.emplace_back(0, schedule.shared, member.local, 0);
  for (int part = 0; part < input_parts(problem); ++part) {
    const Formulas::Id operand = formulas_.operand(rank, part);
    member.inputs.emplace_back(0, inputs, member.local, 1).fill({0, inputs, operand, 0});
    if (part == 0 && member.in_place)
      member.spaces[0].fill({*member.in_place, *member.in_place + inputs, operand, -*member.in_place});
  }
  member.groups.resize(schedule.groups);
  if (problem.collective == Collective::barrier) {
    member.heard.assign((problems_.size() + 63) / 64, 0);
    member.heard[rank / 64] |= std::uint64_t{1} << rank % 64;
  }
}

Witness SymbolicRun::witness(const Member& member) {
  return {member.local, member.seen};
}

bool SymbolicRun::is_on_node(const Member& member, int rank) const {
  return rank >= 0 && rank < static_cast<int>(problems_.size()) &&
         problems_[rank].nodes[rank] == problems_[rank].nodes[member.rank];
}

std::string SymbolicRun::check_form(int rank) const {
  const Schedule& schedule = schedules_[rank];
  if (schedule.rank != rank) return fmt::format("rank {} has the schedule of rank {}", rank, schedule.rank);
  if (schedule.shared * problems_[rank].element > (schedule.is_short ? kShortSharedBytes : kSharedBytes))
    return fmt::format("rank {} has too many shared elements: {}", rank, schedule.shared);
  if (schedule.is_short != schedules_[0].is_short || (schedule.is_short && schedule.reads_node_ranks))
    return fmt::format("rank {}: is_short is wrong", rank);
  bool uses_node_ranks = false;
  std::uint32_t stage = 1;
  for (const ScheduleStep& step : schedule.steps) {
    uses_node_ranks |= step.kind == ScheduleStep::Kind::signal || step.kind == ScheduleStep::Kind::await;
    if (step.kind == ScheduleStep::Kind::signal && (step.stage <= stage || step.stage >= 1u << 24))
      return fmt::format("rank {} signals stage {} after {}", rank, step.stage, stage);
    if (step.kind == ScheduleStep::Kind::signal) stage = step.stage;
    if (step.kind <= ScheduleStep::Kind::wait && step.group >= schedule.groups)
      return fmt::format("rank {}: group {} of {}", rank, step.group, schedule.groups);
    if (std::size_t{step.sources} + step.source_count > schedule.sources.size() ||
        std::size_t{step.targets} + step.target_count > schedule.targets.size())
      return fmt::format("rank {}: a reduce step has operands that do not exist", rank);
  }
  if (uses_node_ranks != schedule.uses_node_ranks) return fmt::format("rank {}: uses_node_ranks is wrong", rank);
  return "";
}

std::string SymbolicRun::run() {
  for (std::size_t r = 0; r < members_.size(); ++r)
    if (auto problem = check_form(static_cast<int>(r)); !problem.empty()) return problem;
  std::size_t done = 0;
  for (bool moved = true; moved && done < members_.size();) {
    moved = false;
    done = 0;
    for (std::size_t r = 0; r < members_.size(); ++r) {
      if (auto problem = run_until_blocked(static_cast<int>(r), moved); !problem.empty()) return problem;
      done += members_[r].next == schedules_[r].steps.size();
    }
  }
  for (std::size_t r = 0; r < members_.size(); ++r)
    if (members_[r].next < schedules_[r].steps.size()) return blocked(static_cast<int>(r));
  for (std::size_t r = 0; r < members_.size(); ++r)
    if (auto problem = check_end(static_cast<int>(r)); !problem.empty()) return problem;
  return "";
}

std::string SymbolicRun::blocked(int rank) const {
  const Member& member = members_[rank];
  if (!member.arrived && schedules_[rank].reads_node_ranks)
    return fmt::format("rank {} awaits the arrival of a rank whose schedule does not announce it", rank);
  return fmt::format("rank {}, step {} ({}): the step never ends", rank, member.next,
                     text_of(schedules_[rank].steps[member.next]));
}

bool SymbolicRun::arrive(Member& member, bool& moved) {
  if (member.arrived || !schedules_[member.rank].reads_node_ranks) return true;
  if (!member.announced) {
    member.stages.push_back({1, member.seen, member.heard});
    ++member.seen[member.local];
    member.announced = moved = true;
  }
  for (const std::vector<int>& node : node_ranks_) {
    if (!is_on_node(member, node.front())) continue;
    for (int peer : node)
      if (members_[peer].stages.empty()) return false;
    for (int peer : node) join(member, peer, 1);
  }
  return member.arrived = moved = true;
}

std::string SymbolicRun::run_until_blocked(int rank, bool& moved) {
  Member& member = members_[rank];
  if (!arrive(member, moved)) return "";
  const std::vector<ScheduleStep>& steps = schedules_[rank].steps;
  while (member.next < steps.size() && !is_blocked(member, steps[member.next])) {
    const ScheduleStep& step = steps[member.next];
    if (auto problem = perform(member, step); !problem.empty())
      return fmt::format("rank {}, step {} ({}): {}", rank, member.next, text_of(step), problem);
    ++member.next;
    moved = true;
  }
  return "";
}

bool SymbolicRun::is_blocked(const Member& member, const ScheduleStep& step) const {
  if (step.kind == ScheduleStep::Kind::wait) {
    const auto& group = member.groups[step.group];
    return !std::all_of(group.begin(), group.end(), [&](std::size_t i) { return member.transfers[i].matched; });
  }
  if (step.kind != ScheduleStep::Kind::await || !is_on_node(member, step.peer)) return false;
  const auto& stages = members_[step.peer].stages;
  return stages.empty() || stages.back().stage < step.stage;
}

std::string SymbolicRun::perform(Member& member, const ScheduleStep& step) {
  switch (step.kind) {
    case ScheduleStep::Kind::send:
    case ScheduleStep::Kind::receive:
      return begin_transfer(member, step);
    case ScheduleStep::Kind::wait:
      return wait(member, step);
    case ScheduleStep::Kind::reduce:
      return reduce(member, step);
    case ScheduleStep::Kind::signal:
      member.stages.push_back({step.stage, member.seen, member.heard});
      ++member.seen[member.local];
      return "";
    case ScheduleStep::Kind::await:
      if (!is_on_node(member, step.peer) || step.peer == member.rank) return "that rank is not on this node";
      join(member, step.peer, step.stage);
      return "";
  }
  return "";
}

void SymbolicRun::join(Member& member, int peer, std::uint32_t stage) {
  const auto& stages = members_[peer].stages;
  const auto first = std::lower_bound(stages.begin(), stages.end(), stage,
                                      [](const Stage& each, std::uint32_t wanted) { return each.stage < wanted; });
  for (std::size_t i = 0; i < member.heard.size(); ++i) member.heard[i] |= first->heard[i];
  const std::uint32_t local = members_[peer].local;
  if (member.seen[local] >= first->seen[local]) return;
  for (std::size_t i = 0; i < member.seen.size(); ++i) member.seen[i] = std::max(member.seen[i], first->seen[i]);
}

std::string SymbolicRun::locate(const Member& member, const Block& block, Place& place) {
  if (!is_on_node(member, block.rank))
    return fmt::format("reaches for the {}, which is on another node", text_of(block));
  Member& owner = members_[block.rank];
  if (&owner != &member && block.space == Space::scratch) return fmt::format("reaches for the {}", text_of(block));
  const Problem& problem = problems_[block.rank];
  std::size_t size = 0;
  place.begin = static_cast<std::ptrdiff_t>(block.first);
  if (block.space == Space::input) {
    size = block.part < owner.inputs.size() ? input_size(problem) : 0;
    const bool aliased = owner.in_place && block.part == 0;
    place.memory = aliased ? owner.spaces.data() : size ? &owner.inputs[block.part] : owner.spaces.data();
    if (aliased) place.begin += *owner.in_place;
  } else {
    const auto space = static_cast<std::size_t>(block.space) - 1;
    const std::size_t sizes[] = {output_size(problem), schedules_[block.rank].scratch, schedules_[block.rank].shared};
    size = sizes[space];
    place.memory = &owner.spaces[space];
  }
  if (block.first > size || block.count > size - block.first)
    return fmt::format("{} has only {} elements", text_of(block), size);
  place.end = place.begin + static_cast<std::ptrdiff_t>(block.count);
  return "";
}

std::string SymbolicRun::begin_transfer(Member& member, const ScheduleStep& step) {
  const bool sending = step.kind == ScheduleStep::Kind::send;
  if (step.peer < 0 || step.peer >= static_cast<int>(members_.size()) || step.peer == member.rank)
    return "there is no such peer";
  if (step.block.rank != member.rank) return fmt::format("the {} is not the rank's own", text_of(step.block));
  if (!sending && step.block.space == Space::input) return "the input must not be written";
  Transfer transfer{&step, {}, {}, member.heard, false};
  if (auto problem = locate(member, step.block, transfer.place); !problem.empty()) return problem;
  auto& [memory, begin, end] = transfer.place;
  if (sending) {
    if (const char* problem = memory->read(begin, end, 0, witness(member), transfer.runs)) return problem;
    memory->begin_send(begin, end, witness(member));
  } else if (const char* problem = memory->begin_receive(begin, end, witness(member))) {
    return problem;
  }
  if (member.ended.empty()) {
    member.ended.push_back(member.transfers.size());
    member.transfers.emplace_back();
  }
  const std::size_t mine = member.ended.back();
  member.ended.pop_back();
  member.transfers[mine] = std::move(transfer);
  member.groups[step.group].push_back(mine);
  Member& other = members_[step.peer];
  auto& channels = sending ? other.from : member.from;
  Channel& channel = channels[sending ? member.rank : step.peer];
  if (channel.waiting.empty() || channel.sending == sending) {
    channel.sending = sending;
    channel.waiting.push_back(mine);
    return "";
  }
  const std::size_t theirs = channel.waiting.front();
  channel.waiting.pop_front();
  if (channel.waiting.empty()) channels.erase(sending ? member.rank : step.peer);
  return match(member, other, mine, theirs, sending);
}

std::string SymbolicRun::match(Member& member, Member& other, std::size_t mine, std::size_t theirs, bool sending) {
  Transfer& sent = sending ? member.transfers[mine] : other.transfers[theirs];
  Transfer& received = sending ? other.transfers[theirs] : member.transfers[mine];
  if (sent.step->block.count != received.step->block.count)
    return fmt::format("{} elements are sent, but {} are expected", sent.step->block.count, received.step->block.count);
  received.runs = std::move(sent.runs);
  received.heard = std::move(sent.heard);
  sent.matched = received.matched = true;
  return "";
}

std::string SymbolicRun::wait(Member& member, const ScheduleStep& step) {
  for (std::size_t i : member.groups[step.group]) {
    Transfer& transfer = member.transfers[i];
    const auto& [memory, begin, end] = transfer.place;
    member.ended.push_back(i);
    if (transfer.step->kind == ScheduleStep::Kind::send) {
      memory->end_send(begin, end, witness(member));
      continue;
    }
    for (const Run& run : transfer.runs)
      memory->end_receive({begin + run.begin, begin + run.end, run.formula, run.shift - begin}, witness(member));
    for (std::size_t word = 0; word < member.heard.size(); ++word) member.heard[word] |= transfer.heard[word];
  }
  member.groups[step.group].clear();
  return "";
}

std::string SymbolicRun::check_end(int rank) const {
  const Member& member = members_[rank];
  for (const auto& group : member.groups)
    if (!group.empty()) return fmt::format("rank {} ends without waiting for one of its transfers", rank);
  if (!member.from.empty())
    return fmt::format("a message from rank {} to {} is not received", member.from.begin()->first, rank);
  const auto quiet = [&](const SymbolicMemory& memory) { return memory.is_quiet(witness(member)); };
  if (!quiet(member.spaces[0]) || !std::all_of(member.inputs.begin(), member.inputs.end(), quiet))
    return fmt::format("rank {} ends while another rank may still touch its input or output", rank);
  return "";
}

std::vector<Run> SymbolicRun::output(int rank) const {
  return members_[rank].spaces[0].content(0, static_cast<std::ptrdiff_t>(output_size(problems_[rank])));
}

bool SymbolicRun::has_heard_of_all(int rank) const {
  const auto& heard = members_[rank].heard;
  for (std::size_t r = 0; r < members_.size(); ++r)
    if (!(heard[r / 64] >> r % 64 & 1)) return false;
  return true;
}

}  // namespace distdl::comm
