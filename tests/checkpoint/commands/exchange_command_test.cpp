// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint: export, import.
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/checkpoint/commands/command_fixture.hpp"
#include <distdl/checkpoint/inspect.hpp>

namespace distdl::checkpoint {
namespace {
using testing::HasSubstr;

std::string head_of(const std::filesystem::path& file, std::size_t bytes) {
  std::string head(bytes, '\0');
  std::ifstream(file, std::ios::binary).read(head.data(), static_cast<std::streamsize>(bytes));
  return head;
}

TEST_F(CheckpointCommand, ExportAndImportRoundTrip) {
  TemporaryFolder other;
  std::string file = other.path() / "all.safetensors", made = other.path() / "made";
  EXPECT_EQ(run("export " + root.string() + "@10 " + file).code, 0);
  EXPECT_EQ(run("export " + root.string() + "@10 " + file).code, 64);  // it exists
  EXPECT_EQ(run("export --force " + root.string() + "@10 " + file).code, 0);
  EXPECT_EQ(run("export --tensors 'nothing*' " + root.string() + " " + file + "2 --format npz").code, 64);
  for (const char* name : {"other.npz", "other.h5"})
    EXPECT_EQ(run("export " + root.string() + "@10 " + (other.path() / name).string()).code, 0) << name;
  for (const char* name : {"other.pt", "other"}) {
    const auto result = run("export " + root.string() + "@10 " + (other.path() / name).string());
    EXPECT_EQ(result.code, 64) << name;
    EXPECT_THAT(result.error, HasSubstr("end it with .safetensors, .npz, .h5, .onnx or .gguf"));
    EXPECT_FALSE(std::filesystem::exists(other.path() / name));
  }
  EXPECT_EQ(head_of(other.path() / "other.npz", 2), "PK");
  EXPECT_EQ(head_of(other.path() / "other.h5", 4), "\x89HDF");
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

TEST_F(CheckpointCommand, StateGoesAlongAsFarAsItIsText) {
  const State state{
      {"ascii", "plain"}, {"utf8", "gr\u00f6\u00dfer \u2713"}, {"cut", "\xe2\x9c"}, {"bytes", "\xff\x01"}};
  SingleProcessGroup alone;
  Store store(root, {});
  store.take(alone, owner_called("test"));
  store.save(alone, Step(30), share_of(make_sample(1), 0, 1).slices, state);
  std::string file = run_.path() / "all.safetensors", made = run_.path() / "made";
  testing::internal::CaptureStderr();
  EXPECT_EQ(run("export " + root.string() + "@30 " + file).code, 0);
  const std::string said = testing::internal::GetCapturedStderr();
  for (const char* key : {"cut", "bytes"})
    EXPECT_THAT(said, HasSubstr(fmt::format("does not contain the state \"{}\"", key)));
  EXPECT_EQ(run("import safetensors " + file + " " + made).code, 0);
  EXPECT_EQ(open(made).state, (State{{"ascii", "plain"}, {"utf8", state.at("utf8")}}));
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

}  // namespace
}  // namespace distdl::checkpoint
