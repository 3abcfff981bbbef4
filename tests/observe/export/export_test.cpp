// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/observe/export/event_file.hpp"
#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/observe/export/exporters.hpp>
#include <distdl/observe/export/run_log.hpp>
#include <distdl/observe/kept_job.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/observe/run/run_identity.hpp>
#include <distdl/observe/tensorboard/png.hpp>

namespace distdl::observe {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
namespace fs = std::filesystem;

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), {});
}

std::string sha256_of(const std::string& bytes) {
  Sha256 sum;
  sum.update(std::as_bytes(std::span(bytes)));
  return sum.hex();
}

// The expected bytes are those of wandb/sdk/internal/datastore.py of wandb 0.16.6.
TEST(RunLogOfWandb, HasTheBytesOfItsOwnWriter) {
  RunLog small;
  small.append("abc");
  small.append("");
  EXPECT_EQ(small.bytes(),
            std::string("\x3a\x57\x26\x42\xe1\xbe\x00\xa9\x20\x9d\x53\x03\x00\x01\x61\x62\x63\x1b\xdf\x05"
                        "\xa5\x00\x00\x01",
                        24));
}

TEST(RunLogOfWandb, DividesRecordsAtTheEndsOfBlocks) {
  RunLog log;
  log.append(std::string(32750, 'x'));  // leaves less than the head of a fragment
  log.append("yyy");
  log.append(std::string(70000, 'z'));
  log.append("wwwww");
  EXPECT_EQ(log.bytes().size(), 102811u);
  EXPECT_EQ(sha256_of(log.bytes()), "ba796ecea2cf7f278cd761531cb7ef49fd6f7f67dd2ade35583c47644da04a61");
}

TEST(Png, HasTheRowsOfAnImage) {
  const std::vector<std::uint8_t> pixels{1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16, 21, 22, 23, 24, 25, 26};
  const std::string file = png(pixels, {3, 2, 3});
  EXPECT_TRUE(file.starts_with(std::string("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0", 29)));
  EXPECT_TRUE(file.ends_with(std::string("\0\0\0\0IEND\xae\x42\x60\x82", 12)));
  std::vector<std::uint8_t> rows(20);
  uLongf size = rows.size();
  const auto* const data = reinterpret_cast<const Bytef*>(file.data()) + 41;
  ASSERT_EQ(::uncompress(rows.data(), &size, data, file.size() - 41 - 16), Z_OK);
  EXPECT_THAT(rows, ElementsAre(0, 1, 11, 21, 2, 12, 22, 3, 13, 23, 0, 4, 14, 24, 5, 15, 25, 6, 16, 26));
}

/// A run of two starts: steps 3 and 4 were done twice, and step 5 only by the first.
class Export : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(run_);
    identify_run(run_, "0123456789ab");
    keep_job(run_,
             "[run]\ndir = \"run\"\n\n[optim]\nlearning_rate = 0.5\n\n[model]\nname = \"mlp\"\nhidden = [16, 8]\n");
    start(1, {}, 1, 5, 0);
    start(2, Step(2), 3, 4, 100);
  }
  void TearDown() override { fs::remove_all(root_); }

  void start(std::uint64_t number, std::optional<Step> resumed, std::int64_t first, std::int64_t last, double loss) {
    RunFolder records(run_, 0);
    records::Started started{resumed, Step(100), 2, 50, 5, "reference"};
    started.start = number;
    records.on(started);
    for (std::int64_t step = first; step <= last; ++step)
      records.on(records::StepDone{Step(step), 0.5, loss + static_cast<double>(step), 0.5, 0.01, 100, 0.125});
    records.on(records::Evaluated{Step(last), 0.5, 0.75, 0.875, 50});
  }
  void finish() {
    RunFolder records(run_, 0);
    records.on(records::Finished{Step(4), 0.75, 0.875});
  }

  fs::path root_ = fs::path(::testing::TempDir()) / ("export_" + std::to_string(::getpid()));
  fs::path run_ = root_ / "run", place_ = root_ / "place";
};

TEST_F(Export, HasEachStepOnceAndNoneThatWasUndone) {
  const auto folder = export_tensorboard(read_history(run_), place_, false);
  EXPECT_EQ(folder, place_ / "run-0123456789ab");
  const EventFolder found(folder);
  EXPECT_THAT(found.scalars.at("train/loss"), ElementsAre(Pair(1, 1), Pair(2, 2), Pair(3, 103), Pair(4, 104)));
  EXPECT_THAT(found.scalars.at("validation/accuracy"), ElementsAre(Pair(4, 0.875)));
  EXPECT_THAT(found.plugins, ElementsAre("job", "_hparams_/session_start_info"));
}

