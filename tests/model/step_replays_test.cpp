// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/model/step_replays.hpp>

namespace distdl::model {
namespace {

/// Records the first run's work, as a backend may.
class Recorder : public kernels::Replay {
 public:
  void run(const std::function<void()>& work) override {
    if (!recorded_) recorded_ = work;
    recorded_();
  }
  std::optional<std::string> obstacle() const override { return {}; }

 private:
  std::function<void()> recorded_;
};

std::unique_ptr<kernels::Replay> make_recorder() {
  return std::make_unique<Recorder>();
}

TEST(StepReplays, KeepAPassForEachPlaceAndScale) {
  StepReplays replays(&make_recorder);
  float one = 0, other = 0;
  const auto pass = [&](float* gradients, float scale) { replays.run(gradients, scale, [=] { *gradients += scale; }); };
  for (int i = 0; i < 3; ++i) {
    pass(&one, 1);
    pass(&other, 1);
    pass(&one, 10);
  }
  EXPECT_EQ(one, 33);
  EXPECT_EQ(other, 3);
}

TEST(StepReplays, ForgetWhatReadsMemoryThatMoved) {
  StepReplays replays(&make_recorder);
  float gradient = 0, weights[2] = {1, 10};
  const float* weight = &weights[0];
  const auto pass = [&] { replays.run(&gradient, 1, [&gradient, weight] { gradient += *weight; }); };
  pass();
  weight = &weights[1];
  pass();
  EXPECT_EQ(gradient, 2) << "recorded with the first weight";
  replays.forget();
  pass();
  EXPECT_EQ(gradient, 12);
}

TEST(StepReplays, RunWhatHasNoRecorderAndForgetTheOldest) {
  StepReplays none([] { return nullptr; });
  int runs = 0;
  for (int i = 0; i < 3; ++i) none.run(nullptr, 1, [&] { ++runs; });
  EXPECT_EQ(runs, 3);
  StepReplays recorded(&make_recorder);
  for (int scale = 0; scale < 40; ++scale) recorded.run(nullptr, static_cast<float>(scale), [&] { ++runs; });
  EXPECT_EQ(runs, 43);
  int others = 0;
  recorded.run(nullptr, 39, [&] { ++others; });
  recorded.run(nullptr, 0, [&] { ++others; });
  EXPECT_EQ(runs, 44) << "the newest is recorded still";
  EXPECT_EQ(others, 1);
}
}  // namespace
}  // namespace distdl::model
