// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/observe/progress_bar.hpp>

namespace distdl::observe {
namespace {
using ::testing::HasSubstr;
using ::testing::Not;

Clock::time_point simulated_now;

/// What `tell` makes it print to something that is not a terminal.
template <class Tell>
std::string printed_by(
    const Tell& tell, Progress::Now now = [] { return Clock::now(); }) {
  std::FILE* file = std::tmpfile();
  Progress progress(file, now);
  tell(progress);
  auto size = static_cast<std::size_t>(std::ftell(file));
  std::rewind(file);
  std::string result(size, '\0');
  EXPECT_EQ(std::fread(result.data(), 1, size, file), size);
  std::fclose(file);
  return result;
}

/// What `events` print to something that is not a terminal.
template <class... Events>
std::string printed(const Events&... events) {
  return printed_by([&](Progress& progress) { (progress.on(events), ...); });
}

const records::Started kStarted{{}, Step(10), 1, 50, 5, "reference"};

TEST(Progress, PlainLinesWithoutATerminal) {
  auto text = printed(kStarted, records::StepDone{Step(1), 0.1, 2.5, 0.25, 0.01, 99},
                      records::Evaluated{Step(10), 1, 0.125, 0.975, 50},
                      records::CheckpointSaved{Step(10), 2 << 20, 0.5, 0.0025});
  EXPECT_THAT(text, ::testing::MatchesRegex(
                        "starting: 10 steps of 5 samples, 1 rank on reference\n"
                        "step 1/10  epoch 0.10  loss 2.5000  accuracy 25.00%  99 samples/s  [0-9]+ s, [0-9]+ s left\n"
                        "step 10  epoch 1.00  validation accuracy 97.50%  loss 0.1250\n"
                        "checkpoint at step 10: 2.0 MiB in 500.0 ms; training waited 2.5 ms\n"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
}

TEST(Progress, AQuickRunDoesNotFloodTheLog) {
  records::StepDone step{Step(1), 0.1, 2.5, 0.25, 0.01, 99};
  EXPECT_EQ(printed(step, step, step), printed(step));
}

TEST(Progress, TheStepsOfARoundHaveTakenTheirTimeTogether) {
  const auto text = printed_by(
      [](Progress& progress) {
        progress.on(records::Started{{}, Step(40), 1, 50, 5, "reference"});
        for (std::int64_t step = 1; step <= 20; ++step) {
          if (step % 10 == 1) simulated_now += std::chrono::seconds(30);
          records::StepDone done{Step(step), 0.1, 2.5, 0.25, 0.01, 99};
          done.is_followed = step % 10 != 0;
          progress.on(done);
        }
      },
      [] { return simulated_now; });
  EXPECT_THAT(text, Not(HasSubstr("step 1/40")));
  EXPECT_THAT(text,
              HasSubstr("step 10/40  epoch 0.10  loss 2.5000  accuracy 25.00%  99 samples/s  30 s, 1:30 min left"));
  EXPECT_THAT(text,
              HasSubstr("step 20/40  epoch 0.10  loss 2.5000  accuracy 25.00%  99 samples/s  1:00 min, 1:00 min left"));
}

TEST(Progress, ADayOfShortStepsIsAFewHundredLines) {
  constexpr std::int64_t kDay = 86400, kStepsEach = 5;  // in a second
  const auto text = printed_by(
      [](Progress& progress) {
        progress.on(records::Started{{}, Step(kDay * kStepsEach), 1, 50, 5, "reference"});
        for (std::int64_t step = 1; step <= kDay * kStepsEach; ++step) {
          simulated_now += Milliseconds(1000 / kStepsEach);
          progress.on(records::StepDone{Step(step), 0.1, 2.5, 0.25, 0.01, 99});
          if (step % kStepsEach == 0) progress.on(records::Evaluated{Step(step), 1, 0.125, 0.975, 50});
          if (step % kStepsEach == 0) progress.on(records::CheckpointSaved{Step(step), 2 << 20, 0.5, 0.0025});
        }
      },
      [] { return simulated_now; });
  for (const char* kind : {"samples/s", "validation", "checkpoint"}) {
    std::int64_t lines = 0;
    for (auto at = text.find(kind); at != std::string::npos; at = text.find(kind, at + 1)) ++lines;
    EXPECT_GT(lines, kDay / 600) << kind << ": one every ten minutes";
    EXPECT_LT(lines, 300) << kind;
  }
}

TEST(Progress, ALogHasFewLinesAboutCheckpointsAndEvaluations) {
  const records::Evaluated evaluated{Step(10), 1, 0.125, 0.975, 50};
  const records::CheckpointSaved saved{Step(10), 2 << 20, 0.5, 0.0025};
  EXPECT_EQ(printed(evaluated, evaluated), printed(evaluated));
  EXPECT_EQ(printed(saved, saved, saved), printed(saved));
}

TEST(Progress, SaysFromWhereItResumes) {
  records::Started resumed = kStarted;
  resumed.resumed_from = Step(4);
  resumed.world_size = 3;
  resumed.resumed_source = "the file system";
  EXPECT_EQ(printed(resumed), "resuming from step 4 of 10, from the file system, 3 ranks on reference\n");
  resumed.resumed_from = Step(12);
  EXPECT_EQ(printed(resumed),
            "step 12 is there already, from the file system, and the job ends at step 10: there is nothing left to "
            "train\n");
}
}  // namespace
}  // namespace distdl::observe
