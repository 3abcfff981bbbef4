// SPDX-License-Identifier: Apache-2.0
// Links, pipes and names that nobody expects among the checkpoints of a run: nothing behind a link is ever changed.
#include <cerrno>
#include <random>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/checkpoint/sample.hpp"
#include <distdl/checkpoint/commit/collector.hpp>
#include <distdl/checkpoint/commit/history.hpp>
#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/checkpoint/commit/retention.hpp>
#include <distdl/checkpoint/commit/tags.hpp>
#include <distdl/checkpoint/disk_snapshots.hpp>
#include <distdl/checkpoint/explain.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/files/whole_file.hpp>

namespace distdl::checkpoint {
namespace {
namespace fs = std::filesystem;
using Kind = EntryName::Kind;
using testing::AllOf;
using testing::HasSubstr;

/// A run that saves these steps and ends.
void run(const fs::path& root, const std::vector<std::int64_t>& steps) {
  SingleProcessGroup alone;
  Store store(root, {.keep = 2});
  store.take(alone, owner_called("test"));
  for (std::int64_t step : steps)
    store.save(alone, Step(step), share_of(make_sample(static_cast<std::uint64_t>(step)), 0, 1).slices, sample_state());
}

/// What a call throws.
template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const StorageError& error) {
    return error.what();
  }
  return "no error";
}

/// A root, and an archive of the user's elsewhere that must stay as it is.
class HostileFolder : public testing::Test {
 protected:
  void SetUp() override {
    run(archive_, {1});
    for (const char* name : {"tags", "quarantine"}) fs::create_directories(archive_ / name);
    spill(archive_ / "tags" / "best", "step-000000000001\n");
    spill(archive_ / "quarantine" / "treasure", "x");
    before_ = listing();
    fs::create_directories(root_);
  }
  void TearDown() override { EXPECT_EQ(listing(), before_); }
  std::map<std::string, std::string> listing() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(archive_))
      all[entry.path().string()] = entry.is_regular_file() ? slurp(entry.path()) : "";
    return all;
  }
  void link(const std::string& name, const fs::path& target) const { fs::create_symlink(target, root_ / name); }
  bool is_there(const std::string& name) const {
    return fs::symlink_status(root_ / name).type() != fs::file_type::not_found;
  }

  TemporaryFolder folder_;
  fs::path archive_ = folder_.path() / "archive", root_ = folder_.path() / "checkpoints";
  FileSystem& files_ = real_file_system();
  std::map<std::string, std::string> before_;
};

TEST_F(HostileFolder, OfALinkToACheckpointOnlyTheLinkIsCollected) {
  link("step-000000000001", archive_ / "step-000000000001");
  run(root_, {2});
  EXPECT_EQ(steps_in(root_), (std::set<std::int64_t>{1, 2})) << "it may be restored from";
  run(root_, {3, 4});
  EXPECT_EQ(steps_in(root_), (std::set<std::int64_t>{3, 4}));
}

TEST_F(HostileFolder, OfLinksCalledTrashOrStageOnlyTheLinksGo) {
  const std::vector<std::string> names{".trash-0123456789abcdef", ".trash-step-000000000007.0123456789abcdef",
                                       ".stage-7.0123456789abcdef"};
  for (const std::string& name : names) link(name, archive_);
  run(root_, {2});
  for (const std::string& name : names) EXPECT_FALSE(is_there(name)) << name;
}

TEST_F(HostileFolder, LinksWithinATreeAreNotFollowed) {
  fs::create_directories(root_ / "tree" / "inner");
  link("tree/inner/link", archive_);
  EXPECT_TRUE(remove_tree(files_, root_ / "tree"));
  EXPECT_FALSE(is_there("tree"));
}

TEST_F(HostileFolder, TheReasonOfAQuarantineIsNotWrittenBehindALink) {
  link("step-000000000002", archive_);  // no checkpoint, so that it is set aside
  run(root_, {});
  SingleProcessGroup alone;
  Store store(root_, {});
  store.take(alone, owner_called("test"));
  EXPECT_FALSE(store.newest_valid(alone));
  EXPECT_FALSE(is_there("step-000000000002"));
}

