// SPDX-License-Identifier: Apache-2.0
// Damaged and hostile checkpoints: never a silent wrong restore.
#include <algorithm>
#include <ctime>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/checkpoint/sample.hpp"
#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/inspect.hpp>

namespace distdl::checkpoint {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

/// Two checkpoints of two writers; the newer one has a tensor of several blocks, and is the one to be damaged.
class Damage : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(all_empty(save_as(root_.path(), 2, Step(1), make_sample(1))));
    ASSERT_TRUE(all_empty(save_as(root_.path(), 2, Step(2), sample_)));
    for (const auto& entry : fs::directory_iterator(folder_))
      original_[entry.path().filename().string()] = slurp(entry.path());
  }
  void restore_files() {
    for (const auto& [name, text] : original_)
      if (slurp(folder_ / name) != text) spill(folder_ / name, text);
  }
  /// Whether a restore of step 2 refuses; fails the test if it gives wrong bytes instead.
  bool refused() {
    try {
      Store store(root_.path(), {});
      Summary summary = open(folder_);
      EXPECT_EQ(summary.state, sample_state());
      expect_right_bytes(store, summary);
      return false;
    } catch (const StorageError&) {
      return true;
    }
  }
  void expect_right_bytes(const Store& store, const Summary& summary) {
    for (std::size_t i = 0; i < expected_.slices.size(); ++i) {
      const Slice& slice = expected_.slices[i];
      std::vector<std::byte> found(expected_.memory[i].size());
      Target target{slice.name, slice.dtype, slice.shape, slice.box, found.data()};
      store.read(summary, std::span(&target, 1));
      EXPECT_EQ(found, expected_.memory[i]) << slice.name;
    }
  }
  std::int64_t newest_step() {
    SingleProcessGroup alone;
    Store store(root_.path(), {});
    auto summary = store.newest_valid(alone);
    auto read = store.newest_valid(alone, {}, [&](const Summary& found) {
      if (found.step == Step(2)) expect_right_bytes(store, found);
    });
    EXPECT_EQ(read.has_value(), summary.has_value());
    if (read && summary) {
      EXPECT_EQ(read->step, summary->step) << "read at once or verified first";
    }
    return summary ? summary->step.value : -1;
  }

  TemporaryFolder root_;
  fs::path folder_ = root_.path() / step_folder_name(Step(2));
  Sample sample_ = make_sample(2, 130'000);  // a box of 4.3 MB for each writer
  Share expected_ = share_of(sample_, 0, 1);
  std::map<std::string, std::string> original_;
};

/// One random change of a file's text.
std::string change(std::string text, std::mt19937& random, const std::string& other) {
  auto below = [&](std::size_t n) { return n ? random() % n : 0; };
  // Half of the changes hit the first kilobytes, where HDF5 keeps its structures and small tensors lie.
  std::size_t at = below(random() % 2 ? std::min<std::size_t>(text.size(), 20'000) : text.size());
  switch (random() % 6) {
    case 0:
    case 1:
      text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      break;
    case 2:
      std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::size_t>(4096, text.size() - at), '\0');
      break;
    case 3:
      text.resize(at);
      break;
    case 4:
      text.append(1 + below(5000), '\0');
      break;
    default:
      return other;
  }
  return text;
}

TEST_F(Damage, RandomChangesAreNeverRestoredSilently) {
  std::mt19937 random(20240229);
  std::vector<std::string> names;
  for (const auto& [name, text] : original_) names.push_back(name);
  int changed = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::string name = names[random() % names.size()];
    std::string other = slurp(root_.path() / step_folder_name(Step(1)) / name);
    std::string text = change(original_[name], random, other);
    if (text == original_[name]) continue;
    ++changed;
    spill(folder_ / name, text);
    refused();  // fails the test if the bytes are wrong
    auto findings = verify(folder_);
    ASSERT_FALSE(findings.empty()) << "trial " << trial << " in " << name;
    EXPECT_EQ(findings[0].file, name);
    EXPECT_TRUE(trial % 8 != 0 || newest_step() == 1);
    spill(folder_ / name, original_[name]);
  }
  EXPECT_GT(changed, 250);
  EXPECT_TRUE(verify(folder_).empty());
  EXPECT_EQ(newest_step(), 2);
}

TEST_F(Damage, SwappedFilesAreSeen) {
  fs::rename(folder_ / "node0000.h5", folder_ / "x");
  fs::rename(folder_ / "node0001.h5", folder_ / "node0000.h5");
  fs::rename(folder_ / "x", folder_ / "node0001.h5");
  EXPECT_FALSE(verify(folder_).empty());
  EXPECT_TRUE(refused());
  EXPECT_EQ(newest_step(), 1);
}

