// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include <distdl/comm/verify/symbolic_memory.hpp>

namespace distdl::comm {

SymbolicMemory::SymbolicMemory(std::ptrdiff_t begin, std::ptrdiff_t end, std::uint32_t owner, std::uint32_t since) {
  if (end > begin) cells_[begin] = {end, Formulas::kNothing, 0, {owner, since}, {}, 0, false};
}

SymbolicMemory::Cells::iterator SymbolicMemory::split(std::ptrdiff_t at) {
  auto after = cells_.lower_bound(at);
  if (after != cells_.end() && after->first == at) return after;
  if (after == cells_.begin()) return after;
  const auto before = std::prev(after);
  if (before->second.end <= at) return after;
  Cell right = before->second;
  before->second.end = at;
  return cells_.emplace_hint(after, at, std::move(right));
}

void SymbolicMemory::fill(const Run& run) {
  if (run.end <= run.begin) return;
  const auto first = split(run.begin), end = split(run.end);
  for (auto cell = first; cell != end; ++cell) {
    cell->second.formula = run.formula;
    cell->second.shift = run.shift;
  }
}

void SymbolicMemory::note_read(Cell& cell, Witness witness) {
  // An access after this read is also after all accesses that this reader has seen.
  std::erase_if(cell.reads, [&](Touch read) { return has_seen(witness, read); });
  cell.reads.push_back({witness.who, witness.seen[witness.who]});
}

const char* SymbolicMemory::read(std::ptrdiff_t begin, std::ptrdiff_t end, std::ptrdiff_t base, Witness witness,
                                 std::vector<Run>& runs) {
  const auto first = split(begin), last = split(end);
  for (auto it = first; it != last; ++it) {
    auto& [at, cell] = *it;
    if (cell.receiving) return "reads values that are being received";
    if (!has_seen(witness, cell.written)) return "reads values that another rank may be writing";
    if (cell.formula == Formulas::kNothing) return "reads values that were never written";
    note_read(cell, witness);
    runs.push_back({at - begin + base, cell.end - begin + base, cell.formula, cell.shift + begin - base});
  }
  return nullptr;
}

const char* SymbolicMemory::refuse_write(const Cell& cell, Witness witness) {
  if (cell.receiving) return "writes where a message is being received";
  if (cell.sending) return "overwrites values that are being sent";
  if (!has_seen(witness, cell.written)) return "overwrites values that another rank may be writing";
  for (Touch read : cell.reads)
    if (!has_seen(witness, read)) return "overwrites values that another rank may be reading";
  return nullptr;
}

void SymbolicMemory::replace(const Run& run, Witness witness) {
  const auto first = split(run.begin), last = split(run.end);
  cells_.erase(std::next(first), last);
  first->second = {run.end, run.formula, run.shift, {witness.who, witness.seen[witness.who]}, {}, 0, false};
}

const char* SymbolicMemory::write(const Run& run, Witness witness) {
  const auto first = split(run.begin), last = split(run.end);
  for (auto cell = first; cell != last; ++cell)
    if (const char* problem = refuse_write(cell->second, witness)) return problem;
  replace(run, witness);
  return nullptr;
}

void SymbolicMemory::begin_send(std::ptrdiff_t begin, std::ptrdiff_t end, Witness witness) {
  const auto first = split(begin), last = split(end);
  for (auto cell = first; cell != last; ++cell) {
    note_read(cell->second, witness);
    ++cell->second.sending;
  }
}

void SymbolicMemory::end_send(std::ptrdiff_t begin, std::ptrdiff_t end, Witness witness) {
  const auto first = split(begin), last = split(end);
  for (auto cell = first; cell != last; ++cell) {
    note_read(cell->second, witness);
    --cell->second.sending;
  }
}

const char* SymbolicMemory::begin_receive(std::ptrdiff_t begin, std::ptrdiff_t end, Witness witness) {
  const auto first = split(begin), last = split(end);
  for (auto cell = first; cell != last; ++cell)
    if (const char* problem = refuse_write(cell->second, witness)) return problem;
  for (auto cell = first; cell != last; ++cell) cell->second.receiving = true;
  return nullptr;
}

void SymbolicMemory::end_receive(const Run& run, Witness witness) {
  replace(run, witness);
}

std::vector<Run> SymbolicMemory::content(std::ptrdiff_t begin, std::ptrdiff_t end) const {
  std::vector<Run> runs;
  for (const auto& [at, cell] : cells_) {
    const std::ptrdiff_t from = std::max(begin, at), to = std::min(end, cell.end);
    if (from >= to) continue;
    if (!runs.empty() && runs.back().formula == cell.formula && runs.back().shift == cell.shift)
      runs.back().end = to;
    else
      runs.push_back({from, to, cell.formula, cell.shift});
  }
  return runs;
}

bool SymbolicMemory::is_quiet(Witness witness) const {
  return std::all_of(cells_.begin(), cells_.end(), [&](const auto& entry) {
    const Cell& cell = entry.second;
    return has_seen(witness, cell.written) &&
           std::all_of(cell.reads.begin(), cell.reads.end(), [&](Touch read) { return has_seen(witness, read); });
  });
}

}  // namespace distdl::comm