TEST_F(HostileFolder, AQuarantineOrTagsThatAreALinkAreRefused) {
  run(root_, {2});
  link("quarantine", archive_ / "quarantine");
  link("tags", archive_ / "tags");
  EXPECT_THAT(refusal([&] { discard(files_, root_, root_ / "quarantine" / "treasure"); }),
              HasSubstr("is a link, which is not followed"));
  EXPECT_THAT(refusal([&] { quarantine(files_, root_, root_ / "step-000000000002", "step-000000000002", "test"); }),
              HasSubstr("is a link, which is not followed"));
  EXPECT_THAT(refusal([&] { names_in(root_ / "quarantine"); }), HasSubstr("is a link, but a folder was expected"));
  EXPECT_THAT(refusal([&] { read_tags(files_, root_); }), HasSubstr("is a link, but a folder was expected"));
  EXPECT_THAT(refusal([&] { add_tag(files_, root_, Step(2), "best", true); }), HasSubstr("is a link"));
}

TEST_F(HostileFolder, NoCallChangesAnythingBehindALink) {
  link("link", archive_);
  const fs::path inside = root_ / "link" / "entry", known = root_ / "link" / "tags" / "best", own = root_ / "own";
  spill(own, "x");
  const auto is_refused = [](int rc) { return rc == -1 && errno == ELOOP; };
  EXPECT_TRUE(is_refused(files_.open(inside.c_str(), O_WRONLY | O_CREAT, 0600)));
  EXPECT_TRUE(is_refused(files_.open(known.c_str(), O_RDWR, 0)));
  EXPECT_TRUE(is_refused(files_.mkdir(inside.c_str(), 0700)));
  EXPECT_TRUE(is_refused(files_.unlink(known.c_str())));
  EXPECT_TRUE(is_refused(files_.rmdir(known.c_str())));
  EXPECT_TRUE(is_refused(files_.before_hdf5(inside.c_str())));
  for (unsigned flags : {0U, static_cast<unsigned>(RENAME_NOREPLACE)}) {
    EXPECT_TRUE(is_refused(files_.rename(known.c_str(), own.c_str(), flags)));
    EXPECT_TRUE(is_refused(files_.rename(own.c_str(), inside.c_str(), flags)));
  }
  EXPECT_EQ(files_.rename((root_ / "link").c_str(), (root_ / "other").c_str(), 0), 0) << "a link itself is an entry";
  EXPECT_EQ(files_.unlink((root_ / "other").c_str()), 0);
}

TEST_F(HostileFolder, TheFolderItselfMayBeNamedByALink) {
  const fs::path real = folder_.path() / "scratch", named = folder_.path() / "named";
  fs::create_directory_symlink(real, named);
  fs::create_directory(real);
  run(named / "checkpoints", {2, 3, 4});
  EXPECT_EQ(steps_in(real / "checkpoints"), (std::set<std::int64_t>{3, 4}));
  WholeFile out(files_, named / "weights", Overwrite::refuse);
  out.append("x");
  out.publish();
  EXPECT_EQ(slurp(real / "weights"), "x");
  EXPECT_TRUE(DiskSnapshots(files_, named / "snapshots", "run").list().empty());
}

TEST_F(HostileFolder, WhatShouldBeAFileAndIsNoneIsNamedAndNeverWaitedFor) {
  SingleProcessGroup alone;
  const fs::path owner = root_ / kOwnerName;
  ASSERT_EQ(::mkfifo(owner.c_str(), 0600), 0);
  EXPECT_THAT(refusal([&] { run(root_, {}); }), AllOf(HasSubstr("OWNER\" is a FIFO, but a regular file was expected")));
  fs::remove(owner);
  fs::create_directory(owner);
  EXPECT_THAT(refusal([&] { run(root_, {}); }),
              AllOf(HasSubstr("OWNER\" is a folder, but a regular file was expected")));
  fs::remove(owner);
  for (const char* hint : {kHistoryName, kLatestName})  // nothing depends on them
    ASSERT_EQ(::mkfifo((root_ / hint).c_str(), 0600), 0);
  link(kOwnerName, archive_ / kOwnerName);  // goes as every owner before
  run(root_, {2});
  EXPECT_EQ(steps_in(root_), (std::set<std::int64_t>{2}));
  EXPECT_TRUE(fs::is_fifo(root_ / kLatestName));
  fs::create_directory(root_ / kTagsName);
  ASSERT_EQ(::mkfifo((root_ / kTagsName / "best").c_str(), 0600), 0);
  EXPECT_THAT(refusal([&] { read_tags(files_, root_); }), HasSubstr("best\" is a FIFO"));
}

