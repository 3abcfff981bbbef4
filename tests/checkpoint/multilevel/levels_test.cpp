// SPDX-License-Identifier: Apache-2.0
#include <barrier>
#include <fstream>
#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "tests/checkpoint/multilevel/simulated_nodes.hpp"
#include <distdl/checkpoint/multilevel/level.hpp>
#include <distdl/checkpoint/multilevel/redundancy.hpp>

namespace distdl::checkpoint {
namespace {

RestoreSource from(std::string_view level) {
  return RestoreSource(level_called(level));
}

/// What ranks on these nodes get back; nothing if there is no step to go back to. All must get the same.
std::optional<Step> restore(const Site& site, const std::vector<std::string>& nodes, const Sample& sample,
                            std::vector<RestoreSource>* sources = nullptr) {
  std::mutex mutex;
  std::optional<Step> step;
  run_on(site, nodes, [&](Levels& levels, int rank, const std::string&) {
    const auto plan = levels.find();
    if (!plan) return;
    const RestoreMemory room(sample);
    State state;
    const auto reports = levels.restore(*plan, room.targets, state);
    std::lock_guard lock(mutex);
    EXPECT_EQ(state.at("position"), "77");
    for (std::size_t i = 0; i < sample.size(); ++i) EXPECT_EQ(room.memory[i], sample[i].bytes) << sample[i].entry.name;
    step = plan->step;
    if (sources && rank == 0)
      for (const auto& report : reports) sources->push_back(report.source);
  });
  return step;
}

/// Worked out anew, from the promise alone: does every snapshot survive the loss of these nodes?
bool promised(const std::vector<std::string>& nodes, const std::set<std::string>& lost, const Protection& how,
              int parity_set) {
  const auto alive = [&](int rank) { return !lost.contains(nodes[static_cast<std::size_t>(rank)]); };
  const auto partners = partners_of(nodes);
  std::vector<bool> there;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank)
    there.push_back(alive(static_cast<int>(rank)) ||
                    (how.has("partner") && partners[rank] >= 0 && alive(partners[rank])));
  std::vector<bool> all = there;
  if (how.has("parity"))
    for (const auto& set : parity_sets(nodes, parity_set))
      for (int rank : set) {
        bool others = true;
        for (int other : set)
          if (other != rank) others = others && there[static_cast<std::size_t>(other)] && alive(other);
        if (others) all[static_cast<std::size_t>(rank)] = true;
      }
  return std::all_of(all.begin(), all.end(), [](bool one) { return one; });
}

struct Case {
  int nodes, ranks_each, parity_set;
  Protection how;
};

class LostNodes : public testing::TestWithParam<Case> {};

/// R1: every set of lost nodes; the rest goes on alone, or with fresh nodes in their place.
TEST_P(LostNodes, GiveBackEverythingWithinThePromiseAndRefuseBeyond) {
  const Case& param = GetParam();
  Site site;
  site.parity_set = param.parity_set;
  const Sample sample = make_sample(3);
  const auto nodes = names_of(param.nodes, param.ranks_each);
  save(site, nodes, sample, Step(40), param.how);
  const auto kept = site.names();
  int within = 0, beyond = 0;
  for (unsigned mask = 0; mask + 1 < 1U << param.nodes; ++mask) {
    std::set<std::string> lost;
    std::vector<std::string> rest, replaced = nodes;
    for (int n = 0; n < param.nodes; ++n)
      if (mask >> n & 1U) lost.insert("n" + std::to_string(n));
    for (auto& node : replaced) {
      if (!lost.contains(node)) rest.push_back(node);
      if (lost.contains(node)) node = "fresh_" + node;
    }
    const bool expected = promised(nodes, lost, param.how, param.parity_set);
    ++(expected ? within : beyond);
    for (const auto& present : {rest, replaced}) {
      const auto step = restore(site, present, sample);
      EXPECT_EQ(step, expected ? std::optional(Step(40)) : std::nullopt) << "lost nodes: mask " << mask;
      site.remove_all_but(kept);
    }
  }
  std::cout << within << " sets of lost nodes within the promise, " << beyond << " beyond\n";
  EXPECT_GT(within, param.nodes);
}

INSTANTIATE_TEST_SUITE_P(Exhaustive, LostNodes,
                         testing::Values(Case{2, 1, 8, {"partner"}}, Case{2, 2, 8, {"parity"}},
                                         Case{3, 2, 8, {"partner"}}, Case{5, 1, 3, {"parity"}},
                                         Case{8, 1, 8, {"partner"}}, Case{8, 1, 8, {"parity"}},
                                         Case{8, 1, 4, {"parity"}}, Case{8, 1, 4, {"partner", "parity"}}));

TEST(Levels, PreferTheNodesOwnMemory) {
  Site site;
  const Sample sample = make_sample(3);
  save(site, names_of(3), sample, Step(40), {"partner", "parity"});
  std::vector<RestoreSource> sources;
  EXPECT_EQ(restore(site, names_of(3), sample, &sources), Step(40));
  EXPECT_EQ(sources, std::vector(3, RestoreSource()));
}

TEST(Levels, TakeThePartnersCopyBeforeParity) {
  Site site;
  const Sample sample = make_sample(3);
  save(site, names_of(3), sample, Step(40), {"partner", "parity"});
  std::vector<RestoreSource> sources;
  EXPECT_EQ(restore(site, {"n0", "fresh", "n2"}, sample, &sources), Step(40));
  EXPECT_EQ(sources, (std::vector{RestoreSource(), from("partner"), RestoreSource()}));
}

TEST(Levels, ComeBackFromLocalDisksWhenAllMemoryIsGone) {
  Site site;
  site.disk = true;
  const Sample sample = make_sample(3);
  save(site, names_of(3), sample, Step(40), {"partner", "disk"});
  site.remove_all_but({});
  std::vector<RestoreSource> sources;
  EXPECT_EQ(restore(site, names_of(3), sample, &sources), Step(40));
  EXPECT_EQ(sources, std::vector(3, from("disk")));
}

TEST(Levels, GoBackToTheStepThatAllHave) {
  Site site;
  site.disk = true;
  const Sample old = make_sample(3), recent = make_sample(4);
  save(site, names_of(3), old, Step(40), {"disk"});
  save(site, names_of(3), recent, Step(50), {});
  const auto kept = site.names();
  EXPECT_EQ(restore(site, names_of(3), recent), Step(50));
  site.remove_all_but(kept);  // a restore leaves more copies
  for (const auto& name : buffers_of(site.memory_of("n1"))) ::unlink(("/dev/shm/" + name).c_str());
  EXPECT_EQ(restore(site, names_of(3), old), Step(40));
}

/// Changes a byte of the first tensor of a buffer in a file.
void damage_file(const std::filesystem::path& path) {
  std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
  SnapshotMemory memory = SnapshotMemory::create_private(std::filesystem::file_size(path));
  stream.read(reinterpret_cast<char*>(memory.writable().data()), static_cast<std::streamsize>(memory.bytes().size()));
  const auto* first = open_snapshot(memory.bytes()).slices.at(0).bytes;
  stream.seekp(first - memory.bytes().data());
  const int byte = std::to_integer<int>(*first);
  stream.put(static_cast<char>(byte ^ 1));
  ASSERT_TRUE(stream.flush());
}

void damage(const std::string& name) {
  damage_file("/dev/shm/" + name);
}

TEST(Levels, SeeDamageAndTakeTheNextSource) {
  Site site;
  const Sample sample = make_sample(3);
  save(site, names_of(3), sample, Step(40), {"partner", "parity"});
  const auto kept = site.names();
  const auto hurt = [&](const std::string& node, int rank) {
    const auto found = buffers_of(site.memory_of(node), rank);
    ASSERT_FALSE(found.empty());
    for (const auto& name : found) damage(name);
  };
  hurt("n1", 1);  // its own snapshot, and its parity
  std::vector<RestoreSource> sources;
  EXPECT_EQ(restore(site, names_of(3), sample, &sources), Step(40));
  EXPECT_EQ(sources[1], from("partner"));
  site.remove_all_but(kept);
  hurt("n2", 1);  // the copy, too: its parity is lost, the others' are enough
  sources.clear();
  EXPECT_EQ(restore(site, names_of(3), sample, &sources), Step(40));
  EXPECT_EQ(sources[1], from("parity"));
  site.remove_all_but(kept);
  hurt("n0", 0);
  EXPECT_EQ(restore(site, names_of(3), sample), std::nullopt);
}

/// What `levels` gives back of a sample; throws what restore() throws.
void restore_all(Levels& levels, const RestorePlan& plan, const Sample& sample) {
  const RestoreMemory room(sample);
  State state;
  levels.restore(plan, room.targets, state);
  for (std::size_t i = 0; i < sample.size(); ++i) EXPECT_EQ(room.memory[i], sample[i].bytes) << sample[i].entry.name;
}

/// What the ranks on these nodes throw.
std::string error_of(const Site& site, const std::vector<std::string>& nodes,
                     const std::function<void(Levels&, int rank, const std::string& node)>& work) try {
  run_on(site, nodes, work);
  return "";
} catch (const std::runtime_error& error) {
  return error.what();
}

TEST(Levels, VerifyWhatTheyReadFromADiskOnEachRankThatReadsIt) {
  Site site;
  site.disk = true;
  const Sample sample = make_sample(3);
  save(site, names_of(1, 2), sample, Step(40), {"disk"});
  site.remove_all_but({});
  std::barrier found(2);
  const auto error = error_of(site, names_of(1, 2), [&](Levels& levels, int rank, const std::string& node) {
    const auto plan = levels.find();
    found.arrive_and_wait();
    // Both have verified theirs; what one of them reads of the other's is damaged by now.
    if (rank == 0)
      for (const auto& entry : std::filesystem::directory_iterator(site.disk_of(node))) damage_file(entry.path());
    found.arrive_and_wait();
    restore_all(levels, plan.value(), sample);
  });
  EXPECT_NE(error.find("checksum"), std::string::npos) << error;
}

TEST(Levels, SeeThatASlotWasFilledAgainWhileItWasRead) {
  Site site;
  const Sample sample = make_sample(3), later = make_sample(4);
  const auto error = error_of(site, names_of(1), [&](Levels& levels, int, const std::string& node) {
    const Share share = share_of(sample, 0, 1), other = share_of(later, 0, 1);
    SnapshotMemory buffer = SnapshotMemory::create(site.memory_of(node), 0, buffer_bytes(share.slices, {}));
    fill_buffer(buffer.writable(), site.label(0, 1, Step(40)), share.slices, {});
    const auto plan = levels.find();
    fill_buffer(buffer.writable(), site.label(0, 1, Step(50)), other.slices, {});
    restore_all(levels, plan.value(), later);
  });
  EXPECT_NE(error.find("has been replaced"), std::string::npos) << error;
}

TEST(Levels, NeverPutTwoPastsTogether) {
  Site site;
  site.disk = true;
  const Sample old = make_sample(3), recent = make_sample(4);
  const Protection disk{"disk"};
  save(site, {"a", "b"}, old, Step(50), disk);
  site.remove_all_but({});
  // Without b the run goes on from an earlier checkpoint, and passes step 50 once more.
  run_on(site, {"a", "c"}, [](Levels& levels, int, const std::string&) { levels.keep_only(std::nullopt); });
  site.start = 2;
  save(site, {"a", "c"}, recent, Step(50), disk);
  site.remove_all_but({});
  EXPECT_EQ(restore(site, {"a", "b"}, recent), std::nullopt);
  site.remove_all_but({});
  EXPECT_EQ(restore(site, {"b", "c", "a"}, recent), Step(50));
}

TEST(Levels, TakeTheLatestStartBeforeTheHighestStep) {
  Site site;
  const Sample old = make_sample(3), recent = make_sample(4);
  save(site, names_of(2), old, Step(60), {});
  site.start = 2;
  save(site, names_of(2), recent, Step(50), {});
  EXPECT_EQ(restore(site, names_of(2), recent), Step(50));
}

TEST(Levels, AreAsNewAsACheckpointByStartAndThenByStep) {
  const auto is = [](std::uint64_t start, std::int64_t step, std::uint64_t other_start, std::int64_t other_step) {
    Summary checkpoint;
    checkpoint.step = Step(other_step);
    checkpoint.start = other_start;
    return is_as_new_as(RestorePlan{Step(step), 2, {}, {start, 5}}, checkpoint);
  };
  EXPECT_TRUE(is(2, 50, 2, 50));
  EXPECT_FALSE(is(2, 50, 2, 51));
  EXPECT_TRUE(is(3, 50, 2, 60));
  EXPECT_FALSE(is(2, 60, 3, 50));
  EXPECT_TRUE(is(2, 60, 0, 50)) << "a checkpoint that does not tell";
  EXPECT_FALSE(is(2, 60, 0, 70));
}

TEST(Levels, LeaveNothingOfOlderStepsBehind) {
  Site site;
  site.disk = true;
  const Sample sample = make_sample(3);
  const Protection all{"partner", "parity", "disk"};
  save(site, names_of(3), sample, Step(40), all);
  const auto count = site.names().size();
  save(site, names_of(3), sample, Step(50), all);
  EXPECT_EQ(site.names().size(), count);
  for (const auto& node : names_of(3)) {
    const auto files = std::distance(std::filesystem::directory_iterator(site.disk_of(node)), {});
    EXPECT_EQ(files, 1);
  }
}

TEST(Levels, ForgetWhatIsNewerThanTheStepThatWasRestored) {
  Site site;
  site.disk = true;
  const Sample sample = make_sample(3);
  save(site, names_of(2), sample, Step(40), {"partner", "parity", "disk"});
  run_on(site, names_of(2), [](Levels& levels, int, const std::string&) {
    levels.keep_only(RestorePlan{Step(30), 2, {}});
  });
  EXPECT_EQ(site.names().size(), 0U);
  EXPECT_EQ(restore(site, names_of(2), sample), std::nullopt);
}

TEST(Levels, RefuseTensorsOfAnotherShape) {
  Site site;
  Sample sample = make_sample(3);
  save(site, names_of(2), sample, Step(40), {"partner"});
  sample[0].entry.shape = {8, 3, 25};
  try {
    restore(site, names_of(2), sample);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("momentum/conv1.weight"), std::string::npos) << error.what();
  }
}

