// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/checkpoint/sample.hpp"
#include <distdl/checkpoint/commit/adoption.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {
namespace {
/// A run whose checkpoint of step 10 has numbers drawn with this seed.
void save(const std::filesystem::path& root, std::uint64_t seed) {
  SingleProcessGroup alone;
  Store store(root, {});
  store.take(alone, owner_called("test"));
  store.save(alone, Step(10), share_of(make_sample(seed), 0, 1).slices, sample_state());
}

std::string digest_in(const std::filesystem::path& root) {
  return digest(open(root / step_folder_name(Step(10))));
}

TEST(Adoption, PutsTheCheckpointOfAnotherRootInThePlaceOfTheOwn) {
  TemporaryFolder winner, loser;
  save(winner.path(), 1);
  save(loser.path(), 2);
  ASSERT_NE(digest_in(winner.path()), digest_in(loser.path()));
  adopt_checkpoint(real_file_system(), winner.path(), loser.path(), Step(10));
  EXPECT_EQ(digest_in(loser.path()), digest_in(winner.path()));
  EXPECT_TRUE(verify(loser.path() / step_folder_name(Step(10)), Depth::structure).empty());
  EXPECT_TRUE(entries_with_prefix(loser.path(), kTrashPrefix).empty());
  EXPECT_TRUE(entries_with_prefix(loser.path(), kStagePrefix).empty());
}

TEST(Adoption, CanBeRepeatedAfterACrash) {
  TemporaryFolder winner, loser;
  save(winner.path(), 1);
  save(loser.path(), 2);
  std::filesystem::remove_all(loser.path() / step_folder_name(Step(10)));
  for (int time = 0; time < 2; ++time) adopt_checkpoint(real_file_system(), winner.path(), loser.path(), Step(10));
  EXPECT_EQ(digest_in(loser.path()), digest_in(winner.path()));
}

TEST(Adoption, SupersedesTheStartBeforeAndItsSnapshots) {
  TemporaryFolder winner, loser;
  save(winner.path(), 1);
  SingleProcessGroup alone;
  Store before(loser.path(), {});
  before.take(alone, owner_called("test"));
  before.save(alone, Step(8), share_of(make_sample(2), 0, 1).slices, sample_state());
  adopt_checkpoint(real_file_system(), winner.path(), loser.path(), Step(10));
  EXPECT_THROW(before.save(alone, Step(10), share_of(make_sample(2), 0, 1).slices, sample_state()), StorageError);
  EXPECT_EQ(digest_in(loser.path()), digest_in(winner.path()));
  Store after(loser.path(), {});
  after.take(alone, owner_called("test"));
  EXPECT_GT(after.owner().snapshots_since, before.owner().start);
  EXPECT_EQ(after.owner().lineage, before.owner().lineage);
}

TEST(Adoption, LeavesTheOwnWhereTheOtherHasNone) {
  TemporaryFolder winner, loser;
  save(loser.path(), 2);
  const auto before = digest_in(loser.path());
  EXPECT_THROW(adopt_checkpoint(real_file_system(), winner.path(), loser.path(), Step(10)), StorageError);
  EXPECT_EQ(digest_in(loser.path()), before);
}
}  // namespace
}  // namespace distdl::checkpoint