TEST_F(HostileFolder, NamesThatAreNoneOfOursAreLeftAloneWithOneWarning) {
  const std::vector<std::string> names{".trash-", ".trash",   ".trash-x",           ".trash-xyz.txt",
                                       ".stage-", ".stage-5", ".stage--5.0123",     ".stage-99999999999999999999.0123",
                                       "step-1",  "a\nb",     std::string(255, 'x')};
  for (const std::string& name : names) fs::create_directory(root_ / name);
  testing::internal::CaptureStderr();
  run(root_, {2});
  const std::string log = testing::internal::GetCapturedStderr();
  for (const std::string& name : names) EXPECT_TRUE(is_there(name)) << name;
  EXPECT_THAT(log, AllOf(HasSubstr("ignored in"), HasSubstr(" and 6 more")));
  EXPECT_EQ(log.find("ignored in"), log.rfind("ignored in"));
  EXPECT_EQ(explain(root_, Step(5)).standing, Standing::never);
}

TEST_F(HostileFolder, SnapshotsThatAreNoFilesAreLeftAlone) {
  const std::string name = buffer_prefix("hostile") + "0-1-1-1-5-1-0123";
  ASSERT_TRUE(parse_disk_snapshot_name(name, "hostile"));
  for (const char* bad : {"", "0-1-1-1-5-1", "-1-1-1-1-5-1-0123", "1-1-1-1-5-1-0123", "0-1-1-1--5-1-0123",
                          "0-1-1-1-5-1-0123.half", "0-99999999999-1-1-5-1-0123"})
    EXPECT_FALSE(parse_disk_snapshot_name(buffer_prefix("hostile") + bad, "hostile")) << bad;
  for (const fs::path& place : {root_, fs::path("/dev/shm")}) {
    for (bool is_link : {true, false}) {
      SCOPED_TRACE(place.string() + (is_link ? " link" : " FIFO"));
      if (is_link) fs::create_symlink(archive_ / "OWNER", place / name);
      ASSERT_TRUE(is_link || ::mkfifo((place / name).c_str(), 0600) == 0);
      DiskSnapshots buffers(files_, place, "hostile");
      EXPECT_TRUE(buffers.list().empty());
      buffers.clear_leftovers();
      EXPECT_THROW(buffers.load(name), StorageError);
      EXPECT_THROW(SnapshotMemory::open(name), StorageError);
      EXPECT_FALSE(remove_orphan(name));
      EXPECT_TRUE(fs::remove(place / name));
    }
  }
}

TEST(EntryNames, AreToldApart) {
  const auto is = [](std::string_view name, Kind kind, std::int64_t step = -1) {
    const EntryName entry = parse_entry_name(name);
    EXPECT_EQ(entry.kind, kind) << name;
    EXPECT_EQ(entry.step, step < 0 ? std::nullopt : std::optional(Step(step))) << name;
  };
  is("step-000000000300", Kind::checkpoint, 300);
  is(".stage-300.0123456789abcdef", Kind::stage, 300);
  is(".trash-0123456789abcdef", Kind::trash);
  is(".trash-step-000000000300.0123456789abcdef", Kind::trash, 300);
  is(".trash-.stage-300.01234567.0123456789abcdef", Kind::trash);
  is("step-000000000300.01234567", Kind::quarantined, 300);
  is(".OWNER.0123456789abcdef", Kind::half);
  is("OWNER", Kind::own);
  is("tags", Kind::own);
  for (const char* name :
       {"", ".", "step-300", "step-00000000030x", ".trash-", ".trash-.0123", ".stage-.0123", ".stage-1.",
        ".stage-1.012", ".stage-+1.0123", ".OWNER.", ".OTHER.0123", "owner", "step-000000000300.0123X"})
    is(name, Kind::unknown);
  for (const std::string& made : {stage_name(Step(7)), trash_name(stage_name(Step(7))),
                                  trash_name(std::string(250, 'x')), quarantined_name(step_folder_name(Step(7)))}) {
    EXPECT_NE(parse_entry_name(made).kind, Kind::unknown) << made;
    EXPECT_LE(made.size(), 255U);
  }
}

TEST(EntryNames, AnyBytesAreUnderstood) {
  const std::vector<std::string> seeds{"step-000000000300", ".stage-300.0123456789abcdef",
                                       ".trash-step-000000000300.0123", "OWNER"};
  std::mt19937 random(7);
  for (int trial = 0; trial < 20'000; ++trial) {
    std::string name = seeds[random() % seeds.size()];
    for (unsigned changes = random() % 4; changes > 0; --changes) {
      if (const auto at = random() % (name.size() + 1); random() % 2 && at < name.size())
        name[at] = static_cast<char>(random());
      else
        name.erase(at, random() % 8);
    }
    const EntryName entry = parse_entry_name(name);
    EXPECT_EQ(entry.kind == Kind::checkpoint, step_of_folder(name).has_value()) << name;
    EXPECT_GE(entry.step.value_or(Step(0)), Step(0)) << name;
  }
}
}  // namespace
}  // namespace distdl::checkpoint