TEST(Levels, RefuseAModelThatHasFewerTensorsOrMore) {
  Site site;
  const Sample sample = make_sample(3);
  save(site, names_of(2), sample, Step(40), {"partner"});
  Sample fewer = sample, more = sample;
  fewer.pop_back();
  more.push_back({{"parameter/zz", tensor::DataType::byte, {1}}, Bytes(1)});
  for (const auto& [asked, problem] :
       {std::pair(fewer, "it has small, which the model does not have"), std::pair(more, "it lacks parameter/zz")}) {
    const auto error = error_of(site, names_of(2), [&, asked = asked](Levels& levels, int, const std::string&) {
      restore_all(levels, levels.find().value(), asked);
    });
    EXPECT_NE(error.find("the snapshots of step 40 do not fit this model: " + std::string(problem)), std::string::npos)
        << error;
    EXPECT_NE(error.find("--partial"), std::string::npos) << error;
  }
}

TEST(Levels, CountATensorAsWantedThatAnyRankWants) {
  Site site;
  const Sample sample = make_sample(3);
  save(site, names_of(2), sample, Step(40), {"partner"});
  run_on(site, names_of(2), [&](Levels& levels, int rank, const std::string&) {
    const auto middle = sample.begin() + 4;
    restore_all(levels, levels.find().value(),
                rank == 0 ? Sample(sample.begin(), middle) : Sample(middle, sample.end()));
  });
}

}  // namespace
}  // namespace distdl::checkpoint
