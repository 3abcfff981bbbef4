// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "tests/checkpoint/multilevel/saving_nodes.hpp"
#include "tests/checkpoint/proof/proofs.hpp"
#include <distdl/base/errors.hpp>

namespace distdl::checkpoint::proof {
namespace {
constexpr int kNodes = 3;
const std::vector<std::string> kReplaced{"n0", "fresh", "n2"};  // n1 is lost

struct LossWay {
  const char* name;
  Protection how;
};
const LossWay kLossWays[] = {{"partner", {"partner"}}, {"parity", {"parity"}}};

struct Restored {
  bool found = false;
  Step step;
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
        const RestoreMemory room(sample);
        levels.restore(*plan, room.targets, state);
        result.found = true;
        result.step = plan->step;
        for (std::size_t i = 0; i < sample.size(); ++i)
          if (room.memory[i] != sample[i].bytes) result.wrong = "wrong bytes come back in " + sample[i].entry.name;
      },
      damaged_letter);
  if (letters) *letters = sent;
  return result;
}

/// Protects steps 30 and 40, with one letter of the second damaged. What its error says, which must name the step and
/// call it damaged; empty if there was none.
std::string protect_twice(const Site& site, const LossWay& way, const Sample& sample, int damaged_letter) {
  std::string seen;
  const auto nodes = names_of(kNodes);
  run_on(
      site, nodes,
      [&](Levels& levels, int rank, const std::string& node) {
        const Share share = share_of(sample, rank, kNodes);
        const State state{{"position", "77"}};
        std::vector<SnapshotMemory> buffers;
        for (int step : {30, 40}) try {
            buffers.push_back(SnapshotMemory::create(site.memory_of(node), rank, buffer_bytes(share.slices, state)));
            fill_buffer(buffers.back().writable(), site.label(rank, kNodes, Step(step)), share.slices, state);
            levels.protect(buffers.back().bytes(), way.how);
          } catch (const StorageError& error) {
            const std::string text = error.what();
            if (step != 40 || error.exit_code() != ExitCode::corrupt || text.find("step 40") == std::string::npos)
              throw;
            if (rank == 0) seen = text;
          }
      },
      damaged_letter);
  return seen;
}

/// A bit changes on the way while snapshots are protected: that is seen, and what was kept before is still there.
std::string damage_while_protecting(const LossWay& way, const Sample& sample, int letter, int* letters) {
  {
    Site undamaged;
    *letters = save(undamaged, names_of(kNodes), sample, Step(30), way.how);
  }
  Site site;
  const std::string seen = protect_twice(site, way, sample, *letters + letter);
  if (seen.empty()) return "it was not seen";
  const auto kept = site.names();
  Restored all = restore(site, names_of(kNodes), sample, -1);
  if (!all.found || all.step != Step(40)) return "without any loss it does not come back";
  if (!all.wrong.empty()) return all.wrong;
  site.remove_all_but(kept);
  lose_memory_of(site, "n1");
  Restored result = restore(site, kReplaced, sample, -1);
  if (!result.found || result.step != Step(30)) return "what was said to be safe is gone";
  return result.wrong;
}

/// The same while snapshots come back after the loss of a node: the right bytes, or an error.
std::string damage_while_restoring(const LossWay& way, const Sample& sample, int letter, int* letters) try {
  Site site;
  save(site, names_of(kNodes), sample, Step(40), way.how);
  lose_memory_of(site, "n1");
  return restore(site, kReplaced, sample, letter, letters).wrong;
} catch (const std::exception&) {
  *letters = letter + 2;
  return "";
}

/// A bit of a snapshot changes in memory: it is not taken.
std::string damage_in_memory(const LossWay& way, const Sample& sample, std::size_t number, bool& done) {
  Site site;
  save(site, names_of(kNodes), sample, Step(40), way.how);
  std::set<std::string> names = site.names();
  done = number >= names.size();
  if (done) return "";
  const std::string& name = *std::next(names.begin(), static_cast<std::ptrdiff_t>(number));
  const SnapshotMemory memory = SnapshotMemory::open(name);
  const auto* first = open_snapshot(memory.bytes()).slices.at(0).bytes;
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
/// Later snapshots of which nothing is kept elsewhere leave those alone of which something is.
std::string later_snapshots(const LossWay& way) {
  Site site;
  save_and_die(site, names_of(kNodes), {{10, way.how}, {20, {}}, {30, {}}, {40, {}}});
  lose_memory_of(site, "n1");
  return step_restored(site, kReplaced) == Step(10) ? "" : "what was said to be safe is gone";
}

/// So do those of the other kind: it could not make good as much.
std::string later_parity() {
  Site site;
  const Protection partner = kLossWays[0].how, parity = kLossWays[1].how;
  save_and_die(site, names_of(4), {{10, partner}, {20, parity}, {30, {}}, {40, parity}, {50, {}}});
  for (const char* lost : {"n1", "n3"}) lose_memory_of(site, lost);
  return step_restored(site, {"n0", "f1", "n2", "f3"}) == Step(10) ? "" : "what was said to be safe is gone";
}
}  // namespace

ProofResult prove_lost_nodes(const Effort& effort) {
  ProofResult verdict;
  const Sample sample = make_sample(3);
  auto enough = [&] { return effort.stop_at_first && !verdict.broken.empty(); };
  verdict.add(later_parity(), "partner, then parity");
  ++verdict.cases;
  for (const LossWay& way : kLossWays) {
    for (auto* damage : {&damage_while_protecting, &damage_while_restoring}) {
      int letters = 1;
      for (int letter = 0; letter < letters && !enough(); ++letter, ++verdict.cases)
        verdict.add(damage(way, sample, letter, &letters),
                    fmt::format("{}, letter {} damaged while {}", way.name, letter,
                                damage == &damage_while_protecting ? "protecting" : "restoring"));
    }
    verdict.add(later_snapshots(way), fmt::format("{}, then later snapshots", way.name));
    ++verdict.cases;
    bool done = false;
    for (std::size_t number = 0; !done && !enough(); ++number, ++verdict.cases)
      verdict.add(damage_in_memory(way, sample, number, done),
                  fmt::format("{}, snapshot {} damaged in memory", way.name, number));
  }
  return verdict;
}

}  // namespace distdl::checkpoint::proof
