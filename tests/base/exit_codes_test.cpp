// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <distdl/base/errors.hpp>

namespace distdl {
namespace {

TEST(ExitCodes, StandInTheTableOfTheDocument) {
  std::ifstream document(DISTDL_SOURCE_DIR "/docs/exit-codes.md");
  std::vector<std::string> documented;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("| 128")) break;  // signals, and what srun adds
    if (line.starts_with("| ") && line[2] >= '0' && line[2] <= '9') documented.push_back(line);
  }
  ASSERT_EQ(documented.size(), kExitCodes.size());
  for (std::size_t i = 0; i < documented.size(); ++i) {
    const ExitCodeEntry& entry = kExitCodes[i];
    EXPECT_THAT(documented[i], testing::StartsWith(fmt::format("| {} | {} | {} |", static_cast<int>(entry.code),
                                                               entry.name, entry.meaning)));
  }
}

TEST(ExitCodes, AscendAndAreFound) {
  EXPECT_TRUE(std::ranges::is_sorted(kExitCodes, {}, &ExitCodeEntry::code));
  for (const ExitCodeEntry& entry : kExitCodes) EXPECT_EQ(entry_of(static_cast<int>(entry.code)), &entry);
  for (const int code : {1, 5, 65, 80, 128, 137, 233}) EXPECT_EQ(entry_of(code), nullptr) << code;
}

TEST(ExitCodes, CausesAreWorseThanConsequences) {
  for (const auto& [worse, other] : {std::pair(75, 0),
                                     {69, 75},
                                     {70, 69},
                                     {71, 69},
                                     {139, 137},
                                     {137, 69},
                                     {78, 139},
                                     {2, 139},
                                     {72, 139},
                                     {78, 72}}) {
    EXPECT_TRUE(is_worse(worse, other)) << worse << " and " << other;
    EXPECT_FALSE(is_worse(other, worse)) << worse << " and " << other;
  }
}

TEST(ExitCodes, OnlyAFailureOfItsOwnIsACause) {
  for (const int code : {70, 71, 72, 137}) EXPECT_TRUE(is_cause(code)) << code;
  for (const int code : {0, 69, 74, 75, 78}) EXPECT_FALSE(is_cause(code)) << code;
}

}  // namespace
}  // namespace distdl
