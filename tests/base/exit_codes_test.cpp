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
  for (const int code : {1, 5, 65, 79, 128, 137, 233}) EXPECT_EQ(entry_of(code), nullptr) << code;
}

}  // namespace
}  // namespace distdl
