// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "tests/checkpoint/proof/proofs.hpp"
#include "tests/checkpoint/simulated_nodes.hpp"

namespace distdl::checkpoint::proof {
namespace {
constexpr int kNodes = 3;
const std::vector<std::string> kReplaced{"n0", "fresh", "n2"};  // n1 is lost

struct Way {
  const char* name;
  Protection how;
};
constexpr Way kWays[] = {{"partner", {true, false, false}}, {"parity", {false, true, false}}};

struct Restored {
  bool found = false;
  std::string wrong;
};

/// What rank 0 gets back, which asks for all tensors.
Restored restore(const Site& site, const std::vector<std::string>& nodes, const Sample& sample, int damaged_letter,
                 int* letters = nullptr) {
  Restored result;
  int sent = run_on(
      site, nodes,
      [&](Levels& levels, int rank, const std::string&) {
        auto plan = levels.find();
        if (!plan) return;
        State state;
        if (rank != 0) {
          levels.restore(*plan, {}, state);
          return;
        }
        const Room room(sample);
        levels.restore(*plan, room.targets, state);
        result.found = true;
        for (std::size_t i = 0; i < sample.size(); ++i)
          if (room.memory[i] != sample[i].bytes) result.wrong = "wrong bytes come back in " + sample[i].entry.name;
      },
      damaged_letter);
  if (letters) *letters = sent;
  return result;
}

/// A bit changes on the way while snapshots are protected: that is seen, or a node may be lost all the same.
std::string damage_while_protecting(const Way& way, const Sample& sample, int letter, int* letters) {
  Site site;
  try {
    *letters = save(site, names_of(kNodes), sample, Step(40), way.how, letter);
  } catch (const std::exception&) {
    *letters = letter + 2;  // it was seen; there may be more
    return "";
  }
  if (letter >= *letters) return "";
  for (const auto& name : slots_of(site.memory_of("n1"))) remove_orphan(name);
  try {
    Restored result = restore(site, kReplaced, sample, -1);
    if (!result.found) return "what was said to be safe is gone";
    return result.wrong;
  } catch (const std::exception& error) {
    // Parity is not checked until it is needed; then what is wrong with it is found.
    return way.how.parity ? "" : error.what();
  }
}

/// The same while snapshots come back after the loss of a node: the right bytes, or an error.
std::string damage_while_restoring(const Way& way, const Sample& sample, int letter, int* letters) try {
  Site site;
  save(site, names_of(kNodes), sample, Step(40), way.how);
  for (const auto& name : slots_of(site.memory_of("n1"))) remove_orphan(name);
  return restore(site, kReplaced, sample, letter, letters).wrong;
} catch (const std::exception&) {
  *letters = letter + 2;
  return "";
}

/// A bit of a snapshot changes in memory: it is not taken.
std::string damage_in_memory(const Way& way, const Sample& sample, std::size_t number, bool& done) {
  Site site;
  save(site, names_of(kNodes), sample, Step(40), way.how);
  std::set<std::string> names = site.names();
  done = number >= names.size();
  if (done) return "";
  const std::string& name = *std::next(names.begin(), static_cast<std::ptrdiff_t>(number));
  const SlotMemory memory = SlotMemory::open(name);
  const auto* first = open_slot(memory.bytes()).slices.at(0).bytes;
  std::fstream stream("/dev/shm/" + name, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(first - memory.bytes().data());
  const int byte = stream.peek();
  stream.put(static_cast<char>(byte ^ 1)).flush();
  try {
    Restored result = restore(site, names_of(kNodes), sample, -1);
    return result.found ? result.wrong : "one damaged snapshot was too much";
  } catch (const std::exception& error) {
    return error.what();
  }
}
}  // namespace

Verdict prove_lost_nodes(const Effort& effort) {
  Verdict verdict;
  const Sample sample = make_sample(3);
  auto enough = [&] { return effort.stop_at_first && !verdict.broken.empty(); };
  for (const Way& way : kWays) {
    for (auto* damage : {&damage_while_protecting, &damage_while_restoring}) {
      int letters = 1;
      for (int letter = 0; letter < letters && !enough(); ++letter, ++verdict.cases)
        verdict.add(damage(way, sample, letter, &letters),
                    fmt::format("{}, letter {} damaged while {}", way.name, letter,
                                damage == &damage_while_protecting ? "protecting" : "restoring"));
    }
    bool done = false;
    for (std::size_t number = 0; !done && !enough(); ++number, ++verdict.cases)
      verdict.add(damage_in_memory(way, sample, number, done),
                  fmt::format("{}, snapshot {} damaged in memory", way.name, number));
  }
  return verdict;
}

}  // namespace distdl::checkpoint::proof
