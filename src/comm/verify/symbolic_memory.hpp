// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <distdl/comm/verify/formulas.hpp>

namespace distdl::comm {

/// Element i of a range of memory, for begin <= i < end, contains element i + shift of the operands in `formula`.
struct Run {
  std::ptrdiff_t begin = 0, end = 0;
  Formulas::Id formula = Formulas::kNothing;
  std::ptrdiff_t shift = 0;
  bool operator==(const Run&) const = default;
};

/// The rank that accesses memory, and its vector clock (Fidge 1988, Mattern 1989): seen[i] is the latest time of rank i
/// that happened before. The rank's own time is seen[who].
struct Witness {
  std::uint32_t who = 0;
  std::span<const std::uint32_t> seen;
};

/// A range of addresses that contains formulas and records all accesses. Every function returns an error text, or
/// nullptr.
class SymbolicMemory {
 public:
  /// [begin, end) was never written. Only `owner` may have accessed it, at time `since`.
  SymbolicMemory(std::ptrdiff_t begin, std::ptrdiff_t end, std::uint32_t owner, std::uint32_t since);

  /// Sets the contents before the operation.
  void fill(const Run& run);
  /// Appends the contents of [begin, end), as runs that start at `base` instead of `begin`.
  const char* read(std::ptrdiff_t begin, std::ptrdiff_t end, std::ptrdiff_t base, Witness witness,
                   std::vector<Run>& runs);
  const char* write(const Run& run, Witness witness);
  /// Between begin and end of a transfer the range must not be written; for a receive it must not be read either.
  void begin_send(std::ptrdiff_t begin, std::ptrdiff_t end, Witness witness);
  void end_send(std::ptrdiff_t begin, std::ptrdiff_t end, Witness witness);
  const char* begin_receive(std::ptrdiff_t begin, std::ptrdiff_t end, Witness witness);
  void end_receive(const Run& run, Witness witness);

  /// The contents, for the final check.
  std::vector<Run> content(std::ptrdiff_t begin, std::ptrdiff_t end) const;
  /// Whether all accesses happened before `witness`.
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
  /// Splits a cell so that `at` is the beginning of one.
  Cells::iterator split(std::ptrdiff_t at);
  void replace(const Run& run, Witness witness);

  Cells cells_;
};

}  // namespace distdl::comm
