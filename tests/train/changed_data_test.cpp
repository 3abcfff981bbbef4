// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/train/run_fixture.hpp"

namespace distdl::train {
namespace {
using testing::AllOf;
using testing::HasSubstr;

/// After step 9 all that the runs read of the set lies in memory: no chunk's checksum tells that its file changes.
class ChangedData : public Run {
 protected:
  void change_at(int step, std::function<void()> change) {
    recorder_.after_step = [step, change](Step now) {
      if (now == Step(step)) change();
    };
  }
  void write_others() {
    data::make_shapes({.samples = 330, .size = 12, .classes = 4, .seed = 6}, folder_ / "others.h5", Overwrite::replace);
    std::filesystem::copy_file(folder_ / "others.h5", set(), std::filesystem::copy_options::overwrite_existing);
  }
  Step newest_step(const std::string& name) {
    const auto all = checkpoint::list(folder_ / name);
    return all.empty() ? Step(-1) : all.back().step;
  }
};

TEST_F(ChangedData, EndsTheRunAtItsNextSaveWhichIsNotCommitted) {
  for (const std::string mode : {"sync", "async"}) {
    SCOPED_TRACE(mode);
    data::make_shapes({.samples = 330, .size = 12, .classes = 4, .seed = 5}, set(), Overwrite::replace);
    recipe_.checkpoint.mode = mode;
    change_at(9, [this] { write_others(); });
    EXPECT_THAT(error_of(2, mode),
                AllOf(HasSubstr("cannot save step 10"), HasSubstr("shapes.h5"), HasSubstr("was changed")));
    EXPECT_EQ(code_, ExitCode::incompatible);
    EXPECT_EQ(newest_step(mode), Step(5));
  }
}

TEST_F(ChangedData, IsNoticedInTheValidationSetAndAtTheEndToo) {
  data::make_shapes({.samples = 60, .size = 12, .classes = 4, .seed = 7}, folder_ / "validation.h5", Overwrite::refuse);
  recipe_.data.holdout = 0;
  recipe_.data.validation = (folder_ / "validation.h5").string();
  recipe_.checkpoint.every = 0;
  change_at(12, [this] {
    std::filesystem::copy_file(set(), folder_ / "validation.h5", std::filesystem::copy_options::overwrite_existing);
  });
  EXPECT_THAT(error_of(2, "end"), AllOf(HasSubstr("validation.h5"), HasSubstr("was changed")));
  EXPECT_EQ(code_, ExitCode::incompatible);
}

TEST_F(ChangedData, ATouchedOrRemovedFileChangesNothing) {
  ASSERT_EQ(run(2, "whole"), Outcome::finished);
  change_at(12, [this] { std::filesystem::last_write_time(set(), std::filesystem::file_time_type::clock::now()); });
  EXPECT_EQ(run(2, "touched"), Outcome::finished);
  EXPECT_EQ(digest("touched"), digest("whole"));
  change_at(7, [this] { std::filesystem::remove(set()); });
  EXPECT_EQ(run(2, "removed"), Outcome::finished);
  EXPECT_EQ(digest("removed"), digest("whole"));
}
}  // namespace
}  // namespace distdl::train
