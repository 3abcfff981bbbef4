// SPDX-License-Identifier: Apache-2.0
// A rank may drive several devices: no byte of a run depends on it.

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/train/compute/device_replicas.hpp>
#include <distdl/train/memory.hpp>
#include <distdl/train/trace_file.hpp>

namespace distdl::train {
namespace {
using parallel::Strategy;
using ::testing::HasSubstr;

class Devices : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.train.steps = 7;
    recipe_.checkpoint.every = 0;
  }
  std::string digest_with(int ranks, int devices) {
    devices_ = devices;
    return digest_of(ranks, fmt::format("run{}", ++runs_));
  }
  void expect_same_bytes(const std::string& what, const std::vector<std::pair<int, int>>& ranks_and_devices) {
    const auto expected = digest_with(1, 1);
    for (const auto& [ranks, devices] : ranks_and_devices)
      EXPECT_EQ(digest_with(ranks, devices), expected) << what << ", " << ranks << " ranks, " << devices << " devices";
  }
  int runs_ = 0;
};

/// With the running averages of batch norm. With 7 devices, some of a rank have no microbatch.
TEST_F(Devices, ChangeNoByteOfReplicas) {
  expect_same_bytes("a whole sum", {{1, 2}, {1, 3}, {2, 2}, {2, 3}, {2, 7}});
}

TEST_F(Devices, ChangeNoByteWhereBucketsAreSummedWhileOthersAreComputed) {
  constexpr double kSmallest = 1e-6;  ///< MiB: each layer is a bucket
  recipe_.parallel.bucket_mib = kSmallest;
  recipe_.optim.ema_decay = 0.9;
  for (const char* strategy : {"replicas", "sharded", "sharded_gradients"}) {
    recipe_.parallel.strategy = strategy;
    expect_same_bytes(strategy, {{2, 2}, {3, 3}});
  }
}

/// It draws by microbatch.
TEST_F(Devices, ChangeNoByteOfDropout) {
  use_text();
  recipe_.optim = {.name = "adamw", .learning_rate = 1e-2, .clip_norm = 0.5};
  expect_same_bytes("adamw", {{1, 3}, {2, 2}});
}

TEST_F(Devices, ChangeNoByteOfAParameterServer) {
  recipe_.parallel.strategy = Strategy::parameter_server;
  recipe_.parallel.servers.steps = 4;
  expect_same_bytes("servers", {{1, 2}, {2, 3}});
}

TEST_F(Devices, ChangeNoByteOfGroups) {
  recipe_.parallel.strategy = Strategy::local_sgd;
  recipe_.parallel.local_sgd.groups = 2;
  recipe_.parallel.local_sgd.steps = 3;
  expect_same_bytes("groups", {{1, 2}, {4, 2}});
}

TEST_F(Devices, TheirNumberMayChangeWhereARunResumes) {
  const auto whole = digest_with(2, 1);
  devices_ = 2;
  EXPECT_EQ(run(1, "cut", 3), Outcome::stopped);
  devices_ = 3;
  EXPECT_EQ(digest_of(2, "cut"), whole);
}

TEST_F(Devices, EachOfThemIsInTheTrace) {
  devices_ = 2;
  trace_ = TraceSetting{folder_ / "trace", {2, 4}};
  ASSERT_EQ(run(1, "traced"), Outcome::finished);
  std::set<std::string> computing;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "trace"))
    if (entry.is_regular_file()) {
      const auto trace = read_trace_file(entry.path());
      for (const auto& span : trace.spans)
        if (span.kind == SpanKind::backward) computing.insert(trace.threads[span.thread]);
    }
  EXPECT_EQ(computing, (std::set<std::string>{"train", "device 1"}));
}

TEST_F(Devices, EachNeedsMemory) {
  const auto model = model_of(recipe_, *data::open_sources(recipe_.data, 1, 1).training);
  const auto tensors = model::tensors_of(model);
  const auto fits = [&](int devices, std::uint64_t memory) {
    try {
      check_memory(model, tensors, recipe_.parallel, recipe_.optim, {1, {}, true, devices}, memory);
    } catch (const ConfigError&) {
      return false;
    }
    return true;
  };
  std::uint64_t one = 1;
  while (!fits(1, one)) one += one / 16 + 1;
  EXPECT_FALSE(fits(2, one));
  EXPECT_TRUE(fits(2, 2 * one));
}

