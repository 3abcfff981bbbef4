// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <distdl/comm/verify/formulas.hpp>

namespace distdl::comm {

/// Element i of a piece of memory, for begin <= i < end, holds element i + shift of the operands in `formula`.
struct Run {
  std::ptrdiff_t begin = 0, end = 0;
  Formulas::Id formula = Formulas::kNothing;
  std::ptrdiff_t shift = 0;
  bool operator==(const Run&) const = default;
};

/// Who touches memory, and what it knows of the ranks of its node: seen[i] is the latest time of rank i that happened
/// before (Fidge 1988, Mattern 1989). Its own time is seen[who].
struct Witness {
  std::uint32_t who = 0;
  std::span<const std::uint32_t> seen;
};

/// A range of addresses that holds formulas, and remembers who touched what when. Every function returns what is wrong
/// as a text without end of its own, or nullptr.
class SymbolicMemory {
 public:
  /// [begin, end), never written; `owner` may have touched it at time `since`, nobody else.
  SymbolicMemory(std::ptrdiff_t begin, std::ptrdiff_t end, std::uint32_t owner, std::uint32_t since);

  /// What was there before the operation began.
  void fill(const Run& run);
  /// Appends what [begin, end) holds, as runs that start at `base` instead of `begin`.
  const char* read(std::ptrdiff_t begin, std::ptrdiff_t end, std::ptrdiff_t base, Witness witness,
                   std::vector<Run>& runs);
  const char* write(const Run& run, Witness witness);
  /// Between begin and end of a transfer nobody may write, or for a receive even read.
  void begin_send(std::ptrdiff_t begin, std::ptrdiff_t end, Witness witness);
  void end_send(std::ptrdiff_t begin, std::ptrdiff_t end, Witness witness);
  const char* begin_receive(std::ptrdiff_t begin, std::ptrdiff_t end, Witness witness);
  void end_receive(const Run& run, Witness witness);

  /// What it holds, for the final check.
  std::vector<Run> content(std::ptrdiff_t begin, std::ptrdiff_t end) const;
  /// Have all accesses happened before `witness`?
  bool is_quiet(Witness witness) const;

 private:
  struct Touch {
    std::uint32_t who = 0, when = 0;
  };
  struct Cell {
    std::ptrdiff_t end = 0;
    Formulas::Id formula = Formulas::kNothing;
    std::ptrdiff_t shift = 0;
    Touch written;
    std::vector<Touch> reads;
    std::uint16_t sending = 0;
    bool receiving = false;
  };
  using Cells = std::map<std::ptrdiff_t, Cell>;

  static bool has_seen(Witness witness, Touch touch) { return witness.seen[touch.who] >= touch.when; }
  static void note_read(Cell& cell, Witness witness);
  static const char* refuse_write(const Cell& cell, Witness witness);
  /// Makes `at` the begin of a cell.
  Cells::iterator split(std::ptrdiff_t at);
  void replace(const Run& run, Witness witness);

  Cells cells_;
};

}  // namespace distdl::comm
