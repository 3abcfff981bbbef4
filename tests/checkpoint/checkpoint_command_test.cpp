// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <thread>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/checkpoint/sample.hpp"
#include <distdl/base/checksum.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/checkpoint/disk_slots.hpp>
#include <distdl/checkpoint/file_operations.hpp>
#include <distdl/checkpoint/layout.hpp>
#include <distdl/checkpoint/manifest.hpp>
#include <distdl/checkpoint/ownership.hpp>
#include <distdl/checkpoint/slot_memory.hpp>

namespace distdl::app {
void add_checkpoint_command(CLI::App& app);
}

namespace distdl::checkpoint {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;

struct Result {
  int code = 0;
  std::string out;
  std::string error{};
};

Result run(const std::string& arguments) {
  CLI::App app;
  app::add_checkpoint_command(app);
  testing::internal::CaptureStdout();
  Result result;
  try {
    app.parse("checkpoint " + arguments);
  } catch (const CLI::RuntimeError& error) {
    result.code = error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    result.code = static_cast<int>(ExitCode::usage);
    result.error = error.what();
  } catch (const Error& error) {
    result.code = static_cast<int>(error.exit_code());
    result.error = error.what();
  }
  result.out = testing::internal::GetCapturedStdout();
  return result;
}

class CheckpointCommand : public testing::Test {
 protected:
  void SetUp() override {
    for (int step : {10, 20}) ASSERT_TRUE(all_empty(save_as(root, 2, Step(step), make_sample(1))));
  }
  TemporaryFolder run_;
  fs::path root = run_.path() / "checkpoints";
  fs::path newest = root / step_folder_name(Step(20));
};

TEST_F(CheckpointCommand, LsListsAllAndMarksDamage) {
  fs::remove(newest / kManifestName);
  EXPECT_THAT(run("ls " + root.string()).out,
              testing::AllOf(HasSubstr("\n          10 "), HasSubstr("20  incomplete: ")));
  auto rows = nlohmann::json::parse(run("ls --json " + root.string()).out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["world_size"], 2);
  EXPECT_EQ(rows[1]["verdict"], "incomplete");
  EXPECT_THAT(rows[1]["problem"].get<std::string>(), HasSubstr("has no MANIFEST"));
}

TEST_F(CheckpointCommand, ShowTellsTensorsAndState) {
  EXPECT_THAT(run("show " + run_.path().string()).out,
              testing::AllOf(HasSubstr("step     20"), HasSubstr("parameter/conv1.weight  f32    (8, 3, 5, 5)"),
                             testing::ContainsRegex("  data.cursor +\"1234\"\n")));
  auto document = nlohmann::json::parse(run("show --json " + root.string() + "/").out);
  EXPECT_EQ(document["state"]["data.cursor"], "1234");
  EXPECT_EQ(document["tensors"][0]["shape"], (std::vector<int>{8, 3, 5, 5}));
}

TEST_F(CheckpointCommand, CompressedOnesAreShownComparedAndExported) {
  Sample sample = make_compressible(1);
  ASSERT_TRUE(all_empty(save_as(root, 2, Step(30), sample)));
  ASSERT_TRUE(all_empty(save_as(root, 2, Step(40), sample, true, {.compression = "shuffle+zstd"})));
  EXPECT_THAT(run("show " + root.string()).out, HasSubstr("MiB, compressed to "));
  EXPECT_THAT(run("show " + root.string() + "@30").out, testing::Not(HasSubstr("compressed")));
  auto document = nlohmann::json::parse(run("show --json " + root.string()).out);
  EXPECT_LT(document["stored_bytes"], document["plain_bytes"]);
  EXPECT_EQ(run("verify --deep " + root.string() + "@40").code, 0);
  EXPECT_EQ(run("diff " + root.string() + "@30 " + root.string() + "@40").code, 0);
  fs::path plain = run_.path() / "plain";
  ASSERT_TRUE(all_empty(save_as(plain, 1, Step(40), sample)));
  auto exported = [&](const fs::path& from, const std::string& format) {
    std::string file = (run_.path() / "exported").string();
    EXPECT_EQ(run("export " + from.string() + "@40 " + file + " --force --format " + format).code, 0) << format;
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
  };
  for (const char* format : {"safetensors", "npz"}) EXPECT_EQ(exported(root, format), exported(plain, format));
  exported(root, "view");
}

TEST_F(CheckpointCommand, DigestIsOneLine) {
  Result all = run("digest " + root.string()), one = run("digest " + newest.string());
  EXPECT_THAT(all.out, MatchesRegex("step 20 sha256 [0-9a-f]{64}\n"));
  EXPECT_EQ(all.out, one.out);
  EXPECT_THAT(run("digest " + (root / step_folder_name(Step(10))).string()).out, HasSubstr(all.out.substr(8)));
  EXPECT_EQ(nlohmann::json::parse(run("digest --json " + root.string()).out)["step"], 20);
}

TEST_F(CheckpointCommand, VerifyAnswersWithExitCodes) {
  EXPECT_EQ(run("verify " + root.string()).code, 0);
  fs::remove(newest / "node0000.h5");
  EXPECT_EQ(run("verify " + root.string()).code, 3);
  EXPECT_EQ(run("verify " + (root / step_folder_name(Step(10))).string()).code, 0);
  fs::resize_file(newest / "node0001.h5", 7);
  Result result = run("verify --json " + root.string());
  EXPECT_EQ(result.code, 2);
  auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document[0]["ok"], true);
  EXPECT_EQ(document[1]["ok"], false);
  EXPECT_EQ(document[1]["findings"][1]["file"], "node0001.h5");
}

