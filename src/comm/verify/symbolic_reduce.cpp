// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <distdl/comm/verify/symbolic_run.hpp>

namespace distdl::comm {

std::string text_of(const Block& block) {
  constexpr const char* kSpaces[] = {"input", "output", "scratch", "shared"};
  return fmt::format("{} [{}, {}) of rank {}", kSpaces[static_cast<int>(block.space)], block.first,
                     block.first + block.count, block.rank);
}

std::string SymbolicRun::check_overlaps(Member& member, const ScheduleStep& step) {
  const Schedule& schedule = schedules_[member.rank];
  const auto by_place = [](const Place& a, const Place& b) {
    return std::pair(a.memory, a.begin) < std::pair(b.memory, b.begin);
  };
  std::vector<Place> targets;
  for (const Block& target : std::span(schedule.targets).subspan(step.targets, step.target_count)) {
    if (target.space == Space::input) return "the input must not be written";
    if (auto problem = locate(member, target, targets.emplace_back()); !problem.empty()) return problem;
  }
  std::sort(targets.begin(), targets.end(), by_place);
  for (std::size_t i = 1; i < targets.size(); ++i)
    if (targets[i].overlaps(targets[i - 1])) return "two targets overlap";
  for (const Operand& source : std::span(schedule.sources).subspan(step.sources, step.source_count)) {
    Place place;
    if (auto problem = locate(member, source.block, place); !problem.empty()) return problem;
    auto near = std::lower_bound(targets.begin(), targets.end(), place, by_place);
    if (near != targets.end() && *near != place && near->overlaps(place)) return "a target overlaps a source";
    if (near != targets.begin() && *--near != place && near->overlaps(place)) return "a target overlaps a source";
  }
  return "";
}

// Runs of all sources are cut where one of them changes; in between a stack holds the partial results.
std::string SymbolicRun::evaluate(Member& member, const ScheduleStep& step, std::vector<Run>& result) {
  const auto sources = std::span(schedules_[member.rank].sources).subspan(step.sources, step.source_count);
  std::vector<std::vector<Run>> runs(sources.size());
  std::vector<std::ptrdiff_t> cuts{0};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Place place;
    if (auto problem = locate(member, sources[i].block, place); !problem.empty()) return problem;
    if (sources[i].block.count != sources[0].block.count) return "the sources differ in length";
    if (const char* problem = place.memory->read(place.begin, place.end, 0, witness(member), runs[i]))
      return fmt::format("{}: {}", problem, text_of(sources[i].block));
    for (const Run& run : runs[i]) cuts.push_back(run.end);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<std::size_t> at(sources.size(), 0);
  std::vector<Run> now(sources.size());
  for (std::size_t cut = 1; cut < cuts.size(); ++cut) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      now[i] = runs[i][at[i]];
      if (now[i].end == cuts[cut]) ++at[i];
    }
    Formulas::Id sum{};
    if (auto problem = fold(sources, now, sum); !problem.empty()) return problem;
    result.push_back({cuts[cut - 1], cuts[cut], step.last ? formulas_.finished(sum) : sum, now[0].shift});
  }
  return "";
}

std::string SymbolicRun::fold(std::span<const Operand> sources, std::span<const Run> runs, Formulas::Id& sum) {
  std::vector<Formulas::Id> stack;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (runs[i].shift != runs[0].shift) return "adds different elements of the vector";
    stack.push_back(runs[i].formula);
    for (int k = 0; k < sources[i].reductions; ++k) {
      if (stack.size() < 2) return "reduces more values than there are";
      const Formulas::Id right = stack.back();
      stack.pop_back();
      stack.back() = formulas_.sum(stack.back(), right);
    }
  }
  if (stack.size() != 1) return "reduces too few values";
  sum = stack[0];
  return "";
}

/// A copy of memory onto itself, which is left out.
bool SymbolicRun::is_no_op(Member& member, const ScheduleStep& step, const Block& target) {
  if (step.source_count != 1 || step.last) return false;
  Place from, to;
  locate(member, schedules_[member.rank].sources[step.sources].block, from);
  locate(member, target, to);
  return from == to;
}

std::string SymbolicRun::reduce(Member& member, const ScheduleStep& step) {
  if (step.source_count == 0 || step.target_count == 0) return "without operands";
  std::vector<Run> result;
  if (auto problem = check_overlaps(member, step); !problem.empty()) return problem;
  if (auto problem = evaluate(member, step, result); !problem.empty()) return problem;
  const Schedule& schedule = schedules_[member.rank];
  for (const Block& target : std::span(schedule.targets).subspan(step.targets, step.target_count)) {
    if (target.count != schedule.sources[step.sources].block.count) return "sources and targets differ in length";
    if (is_no_op(member, step, target)) continue;
    Place place;
    locate(member, target, place);
    for (const Run& run : result) {
      const Run moved{place.begin + run.begin, place.begin + run.end, run.formula, run.shift - place.begin};
      if (const char* problem = place.memory->write(moved, witness(member)))
        return fmt::format("{}: {}", problem, text_of(target));
    }
  }
  return "";
}

}  // namespace distdl::comm
