// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/cost_table.hpp>
#include <distdl/comm/selection/cost_cache.hpp>

namespace distdl::comm {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

CostTable odd_numbers() {
  CostTable table;
  double next = 1.0 / 3;
  describe_costs(table, [&](const char*, double& value, const char*, const char*) { value = next *= 1.7; });
  return table;
}

TEST(CostTable, ComesThroughBytesAndJsonUnchanged) {
  const CostTable table = odd_numbers();
  EXPECT_EQ(CostTable::decode(table.encode()), table);
  EXPECT_EQ(costs_from_json(to_json(table, std::vector<std::string>{"a", "b"})), table);
}

TEST(CostTable, IsReadWithItsNameOfVersion01AndAWarning) {
  const CostTable table = odd_numbers();
  const std::string text = to_json(table, std::vector<std::string>{"a"});
  const auto place = text.find("\"reduce\"");
  ASSERT_NE(place, std::string::npos);
  testing::internal::CaptureStderr();
  EXPECT_EQ(costs_from_json(std::string(text).replace(place, 8, "\"combine\"")), table);
  const auto warning = testing::internal::GetCapturedStderr();
  EXPECT_THAT(warning, AllOf(HasSubstr("warning "), HasSubstr("\"combine\""), HasSubstr("--tune")));
}

TEST(CostTable, RefusesOtherBytes) {
  const std::string bytes = CostTable().encode();
  EXPECT_THROW(CostTable::decode(""), CommError);
  EXPECT_THROW(CostTable::decode(bytes.substr(1)), CommError);
  EXPECT_THROW(CostTable::decode(bytes + "x"), CommError);
  std::string newer = bytes;
  ++newer[12];
  EXPECT_THROW(CostTable::decode(newer), CommError);
}

std::string with(std::string text, const std::string& old, const std::string& fresh) {
  const auto place = text.find(old);
  EXPECT_NE(place, std::string::npos) << old;
  return text.replace(place, old.size(), fresh);
}

/// A cache folder of its own.
class CostCache : public testing::Test {
 protected:
  CostCache() {
    std::string name = (fs::path(::testing::TempDir()) / "distdl-costs-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~CostCache() override {
    ::unsetenv("XDG_CACHE_HOME");
    fs::remove_all(folder_);
  }
  /// What loading says about a file with `text` in it.
  std::string complaint_about(const std::string& text) {
    const auto file = *cost_file(hosts_);
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
    testing::internal::CaptureStderr();
    EXPECT_EQ(load_costs(hosts_), CostTable());
    return testing::internal::GetCapturedStderr();
  }
  fs::path folder_;
  std::vector<std::string> hosts_{"node7", "node3", "node5", "node3"};
};

TEST_F(CostCache, GivesBackWhatWasSavedBetweenTheseHosts) {
  EXPECT_EQ(load_costs(hosts_), CostTable());
  const auto file = save_costs(odd_numbers(), hosts_);
  EXPECT_EQ(file, folder_ / "distdl" / "costs-node3+node7.json");
  EXPECT_EQ(load_costs(hosts_), odd_numbers());
  EXPECT_EQ(load_costs(std::vector<std::string>{"node3", "node7"}), odd_numbers());
  EXPECT_EQ(load_costs(std::vector<std::string>{"node3"}), CostTable());
}

TEST_F(CostCache, WarnsOfAFileItCannotUseAndTakesTheDefaults) {
  const auto good = to_json(CostTable(), hosts_);
  EXPECT_THAT(complaint_about(""), HasSubstr("costs-node3+node7.json"));
  EXPECT_THAT(complaint_about(good.substr(0, good.size() / 2)), HasSubstr("--tune"));
  EXPECT_THAT(complaint_about("[1, 2]"), HasSubstr("costs-node3+node7.json"));
  auto other = with(good, "\"version\": 2", "\"version\": 9");
  EXPECT_THAT(complaint_about(other), HasSubstr("version is 9"));
  EXPECT_THAT(complaint_about(with(good, "\"memory\"", "\"remembrance\"")), HasSubstr("memory"));
  EXPECT_THAT(complaint_about(with(good, "\"value\": 5000000000.0", "\"value\": -5")),
              HasSubstr("within_bandwidth is -5"));
}

TEST_F(CostCache, NeitherWaitsForAFifoNorReadsAnySize) {
  EXPECT_THAT(complaint_about(std::string(1 << 20, ' ')), HasSubstr("at most 65536"));
  const auto file = *cost_file(hosts_);
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(load_costs(hosts_), CostTable());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("is a FIFO"));
}

TEST_F(CostCache, KeepsStrangeHostNamesInItsFolder) {
  const auto file = cost_file(std::vector<std::string>{"../../etc/x"});
  EXPECT_EQ(file->parent_path(), folder_ / "distdl");
}

TEST_F(CostCache, SaysWhereItCannotWrite) {
  std::ofstream(folder_ / "distdl") << "a file where the folder should be";
  try {
    save_costs(CostTable(), hosts_);
    FAIL() << "wrote through a file";
  } catch (const StorageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("XDG_CACHE_HOME"));
  }
}
}  // namespace
}  // namespace distdl::comm