/// What the command prints into a pipe that is full after 4 KiB; `work` is done when it has begun to print.
std::string print_slowly(const std::string& arguments, const std::function<void()>& work, int& code) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  EXPECT_GE(::fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO);
  ::dup2(ends[1], STDOUT_FILENO);
  ::close(ends[1]);
  std::thread command([&] {
    CLI::App app;
    app::add_checkpoint_command(app);
    try {
      app.parse("checkpoint " + arguments);
    } catch (const CLI::RuntimeError& error) {
      code = error.get_exit_code();
    }
    std::fflush(stdout);
    ::dup2(before, STDOUT_FILENO);  // closes the pipe's end
  });
  std::string out(1, ' ');
  EXPECT_EQ(::read(ends[0], out.data(), 1), 1);
  work();
  char piece[4096];
  for (ssize_t n; (n = ::read(ends[0], piece, sizeof piece)) > 0;) out.append(piece, static_cast<std::size_t>(n));
  command.join();
  ::close(ends[0]);
  ::close(before);
  return out;
}

TEST_F(CheckpointCommand, VerifyDoesNotCountWhatARunCollectsMeanwhile) {
  fs::path deep = run_.path();
  for (char letter : {'a', 'b', 'c', 'd'}) deep /= std::string(250, letter);
  for (int step = 1; step <= 12; ++step)  // a line of more than 1000 bytes each: far more than the pipe holds
    ASSERT_TRUE(all_empty(save_as(deep, 1, Step(step), make_sample(1), false, {.keep = 12})));
  int code = 0;
  std::string out = print_slowly(
      "verify " + deep.string(), [&] { fs::remove_all(deep / step_folder_name(Step(12))); }, code);
  EXPECT_EQ(code, 0);
  EXPECT_THAT(out, testing::AllOf(HasSubstr(step_folder_name(Step(11)) + ": ok\n"),
                                  HasSubstr(step_folder_name(Step(12)) + ": collected meanwhile\n")));
}

TEST_F(CheckpointCommand, VerifyNamesBlockAndChecksums) {
  fs::path file = newest / "node0000.h5";
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  auto manifest = load_manifest(real_file_system(), newest);
  const StoredBox& box = manifest.tensors[0].boxes[0];
  stream.seekp(static_cast<std::streamoff>(box.offset));
  stream.write("XXXX", 4);
  stream.close();
  EXPECT_EQ(run("verify --quick " + root.string()).code, 0);  // sizes are right
  for (const std::string depth : {"", "--deep "}) {
    Result result = run("verify --json " + depth + root.string());
    EXPECT_EQ(result.code, 2);
    auto finding = nlohmann::json::parse(result.out)[1]["findings"][0];
    EXPECT_EQ(finding["file"], "node0000.h5");
    EXPECT_EQ(finding["tensor"], "momentum/conv1.weight");
    EXPECT_EQ(finding["block"], 0);
    EXPECT_EQ(finding["expected"], fmt::format("{:08x}", box.checksums[0]));
    EXPECT_THAT(finding["found"].get<std::string>(), testing::ContainsRegex("^[0-9a-f]{8}$"));
    EXPECT_NE(finding["found"], finding["expected"]);
  }
  fs::resize_file(file, 100);
  EXPECT_EQ(run("verify --quick " + root.string()).code, 2);
}

