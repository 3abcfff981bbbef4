// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <distdl/comm/schedule.hpp>
#include <distdl/comm/schedule/operand_sizes.hpp>
#include <distdl/comm/verify/formulas.hpp>
#include <distdl/comm/verify/symbolic_memory.hpp>

namespace distdl::comm {

/// The block as text, such as "output [0, 8) of rank 3".
std::string text_of(const Block& block);

/// Runs all ranks of an operation on formulas, see check_schedules(). Without a race for memory, which is detected,
/// neither the results nor the order of steps depends on timing. One run therefore covers all.
class SymbolicRun {
 public:
  SymbolicRun(std::span<const Problem> problems, std::span<const Schedule> schedules, bool in_place);

  /// Runs all ranks to their end. Returns "" or the error.
  std::string run();

  Formulas& formulas() { return formulas_; }
  /// After run(): the result of a rank.
  std::vector<Run> output(int rank) const;
  /// After run(): whether every rank had begun before this one ended.
  bool has_heard_of_all(int rank) const;

 private:
  struct Place {
    SymbolicMemory* memory = nullptr;
    std::ptrdiff_t begin = 0, end = 0;
    bool overlaps(const Place& other) const { return memory == other.memory && begin < other.end && other.begin < end; }
    bool operator==(const Place&) const = default;
  };

  struct Transfer {
    const ScheduleStep* step = nullptr;
    Place place;
    std::vector<Run> runs;             ///< contents of a send; of a receive once it is matched
    std::vector<std::uint64_t> heard;  ///< vector clock of the sender
    bool matched = false;
  };

  /// Messages from one rank to another that are not matched yet: either sends or receives.
  struct Channel {
    bool sending = false;
    std::deque<std::size_t> waiting;  ///< unmatched transfers of the sender or of the receiver
  };

  struct Stage {
    std::uint32_t stage = 0;
    std::vector<std::uint32_t> seen;
    std::vector<std::uint64_t> heard;
  };

  struct Member {
    int rank = 0;
    std::uint32_t local = 0;  ///< index in its node
    std::size_t next = 0;     ///< number of the next step
    bool arrived = false, announced = false;
    std::vector<SymbolicMemory> inputs;      ///< one per part; in place the first is unused
    std::vector<SymbolicMemory> spaces;      ///< output, scratch, shared
    std::optional<std::ptrdiff_t> in_place;  ///< input element 0 is this element of the output
    std::vector<std::uint32_t> seen;
    std::vector<std::uint64_t> heard;
    std::vector<Stage> stages;
    std::vector<Transfer> transfers;
    std::vector<std::size_t> ended;  ///< transfers whose entries may be reused
    std::vector<std::vector<std::size_t>> groups;
    std::unordered_map<int, Channel> from;  ///< by sender
  };

  void add_member(int rank, bool in_place);
  std::string run_until_blocked(int rank, bool& moved);
  bool arrive(Member& member, bool& moved);
  std::string check_form(int rank) const;
  std::string check_end(int rank) const;

  bool is_blocked(const Member& member, const ScheduleStep& step) const;
  std::string perform(Member& member, const ScheduleStep& step);
  std::string begin_transfer(Member& member, const ScheduleStep& step);
  static std::string match(Member& member, Member& other, std::size_t mine, std::size_t theirs, bool sending);
  static std::string wait(Member& member, const ScheduleStep& step);
  std::string reduce(Member& member, const ScheduleStep& step);
  std::string evaluate(Member& member, const ScheduleStep& step, std::vector<Run>& result);
  std::string fold(std::span<const Operand> sources, std::span<const Run> runs, Formulas::Id& sum);
  std::string check_overlaps(Member& member, const ScheduleStep& step);
  std::string signal(Member& member, const ScheduleStep& step);
  void join(Member& member, int peer, std::uint32_t stage);

  std::string locate(const Member& member, const Block& block, Place& place);
  bool is_no_op(Member& member, const ScheduleStep& step, const Block& target);
  bool is_on_node(const Member& member, int rank) const;
  std::string blocked(int rank) const;
  static Witness witness(const Member& member);

  std::span<const Problem> problems_;
  std::span<const Schedule> schedules_;
  Formulas formulas_;
  std::deque<Member> members_;
  std::vector<std::vector<int>> node_ranks_;  ///< ranks of each node
};

}  // namespace distdl::comm