TEST_F(Export, PassesOverRowsThatAreDamaged) {
  std::ofstream(run_ / "metrics.jsonl", std::ios::app)
      << "{\"step\":-1,\"loss\":1}\n{\"step\":1e300,\"loss\":1}\n[1]\n{\"step\":9,\"loss\":null}\n{\"st\n"
      << "{\"event\":[],\"step\":8,\"loss\":1}\n{\"step\":7,\"loss\":7.5,\"time\":\"x\"}\n"
      << "{\"step\":100,\"start\":2,\"loss\":1";
  const EventFolder found(export_tensorboard(read_history(run_), place_, false));
  EXPECT_EQ(found.scalars.at("train/loss").size(), 4u) << "rows of no start count up to the last resume";
}

TEST_F(Export, WritesARunThatWandbUploads) {
  finish();
  const auto folder = export_wandb(read_history(run_), place_, false);
  EXPECT_THAT(folder.filename().string(), ::testing::MatchesRegex("offline-run-[0-9]+_[0-9]+-0123456789ab"));
  const std::string bytes = contents(folder / "run-0123456789ab.wandb");
  std::vector<std::multimap<int, std::string>> records;
  for (std::size_t at = 7; at + 7 < bytes.size();) {  // all in one block
    const auto size = static_cast<std::size_t>(static_cast<unsigned char>(bytes[at + 4])) |
                      static_cast<std::size_t>(static_cast<unsigned char>(bytes[at + 5])) << 8;
    records.push_back(wire_fields(std::string_view(bytes).substr(at + 7, size)));
    at += 7 + size;
  }
  ASSERT_EQ(records.size(), 8u) << "header, run, four steps, summary, exit";
  EXPECT_EQ(records[1].find(1)->second, "2");
  const auto run = wire_fields(records[1].find(17)->second);
  EXPECT_EQ(run.find(1)->second, "0123456789ab");
  EXPECT_EQ(run.find(8)->second, "run");
  const std::string& last = records[5].find(2)->second;
  EXPECT_THAT(last, HasSubstr("train/loss\x82\x01\x05"
                              "104.0"));
  EXPECT_THAT(last, HasSubstr("validation/loss\x82\x01\x04"
                              "0.75"));
  EXPECT_THAT(last, HasSubstr("_step\x82\x01\x01"
                              "4"));
  EXPECT_EQ(wire_fields(records[7].find(18)->second).find(1)->second, "0");
}

TEST_F(Export, WritesARunOfMlflow) {
  const auto folder = export_mlflow(read_history(run_), place_, false);
  EXPECT_EQ(folder.filename(), "0123456789ab");
  EXPECT_THAT(contents(folder / "metrics/train/loss"),
              ::testing::MatchesRegex("[0-9]+ 1 1\n[0-9]+ 2 2\n[0-9]+ 103 3\n[0-9]+ 104 4\n"));
  EXPECT_EQ(contents(folder / "params/model.name"), "mlp");
  EXPECT_EQ(contents(folder / "params/model.hidden"), "[16, 8]");
  EXPECT_EQ(contents(folder / "params/optim.learning_rate"), "0.5");
  EXPECT_THAT(contents(folder / "meta.yaml"), HasSubstr("\nstatus: 1\n"));
  EXPECT_THAT(contents(folder.parent_path() / "meta.yaml"), HasSubstr("name: distdl\n"));
  finish();
  export_mlflow(read_history(run_), place_, true);
  EXPECT_THAT(contents(folder / "meta.yaml"), HasSubstr("\nstatus: 3\n"));
}

TEST_F(Export, CutsLongValuesForMlflowBetweenCharacters) {
  std::string value = "x";
  while (value.size() < 7000) value += "\u00e9";
  keep_job(run_, "[ok]\nz = \"" + value + "\"\n");
  const auto kept = contents(export_mlflow(read_history(run_), place_, false) / "params/ok.z");
  EXPECT_EQ(kept, value.substr(0, 5999)) << "not 6000: that would be half a character";
}

TEST_F(Export, ReplacesOnlyWhereThatIsWanted) {
  const auto history = read_history(run_);
  for (const auto write : {&export_tensorboard, &export_wandb, &export_mlflow}) {
    const auto folder = write(history, place_, false);
    std::ofstream(folder / "old") << "x";
    EXPECT_THROW(write(history, place_, false), StorageError);
    EXPECT_TRUE(fs::exists(folder / "old"));
    EXPECT_EQ(write(history, place_, true), folder);
    EXPECT_FALSE(fs::exists(folder / "old"));
    for (const auto& entry : fs::directory_iterator(folder.parent_path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with('.')) << entry.path();
  }
}

TEST_F(Export, NeverWritesOutsideItsFolder) {
  keep_job(run_, "[../..]\nx = 1\n[a]\n/../../y = 1\n[ok]\nz = 1\n");
  const auto folder = export_mlflow(read_history(run_), place_, false);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "params"), {}), 1);
  EXPECT_EQ(contents(folder / "params/ok.z"), "1");
}

TEST_F(Export, SaysThatThereIsNothing) {
  fs::remove(run_ / "metrics.jsonl");
  fs::remove(run_ / "journal.jsonl");
  EXPECT_THROW(read_history(run_), StorageError);
}
}  // namespace
}  // namespace distdl::observe