TEST_F(CheckpointCommand, VerifyNamesBothChecksumsOfAManifest) {
  std::fstream(newest / kManifestName) << "?";
  EXPECT_THAT(
      run("verify " + root.string()).out,
      testing::ContainsRegex("MANIFEST: its checksum does not hold: sha256 [0-9a-f]{64} expected, [0-9a-f]{64} found"));
  fs::resize_file(newest / kManifestName, 300);
  Result result = run("verify " + root.string());
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, HasSubstr("its last line is no checksum"));
}

TEST_F(CheckpointCommand, VerifyDeepWantsNothingElseInTheFolder) {
  EXPECT_EQ(run("verify --deep " + root.string()).code, 0);
  std::ofstream(newest / "notes.txt") << "mine";
  EXPECT_EQ(run("verify " + root.string()).code, 0);
  Result result = run("verify --deep " + root.string());
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, HasSubstr("notes.txt\" is no part of the checkpoint"));
  EXPECT_EQ(run("verify --deep --quick " + root.string()).code, 64);
}

TEST_F(CheckpointCommand, OneCheckpointIsNamedByStepOrTag) {
  EXPECT_THAT(run("tag 10 best " + run_.path().string()).out, HasSubstr("step 10: best"));
  for (const char* name : {"@10", "@best"}) {
    EXPECT_THAT(run("show " + run_.path().string() + name).out, HasSubstr("step     10"));
    EXPECT_THAT(run("verify " + root.string() + name).out, HasSubstr(step_folder_name(Step(10)) + ": ok"));
    EXPECT_THAT(run("digest " + root.string() + name).out, HasSubstr("step 10 "));
  }
  EXPECT_EQ(run("show " + root.string() + "@11").code, 3);
  EXPECT_EQ(run("show " + root.string() + "@nobody").code, 3);
  EXPECT_THAT(run("ls " + root.string()).out, testing::ContainsRegex(" best\n"));
}

TEST_F(CheckpointCommand, TagsAreGivenMovedAndTakenAway) {
  EXPECT_EQ(run("tag 11 best " + root.string()).code, 3);
  EXPECT_EQ(run("tag 10 ../x " + root.string()).code, 64);
  EXPECT_EQ(run("tag 10 best " + root.string()).code, 0);
  EXPECT_EQ(run("tag 20 best " + root.string()).code, 64);
  auto moved = nlohmann::json::parse(run("tag 20 best --move --json " + root.string()).out);
  EXPECT_EQ(moved["tags"], (std::vector<std::string>{"best"}));
  EXPECT_EQ(run("tag 10 best --remove " + root.string()).code, 64);
  EXPECT_THAT(run("tag 20 best --remove " + root.string()).out, HasSubstr("no tags"));
}

TEST_F(CheckpointCommand, DiffOfEqualOnesSaysSo) {
  Result result = run("diff " + root.string() + "@10 " + root.string() + "@20");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("9 tensors are equal, and so is the state"));
}