TEST_F(Devices, RefuseWhatIsNotBuilt) {
  const auto error = [&](const std::function<void(Recipe&)>& change, std::int64_t devices = 2) {
    Recipe recipe = recipe_;
    change(recipe);
    try {
      check_devices(recipe, devices);
    } catch (const ConfigError& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  EXPECT_EQ(error([](Recipe&) {}), "");
  EXPECT_EQ(error([](Recipe& r) { r.parallel.pipeline_ranks = 2; }, 1), "");
  EXPECT_THAT(error([](Recipe&) {}, 0), HasSubstr("must be between 1 and 16"));
  EXPECT_THAT(error([](Recipe&) {}, 17), HasSubstr("must be between 1 and 16"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.pipeline_ranks = 2; }), HasSubstr("use parallel.pipeline_ranks = 1"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.tensor_ranks = 2; }), HasSubstr("use parallel.tensor_ranks = 1"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.context_ranks = 2; }), HasSubstr("use parallel.context_ranks = 1"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.strategy = Strategy::sharded_parameters; }),
              HasSubstr("needs all parameters"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.strategy = Strategy::automatic; }), HasSubstr("\"replicas\""));
  EXPECT_THAT(error([](Recipe& r) {
                r.parallel.strategy = Strategy::parameter_server;
                r.parallel.servers.mode = parallel::server::Mode::bounded;
              }),
              HasSubstr("one microbatch at a time"));
  EXPECT_THAT(error([](Recipe& r) { r.train.audit_every = 5; }), HasSubstr("use train.audit_every = 0"));
  EXPECT_THAT(error([](Recipe& r) { r.kernels.backend = "cuda"; }), HasSubstr("each GPU needs a rank"));
  recipe_.train.audit_every = 5;
  devices_ = 2;
  EXPECT_THAT(error_of(1, "audited"), HasSubstr("exclude each other"));
  EXPECT_EQ(code_, ExitCode::config);
}

/// The replicas of a model alone.
class TowersAlone : public Devices {
 protected:
  void SetUp() override {
    Devices::SetUp();
    backend_ = kernels::make_backend(recipe_.kernels);
    held_.model = model_of(recipe_, *data::open_sources(recipe_.data, 1, 1).training);
    held_.parts = {model::tensors_of(held_.model)};
  }
  std::unique_ptr<kernels::Backend> backend_;
  OwnedModel held_;
};

TEST_F(TowersAlone, TellWhatTheFirstOfThemThrowsAndGoOn) {
  DeviceReplicas replicas(recipe_, *backend_, held_, 3, 3);
  std::atomic<int> worked = 0;
  const auto work = [&](std::size_t replica) {
    ++worked;
    if (replica == 1) throw StorageError("a torn file");
    while (!replicas.gives_up()) std::this_thread::yield();
    if (replica == 2) throw StorageError("a later one");
  };
  for (int again = 0; again < 2; ++again) {
    try {
      replicas.run(work);
      FAIL() << "no error";
    } catch (const StorageError& error) {
      EXPECT_STREQ(error.what(), "a torn file");
    }
  }
  EXPECT_EQ(worked, 6);
  replicas.run([&](std::size_t) { ++worked; });
  EXPECT_EQ(worked, 9);
}

/// What the caller does meanwhile may throw, too.
TEST_F(TowersAlone, LetTheCallerFollowTheirProgress) {
  DeviceReplicas replicas(recipe_, *backend_, held_, 3, 2);
  std::atomic<bool> is_followed = false;
  replicas.run(
      [&](std::size_t replica) {
        if (replica == 0) return;
        replicas.tell_progress();
        while (!is_followed) std::this_thread::yield();
      },
      [&] { is_followed = true; });
  const auto work = [&](std::size_t replica) {
    if (replica == 0) return;
    replicas.tell_progress();
    while (!replicas.gives_up()) std::this_thread::yield();
  };
  EXPECT_THROW(replicas.run(work, [] { throw CommError("a lost rank"); }), CommError);
}
}  // namespace
}  // namespace distdl::train
