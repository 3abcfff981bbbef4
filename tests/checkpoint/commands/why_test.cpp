// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint: why.
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/checkpoint/commands/command_fixture.hpp"
#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/checkpoint/disk_snapshots.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint {
namespace {
using testing::HasSubstr;

TEST_F(CheckpointCommand, WhyTellsWhatBecameOfAStep) {
  auto standing = [&](int step, int code) {
    Result result = run(fmt::format("why {} {} --json", step, run_.path().string()));
    EXPECT_EQ(result.code, code) << result.out;
    auto answer = nlohmann::json::parse(result.out);
    EXPECT_EQ(answer["code"], code);
    return answer["standing"].get<std::string>() + ": " + answer["reason"].get<std::string>();
  };
  EXPECT_THAT(standing(20, 0), testing::StartsWith("used: "));
  EXPECT_THAT(standing(10, 0), testing::StartsWith("older: "));
  EXPECT_THAT(standing(15, 3), testing::StartsWith("never saved: "));
  Options two{.keep = 2};
  ASSERT_TRUE(all_empty(save_as(root, 1, Step(30), make_sample(1), false, two)));
  EXPECT_THAT(standing(10, 3), HasSubstr("collected: it was deleted: 2 newer ones are verified"));
  fs::remove_all(root / step_folder_name(Step(20)));
  EXPECT_THAT(standing(20, 3), testing::StartsWith("removed: "));
  fs::create_directory(root / ".stage-40.0123456789abcdef");
  EXPECT_THAT(standing(40, 3), testing::StartsWith("being written: "));
  ASSERT_TRUE(all_empty(save_as(root, 1, Step(50), make_sample(1))));
  EXPECT_THAT(standing(40, 3), testing::StartsWith("superseded: another run took the folder"));
  fs::resize_file(root / step_folder_name(Step(50)) / "node0000.h5", 3);
  EXPECT_THAT(standing(50, 2), testing::AllOf(testing::StartsWith("damaged: "), HasSubstr("3 bytes long")));
  SingleProcessGroup alone;
  Store store(root, {});
  store.take(alone, owner_called("next"));
  EXPECT_EQ(store.newest_valid(alone)->step, Step(30));
  EXPECT_THAT(standing(50, 3), testing::AllOf(testing::StartsWith("quarantined: "), HasSubstr("3 bytes long")));
  Result plain = run("why 50 " + root.string());
  EXPECT_THAT(plain.out,
              testing::AllOf(HasSubstr("step 50: quarantined"), HasSubstr("a restart from this folder uses step 30\n"),
                             HasSubstr("checkpoints in it: 30\n")));
}

TEST_F(CheckpointCommand, WhyReadsTheJournalWhereTheHistoryTellsNothing) {
  fs::remove(root / kHistoryName);
  std::ofstream(run_.path() / "journal.jsonl") << R"({"event":"checkpoint","step":5,"time":1}
{"event":"save_failed","step":7,"reason":"no space"}
{"event":"save_skipped","step":12,"time":2}
{"event":"snapshot","step":14,"time":2}
{"event":"save_skipped","step":16,"time":2}
{"event":"snapshot_failed","step":18,"time":2,"reason":"no room"}
{"event":"snapshot","step":5,"time":3}
{"event":"snapshot_failed","step":5,"time":3}
{"event":"save_skipped","step":7,"time":3}
{"event":"snapshot","step":16,"time":3}
{"event":"finished","step":20}
{"event":"torn)";
  EXPECT_THAT(run("why 5 " + root.string()).out, HasSubstr("step 5: removed\n  the run's journal says"));
  EXPECT_THAT(run("why 7 " + root.string()).out, HasSubstr("step 7: failed\n  no space"));
  EXPECT_THAT(run("why 12 " + root.string()).out, HasSubstr("step 12: skipped\n  the save before it"));
  EXPECT_THAT(run("why 14 " + root.string()).out, HasSubstr("step 14: snapshot only\n  it was not a checkpoint"));
  EXPECT_THAT(run("why 16 " + root.string()).out, HasSubstr("step 16: snapshot only\n"));
  EXPECT_THAT(run("why 18 " + root.string()).out, HasSubstr("step 18: failed\n  no room"));
  for (int step : {12, 14}) EXPECT_EQ(run(fmt::format("why {} {}", step, root.string())).code, 3);
  EXPECT_THAT(run("why 15 " + root.string()).out,
              HasSubstr("step 15: never saved\n  this folder has no record of it, nor does the run's journal\n"));
  EXPECT_THAT(run("why 100 " + root.string()).out, HasSubstr("journal ends at step 20\n"));
}

TEST_F(CheckpointCommand, WhyTellsTheWorstAsVerifyDoes) {
  fs::remove(newest / "node0000.h5");
  fs::resize_file(newest / "node0001.h5", 7);
  EXPECT_EQ(run("verify " + newest.string()).code, 2);
  Result why = run("why 20 " + root.string());
  EXPECT_EQ(why.code, 2);
  EXPECT_THAT(why.out, testing::AllOf(HasSubstr("step 20: damaged\n"), HasSubstr("node0001.h5\" is 7 bytes long")));
}

/// A rank's snapshot, or something that is called parity, as a run of two ranks leaves it in this node's memory.
SnapshotMemory leave_snapshot(const std::string& name, int rank, Step step, const State& state = {}) {
  SnapshotMemory memory = SnapshotMemory::create(name, rank, buffer_bytes({}, state));
  fill_buffer(memory.writable(), {name, rank, 2, step, 1}, {}, state);
  return memory;
}

TEST_F(CheckpointCommand, WhyTellsWhatThisNodeHasOfSnapshots) {
  EXPECT_THAT(run("why 64 " + root.string()).out,
              testing::AllOf(HasSubstr("step 64: never saved"), HasSubstr("snapshots on this node: none\n"),
                             HasSubstr("run --no-snapshots")));
  const std::string name = run_name(owner_of(real_file_system(), root)->lineage, root), disk = run_.path() / "disk";
  std::vector<SnapshotMemory> kept;
  for (int rank : {0, 1}) kept.push_back(leave_snapshot(name, rank, Step(64)));
  kept.push_back(leave_snapshot(name, 0, Step(64), {{kParityKey, "[]"}}));
  kept.push_back(leave_snapshot(name, 1, Step(60)));
  kept.push_back(leave_snapshot(name + "0", 0, Step(70)));                // of another run
  kept.push_back(SnapshotMemory::create(name, 0, buffer_bytes({}, {})));  // never filled
  DiskSnapshots(real_file_system(), disk, name).write(kept[0].bytes());
  DiskSnapshots(real_file_system(), disk, name).write(kept[3].bytes());
  // The same path in other words.
  Result here = run("why 64 " + (run_.path() / "disk" / "..").string() + "/ --disk " + disk);
  Result as_json = run("why 20 --json " + root.string());
  Result no_disk = run("why 64 " + root.string() + " --disk /does/not/exist");
  for (SnapshotMemory& one : kept) one.remove();
  EXPECT_EQ(here.code, 3);
  EXPECT_THAT(here.out, HasSubstr("snapshots on this node:\n  step 60: of 1 of 2 ranks, in memory and on disk\n"
                                  "  step 64: of 2 of 2 ranks, and 1 parities, in memory and on disk\n"));
  EXPECT_THAT(no_disk.out, HasSubstr("step 60: of 1 of 2 ranks, in memory\n"));
  auto rows = nlohmann::json::parse(as_json.out)["snapshots_here"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["step"], 64);
  EXPECT_EQ(rows[1]["ranks"], (std::vector<int>{0, 1}));
  EXPECT_EQ(rows[1]["on_disk"], false);
}

}  // namespace
}  // namespace distdl::checkpoint