TEST_F(Damage, AFindingNamesFileTensorBlockAndChecksums) {
  std::string text = original_["node0001.h5"];
  // The last block of the largest tensor: its bytes lie where the sample's memory is found in the file.
  Share share = share_of(sample_, 1, 2);
  std::string needle(reinterpret_cast<const char*>(share.memory[3].data()) + 4'200'000, 64);
  std::size_t at = text.find(needle);
  ASSERT_NE(at, std::string::npos);
  text[at] = static_cast<char>(text[at] ^ 1);
  spill(folder_ / "node0001.h5", text);
  auto findings = verify(folder_);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, ExitCode::corrupt);
  EXPECT_EQ(findings[0].file, "node0001.h5");
  EXPECT_EQ(findings[0].tensor, "parameter/embedding");
  EXPECT_THAT(findings[0].message,
              testing::ContainsRegex("block 1 .*: checksum [0-9a-f]{8} expected, [0-9a-f]{8} found"));
}

TEST_F(Damage, MissingFilesAreIncomplete) {
  fs::remove(folder_ / "node0001.h5");
  EXPECT_EQ(verify(folder_).at(0).kind, ExitCode::incomplete);
  EXPECT_TRUE(refused());
  restore_files();
  fs::remove(folder_ / "MANIFEST");
  EXPECT_EQ(verify(folder_).at(0).kind, ExitCode::incomplete);
}

TEST_F(Damage, LinksAndPipesAreNotFollowed) {
  fs::path file = folder_ / "node0001.h5", elsewhere = root_.path() / "elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  EXPECT_FALSE(verify(folder_).empty());
  EXPECT_TRUE(refused());
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(verify(folder_).empty());  // and does not wait for a writer
  EXPECT_TRUE(refused());
}

/// The manifest's JSON, and back with a hash that holds: what a hostile or buggy writer could leave.
json document_of(const std::string& text) {
  return json::parse(text.substr(0, text.find('\n')));
}
std::string sealed(const json& document) {
  std::string text = document.dump() + "\n";
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return text + "sha256 " + hash.hex() + "\n";
}

TEST_F(Damage, HostileManifestsAreRefused) {
  json good = document_of(original_["MANIFEST"]);
  spill(folder_ / "MANIFEST", sealed(good));
  EXPECT_TRUE(verify(folder_).empty());
  std::vector<std::pair<std::string, json>> changes{
      {"/files/0/name", "../../../etc/passwd"},
      {"/files/0/name", "/etc/passwd"},
      {"/files/0/name", "node0000.h5/../../x.h5"},
      {"/files/0/name", "node0001.h5"},
      {"/files/0/bytes", -1},
      {"/files/0/bytes", 1.5e300},
      {"/files/0/bytes", UINT64_MAX},
      {"/files/0/rest", std::int64_t{1} << 32},
      {"/tensors/0/name", "a/../b"},
      {"/tensors/0/dtype", "f99"},
      {"/tensors/0/shape", {8, 3, 5}},
      {"/tensors/0/shape", {INT64_MAX, INT64_MAX, 5, 5}},
      {"/tensors/0/shape", json::array({-8, 3, 5, 5})},
      {"/tensors/0/shape", std::vector<int>(100, 1)},
      {"/tensors/0/boxes/0/extent/0", INT64_MAX},
      {"/tensors/0/boxes/0/extent/0", 0},
      {"/tensors/0/boxes/0/at/0", INT64_MAX},
      {"/tensors/0/boxes/0/at/0", -1},
      {"/tensors/0/boxes/0/at", json::array()},
      {"/tensors/0/boxes/1/at/0", 0},
      {"/tensors/0/boxes/0/file", 2},
      {"/tensors/0/boxes/0/file", "node0000.h5"},
      {"/tensors/0/boxes/0/offset", INT64_MAX},
      {"/tensors/0/boxes/0/offset", UINT64_MAX},
      {"/tensors/0/boxes/0/crc32c", json::array()},
      {"/tensors/0/boxes", json::array()},
      {"/tensors/1", good["tensors"][0]},
      {"/tensors", json::object()},
      {"/state", {{"../x", "y"}}},
      {"/state", {{"x", {{"hex", "zz"}}}}},
      {"/world", 0},
      {"/step", 3},
      {"/step", nullptr},
  };
  for (const auto& [where, value] : changes) {
    json bad = good;
    bad[json::json_pointer(where)] = value;
    spill(folder_ / "MANIFEST", sealed(bad));
    auto findings = verify(folder_);
    ASSERT_FALSE(findings.empty()) << where << " " << value;
    EXPECT_EQ(findings[0].kind, ExitCode::corrupt) << where << " " << value;
    EXPECT_TRUE(refused()) << where << " " << value;
  }
  EXPECT_EQ(newest_step(), 1);
}

TEST_F(Damage, ManifestsThatCostTimeAndMemoryAreRefusedAtOnce) {
  auto refused_as = [&](const std::string& body) {
    Sha256 hash;
    hash.update(std::as_bytes(std::span(body)));
    spill(folder_ / "MANIFEST", body + "sha256 " + hash.hex() + "\n");
    auto findings = verify(folder_);
    EXPECT_TRUE(refused());
    return findings.empty() ? std::string() : findings[0].message;
  };
  EXPECT_THAT(refused_as(std::string(30'000'000, '[') + "\n"), HasSubstr("nested too deeply"));
  std::string deep = document_of(original_["MANIFEST"]).dump();
  deep.replace(deep.find("\"state\":"), 8, "\"state\":" + std::string(1'000'000, '['));
  EXPECT_THAT(refused_as(deep + "\n"), HasSubstr("nested too deeply"));
  for (const char* number : {"NaN", "1e400", "-0.5", "99999999999999999999", "Infinity", "0x10"}) {
    std::string text = document_of(original_["MANIFEST"]).dump();
    std::size_t at = text.find("\"shape\":[") + 9;
    text.replace(at, text.find(',', at) - at, number);
    EXPECT_THAT(refused_as(text + "\n"), HasSubstr("cannot be understood")) << number;
  }
}