TEST_F(CheckpointCommand, DiffCountsAndMeasures) {
  Sample sample = make_sample(1);
  auto change = [&](std::size_t tensor, std::size_t element, auto value) {
    std::memcpy(sample[tensor].bytes.data() + element * sizeof value, &value, sizeof value);
  };
  auto get = [&](std::size_t tensor, std::size_t element) {
    double value;
    std::memcpy(&value, sample[tensor].bytes.data() + element * sizeof value, sizeof value);
    return value;
  };
  for (std::size_t i = 0; i < 7; ++i) change(1, i, 2.0);
  sample[4].entry.name = "parameter/vacant";
  ASSERT_TRUE(all_empty(save_as(root, 2, Step(30), sample)));
  change(1, 0, 3.0);
  change(1, 5, 1.5);
  change(1, 6, std::numeric_limits<double>::quiet_NaN());
  sample[4].entry.name = "parameter/void";
  sample[5].entry.shape = {2, 3};
  ASSERT_TRUE(all_empty(save_as(root, 3, Step(40), sample)));
  EXPECT_EQ(get(1, 0), 3.0);
  Result result = run("diff --json " + root.string() + "@30 " + root.string() + "@40");
  EXPECT_EQ(result.code, 0);
  auto found = nlohmann::json::parse(result.out);
  EXPECT_EQ(found["same"], false);
  EXPECT_EQ(found["equal"], 6);
  EXPECT_EQ(found["removed"][0]["name"], "parameter/vacant");
  EXPECT_EQ(found["added"][0]["name"], "parameter/void");
  EXPECT_EQ(found["reshaped"][0]["after"]["shape"], (std::vector<int>{2, 3}));
  ASSERT_EQ(found["changed"].size(), 1u);
  auto changed = found["changed"][0];
  EXPECT_EQ(changed["name"], "parameter/conv1.bias");
  EXPECT_EQ(changed["different"], 3);
  EXPECT_EQ(changed["elements"], 7);
  EXPECT_EQ(changed["not_finite"], 1);
  EXPECT_DOUBLE_EQ(changed["max_abs"].get<double>(), 1.0);
  EXPECT_DOUBLE_EQ(changed["max_rel"].get<double>(), 1.0 / 3.0);
  EXPECT_THAT(run("diff " + root.string() + "@30 " + root.string() + "@40").out,
              testing::AllOf(HasSubstr("- parameter/vacant"), HasSubstr("+ parameter/void"),
                             HasSubstr("f16 (3, 2) became f16 (2, 3)"), HasSubstr("1 not finite")));
}

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
  EXPECT_THAT(standing(10, 3), HasSubstr("collected: it was deleted to make room: 2 newer ones are verified"));
  fs::remove_all(root / step_folder_name(Step(20)));
  EXPECT_THAT(standing(20, 3), testing::StartsWith("removed: "));
  fs::create_directory(root / ".stage-40.0123456789abcdef");
  EXPECT_THAT(standing(40, 3), testing::StartsWith("being written: "));
  ASSERT_TRUE(all_empty(save_as(root, 1, Step(50), make_sample(1))));
  EXPECT_THAT(standing(40, 3), testing::StartsWith("superseded: another run took the folder"));
  fs::resize_file(root / step_folder_name(Step(50)) / "node0000.h5", 3);
  EXPECT_THAT(standing(50, 2), testing::AllOf(testing::StartsWith("damaged: "), HasSubstr("3 bytes long")));
  Alone alone;
  Store store(root, {});
  store.take(alone, owner_called("next"));
  EXPECT_EQ(store.newest_valid(alone)->step, Step(30));
  EXPECT_THAT(standing(50, 3), testing::AllOf(testing::StartsWith("quarantined: "), HasSubstr("3 bytes long")));
  Result plain = run("why 50 " + root.string());
  EXPECT_THAT(plain.out,
              testing::AllOf(HasSubstr("step 50: quarantined"), HasSubstr("of this folder a restart takes step 30\n"),
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
  EXPECT_THAT(run("why 14 " + root.string()).out, HasSubstr("step 14: snapshot only\n  it was no checkpoint"));
  EXPECT_THAT(run("why 16 " + root.string()).out, HasSubstr("step 16: snapshot only\n"));
  EXPECT_THAT(run("why 18 " + root.string()).out, HasSubstr("step 18: failed\n  no room"));
  for (int step : {12, 14}) EXPECT_EQ(run(fmt::format("why {} {}", step, root.string())).code, 3);
  EXPECT_THAT(run("why 15 " + root.string()).out,
              HasSubstr("step 15: never saved\n  nothing in this folder tells of it, nor does the run's journal\n"));
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
SlotMemory leave_snapshot(const std::string& name, int rank, Step step, const State& state = {}) {
  SlotMemory memory = SlotMemory::create(name, rank, slot_bytes({}, state));
  fill_slot(memory.writable(), {name, rank, 2, step, 1}, {}, state);
  return memory;
}

TEST_F(CheckpointCommand, WhyTellsWhatThisNodeHasOfSnapshots) {
  EXPECT_THAT(run("why 64 " + root.string()).out,
              testing::AllOf(HasSubstr("step 64: never saved"), HasSubstr("snapshots on this node: none\n"),
                             HasSubstr("run --no-snapshots")));
  const std::string name = run_name(owner_of(real_file_system(), root)->lineage, root), disk = run_.path() / "disk";
  std::vector<SlotMemory> kept;
  for (int rank : {0, 1}) kept.push_back(leave_snapshot(name, rank, Step(64)));
  kept.push_back(leave_snapshot(name, 0, Step(64), {{kParityKey, "[]"}}));
  kept.push_back(leave_snapshot(name, 1, Step(60)));
  kept.push_back(leave_snapshot(name + "0", 0, Step(70)));          // of another run
  kept.push_back(SlotMemory::create(name, 0, slot_bytes({}, {})));  // never filled
  DiskSlots(real_file_system(), disk, name).write(kept[0].bytes());
  DiskSlots(real_file_system(), disk, name).write(kept[3].bytes());
  // The same path in other words.
  Result here = run("why 64 " + (run_.path() / "disk" / "..").string() + "/ --disk " + disk);
  Result as_json = run("why 20 --json " + root.string());
  Result no_disk = run("why 64 " + root.string() + " --disk /does/not/exist");
  for (SlotMemory& one : kept) one.remove();
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

TEST_F(CheckpointCommand, GcKeepsTheRuleOfTheLastRunAndSaysWhy) {
  for (int step : {30, 40, 50})
    ASSERT_TRUE(all_empty(save_as(root, 1, Step(step), make_sample(1), false, {.keep = 5})));
  run("tag 10 best " + root.string());
  EXPECT_EQ(run("gc " + root.string()).code, 0);
  EXPECT_EQ(step_folders(root).size(), 5u);  // that run keeps 5
  EXPECT_EQ(run("gc --keep 1 " + root.string()).code, 64);
  auto would = nlohmann::json::parse(run("gc --dry-run --keep 2 --json " + root.string()).out);
  EXPECT_EQ(step_folders(root).size(), 5u);
  std::map<int, bool> stays;
  for (const auto& row : would["checkpoints"]) stays[row["step"]] = row["stays"];
  EXPECT_EQ(stays, (std::map<int, bool>{{10, true}, {20, false}, {30, false}, {40, true}, {50, true}}));
  fs::create_directory(root / ".trash-0123");
  fs::create_directory(root / ".stage-60.0123456789abcdef");
  fs::create_directory(root / ".stage-70.0123456789abcdef");
  fs::last_write_time(root / ".stage-60.0123456789abcdef", fs::file_time_type::clock::now() - std::chrono::hours(25));
  Result done = run("gc --keep 2 " + root.string());
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.out,
              testing::AllOf(HasSubstr("stays     tagged best"), HasSubstr("deleted   2 newer ones"),
                             HasSubstr("MiB of checkpoints deleted\n"), HasSubstr("a run may be writing it")));
  std::vector<std::int64_t> left;
  for (const auto& [step, folder] : step_folders(root)) left.push_back(step.value);
  EXPECT_EQ(left, (std::vector<std::int64_t>{10, 40, 50}));
  EXPECT_EQ(entries_with_prefix(root, ".stage-").size(), 1u);
  EXPECT_TRUE(entries_with_prefix(root, ".trash-").empty());
}

TEST_F(CheckpointCommand, GcNeverCountsDamagedOnes) {
  for (int step : {30, 40}) ASSERT_TRUE(all_empty(save_as(root, 1, Step(step), make_sample(1))));
  fs::resize_file(root / step_folder_name(Step(40)) / "node0000.h5", 3);
  Result done = run("gc --keep 2 " + root.string());
  EXPECT_THAT(done.out, HasSubstr("40  stays     damaged; does not count"));
  EXPECT_EQ(step_folders(root).size(), 3u);  // 20, 30 and the damaged one
}

TEST_F(CheckpointCommand, ExportAndImportRoundTrip) {
  TemporaryFolder other;
  std::string file = other.path() / "all.safetensors", made = other.path() / "made";
  EXPECT_EQ(run("export " + root.string() + "@10 " + file).code, 0);
  EXPECT_EQ(run("export " + root.string() + "@10 " + file).code, 64);  // it exists
  EXPECT_EQ(run("export --force " + root.string() + "@10 " + file).code, 0);
  EXPECT_EQ(run("export --tensors 'nothing*' " + root.string() + " " + file + "2").code, 64);
  EXPECT_EQ(run("import safetensors --no-prefix " + file + " " + made).code, 0);
  EXPECT_EQ(run("verify --deep " + made).code, 0);
  std::string before = run("digest " + root.string() + "@10").out, after = run("digest " + made).out;
  EXPECT_EQ(before.substr(before.find("sha256")), after.substr(after.find("sha256")));
  EXPECT_EQ(open(made).state.at("data.cursor"), "1234");
  EXPECT_EQ(run("import safetensors " + file + " " + made).code, 64);  // it has an owner, and a step
  EXPECT_EQ(run("import safetensors --take " + file + " " + made).code, 64);
  EXPECT_EQ(run("import safetensors --take --step 7 " + file + " " + made).code, 64);  // a restart takes step 10
  EXPECT_EQ(run("import safetensors --take --step 17 " + file + " " + made).code, 0);
  std::vector<std::string> names;
  for (const auto& entry : open(made).tensors) names.push_back(entry.name);
  EXPECT_THAT(names, testing::Contains("parameter/rng"));
  EXPECT_THAT(names, testing::Contains("momentum/conv1.weight"));
}

TEST_F(CheckpointCommand, ADamagedCheckpointIsNotExported) {
  fs::resize_file(newest / "node0000.h5", 3);
  for (const char* format : {"safetensors", "npz"}) {
    fs::path file = run_.path() / "out";
    EXPECT_EQ(run(fmt::format("export --format {} {} {}", format, newest.string(), file.string())).code, 2);
    EXPECT_FALSE(fs::exists(file));
  }
  for (const auto& entry : fs::directory_iterator(run_.path())) EXPECT_EQ(entry.path().filename(), "checkpoints");
}

/// Gives a checkpoint a manifest of a format that comes after ours.
void make_newer(const fs::path& folder) {
  std::ifstream in(folder / kManifestName);
  std::string line;
  std::getline(in, line);
  auto document = nlohmann::json::parse(line);
  document["format"] = 99;
  std::string text = document.dump() + "\n";
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  std::ofstream(folder / kManifestName) << text << "sha256 " << hash.hex() << "\n";
}

TEST_F(CheckpointCommand, ANewerFormatIsIncompatible) {
  make_newer(newest);
  EXPECT_THAT(run("ls " + root.string()).out, HasSubstr("20  incompatible: "));
  Result verified = run("verify " + root.string());
  EXPECT_EQ(verified.code, 4);
  EXPECT_THAT(verified.out,
              testing::AllOf(HasSubstr(step_folder_name(Step(10)) + ": ok"), HasSubstr(": incompatible")));
  // A restart would not go back either.
  Alone alone;
  Store store(root, {});
  EXPECT_THROW(store.newest_valid(alone), StorageError);
  Result why = run("why 10 " + root.string());
  EXPECT_EQ(why.code, 0);
  EXPECT_THAT(why.out, testing::AllOf(HasSubstr("step 10: older"), HasSubstr("nothing: it ends at step 20")));
  EXPECT_EQ(nlohmann::json::parse(run("why 20 --json " + root.string()).out)["restart_ends_at"], 20);
  EXPECT_EQ(run("why 20 " + root.string()).code, 4);
}

TEST_F(CheckpointCommand, TheNewestIsMeantEvenIfItIsDamaged) {
  fs::path file = run_.path() / "out";
  fs::remove(newest / kManifestName);
  for (const std::string action : {"show {}", "digest {}", "export {} {}", "diff {} {}@10"})
    EXPECT_EQ(
        run(fmt::format(fmt::runtime(action), root.string(), action[0] == 'd' ? root.string() : file.string())).code, 3)
        << action;
  EXPECT_FALSE(fs::exists(file));
  EXPECT_EQ(run("show " + root.string() + "@10").code, 0);
}

TEST_F(CheckpointCommand, WrongUseIsToldInWords) {
  EXPECT_EQ(run("ls " + newest.string()).code, 64);  // one checkpoint is no folder of them
  EXPECT_EQ(run("gc " + newest.string()).code, 64);
  EXPECT_EQ(run("tag 20 best " + newest.string()).code, 64);
  EXPECT_EQ(run("verify " + (newest / kManifestName).string()).code, 64);
  for (const char* step : {"x", "1x", "-1", "99999999999999999999"})
    EXPECT_EQ(run(fmt::format("why {} {}", step, root.string())).code, 64) << step;
  EXPECT_EQ(run(fmt::format("export --deflate {} {}/x", root.string(), run_.path().string())).code, 64);
  EXPECT_EQ(run(fmt::format("export --format hdf5 {} {}/x", root.string(), run_.path().string())).code, 64);
}

TEST_F(CheckpointCommand, ErrorsSayWhatToDo) {
  EXPECT_THAT(run("show " + root.string() + "@banana").error,
              HasSubstr(fmt::format("tagged \"banana\"; \"distdl checkpoint ls {}\"", root.string())));
  EXPECT_THAT(run("ls /does/not/exist").error, HasSubstr("\"/does/not/exist\"; name that of a run (run.dir)"));
  TemporaryFolder empty;
  for (const char* action : {"show ", "verify "})
    EXPECT_THAT(run(action + empty.path().string()).error,
                testing::AllOf(HasSubstr("step-000000000100 and the like"), HasSubstr("run.dir")));
  for (const char* option : {"--keep x", "--keep 1", "--keep 2.5", "--keep 99999999999999999999"})
    EXPECT_THAT(run(fmt::format("gc {} {}", option, root.string())).error,
                HasSubstr("a whole number from 2 was expected"))
        << option;
  EXPECT_THAT(run("gc --keep-every -1 " + root.string()).error, HasSubstr("a whole number from 0 was expected"));
  for (const char* format : {"safetensors", "npz", "view"}) {
    Result result = run(fmt::format("export --format {} {} /does/not/exist/w", format, root.string()));
    EXPECT_EQ(result.code, 74);
    EXPECT_THAT(result.error, HasSubstr("\"/does/not/exist/w\": there is no folder \"/does/not/exist\"; make it"));
  }
  const std::string name(255, 'w');  // the unfinished file's would be longer
  EXPECT_THAT(run(fmt::format("export {} {}/{}", root.string(), run_.path().string(), name)).error,
              HasSubstr(name + "\": File name too long"));
}

/// Lets nobody delete a file, root neither, or lets it again; false if that is not possible here.
bool make_immutable(const fs::path& file, bool yes) {
  const FileDescriptor handle(::open(file.c_str(), O_RDONLY));
  int flags = 0;
  if (::ioctl(handle.get(), FS_IOC_GETFLAGS, &flags) != 0) return false;
  flags = yes ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
  return ::ioctl(handle.get(), FS_IOC_SETFLAGS, &flags) == 0;
}

TEST_F(CheckpointCommand, GcTellsWhatItCannotDeleteAndWhy) {
  fs::create_directory(root / ".trash-0123");
  std::ofstream(root / ".trash-0123" / "node0000.h5") << "x";
  if (!make_immutable(root / ".trash-0123" / "node0000.h5", true)) GTEST_SKIP() << "no file can be made immutable here";
  Result result = run("gc " + root.string());
  fs::path left = entries_with_prefix(root, ".trash-").at(0);
  EXPECT_TRUE(make_immutable(left / "node0000.h5", false));
  EXPECT_EQ(result.code, 74);
  EXPECT_THAT(result.error, testing::AllOf(HasSubstr("\"" + left.string() + "\": Operation not permitted"),
                                           HasSubstr("Run gc again")));
  EXPECT_EQ(run("gc " + root.string()).code, 0);
}

TEST_F(CheckpointCommand, MissingFoldersAreIncomplete) {
  TemporaryFolder empty;
  for (const char* action : {"show ", "verify ", "digest "}) EXPECT_EQ(run(action + empty.path().string()).code, 3);
  EXPECT_THAT(run("ls " + empty.path().string()).out, HasSubstr("there is no checkpoint in"));
  EXPECT_EQ(run("ls /does/not/exist").code, 3);
}
}  // namespace
}  // namespace distdl::checkpoint