TEST_F(Damage, TwoTensorsMayNotShareBytes) {
  json bad = document_of(original_["MANIFEST"]);
  json& first = bad["tensors"][0]["boxes"][0];  // as long as that of tensor 2
  first["offset"] = bad["tensors"][2]["boxes"][0]["offset"];
  spill(folder_ / "MANIFEST", sealed(bad));
  EXPECT_THAT(verify(folder_).at(0).message,
              HasSubstr("\"momentum/conv1.weight\" and \"parameter/conv1.weight\" share"));
  EXPECT_TRUE(refused());
}

TEST_F(Damage, ANewerFormatIsNeitherReadNorQuarantined) {
  json newer = document_of(original_["MANIFEST"]);
  newer["format"] = 4;
  newer["tensors"] = "something else";
  spill(folder_ / "MANIFEST", sealed(newer));
  EXPECT_EQ(verify(folder_).at(0).kind, ExitCode::incompatible);
  SingleProcessGroup alone;
  Store store(root_.path(), {});
  store.take(alone, owner_called("test"));
  try {
    store.newest_valid(alone);
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::incompatible);
    EXPECT_THAT(error.what(), HasSubstr("format 4"));
  }
  EXPECT_TRUE(fs::exists(folder_));
}

/// Paths of all values in a document.
void collect(const json& value, const std::string& at, std::vector<std::string>& paths) {
  paths.push_back(at);
  if (!value.is_structured() || at.find("crc32c/1") != std::string::npos) return;
  for (const auto& [key, child] : value.items()) {
    std::string escaped;
    for (char c : key) escaped += c == '/' ? "~1" : std::string(1, c);
    collect(child, at + "/" + escaped, paths);
  }
}

TEST_F(Damage, RandomValuesInAManifestNeverCrashOrRestoreWrongBytes) {
  json good = document_of(original_["MANIFEST"]);
  std::vector<std::string> paths;
  collect(good, "", paths);
  std::vector<json> values{nullptr,       true,           -1,     0,          1,         INT64_MAX,
                           INT64_MIN,     UINT64_MAX,     1e308,  "",         "../../x", "f32",
                           json::array(), json::object(), {1, 2}, {{"a", 1}}, 4096,      3};
  std::mt19937 random(5);
  for (int trial = 0; trial < 400; ++trial) {
    json bad = good;
    bad[json::json_pointer(paths[random() % paths.size()])] = values[random() % values.size()];
    spill(folder_ / "MANIFEST", sealed(bad));
    // A changed state or time is another checkpoint, not a damaged one; tensors must be right or refused.
    try {
      Store store(root_.path(), {});
      Summary summary = open(folder_);
      expect_right_bytes(store, summary);
    } catch (const StorageError&) {
    }
    EXPECT_NO_THROW(verify(folder_));
  }
}

TEST(Manifest, CostsTimeThatGrowsWithItsBoxesOnly) {
  // Processor time, which another program on this machine does not lengthen: 8 times the boxes, once 40 times as long.
  auto seconds = [](std::int64_t count) {
    Manifest manifest;
    manifest.world_size = 1;
    StoredTensor stored{{"parameter/many", tensor::DataType::byte, {count}}, {}};
    for (std::int64_t i = 0; i < count; ++i)
      stored.boxes.push_back({{{i}, {1}}, 0, static_cast<std::uint64_t>(i), {0}});
    manifest.files.push_back({"node0000.h5", static_cast<std::uint64_t>(count), 0});
    manifest.tensors.push_back(std::move(stored));
    const std::string text = to_text(manifest);
    const std::clock_t begin = std::clock();
    check_manifest(parse_manifest(text, "test"), "test");
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  auto least = [&](auto count) { return std::min({seconds(count), seconds(count), seconds(count)}); };
  EXPECT_LT(least(40'000), 24 * least(5'000));
}

TEST(Manifest, EveryCutOrChangedTextIsRefused) {
  TemporaryFolder root;
  ASSERT_TRUE(all_empty(save_as(root.path(), 1, Step(2), make_sample(1))));
  std::string text = slurp(root.path() / step_folder_name(Step(2)) / "MANIFEST");
  EXPECT_NO_THROW(parse_manifest(text, "test"));
  EXPECT_EQ(to_text(parse_manifest(text, "test")), text);
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW(parse_manifest(text.substr(0, length), "test"), StorageError);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 0x20);
    EXPECT_THROW(parse_manifest(changed, "test"), StorageError) << i;
  }
}
}  // namespace
}  // namespace distdl::checkpoint
