// SPDX-License-Identifier: Apache-2.0
// The passes of a step and its totals, without an update.
#include <map>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/model/models.hpp>
#include <distdl/train/sync/own_order.hpp>
#include <distdl/train/sync/passes.hpp>
#include <distdl/train/sync/totals.hpp>
#include <distdl/train/sync/update.hpp>

namespace distdl::train {
namespace {
/// What passes told of a step of a run.
struct Told final : PassedStep {
  /// `requests`: whether this rank asks for a stop, as a step does before its first sum.
  Told(parallel::GradientSum& sum, TotalsSum& totals, bool requests)
      : sum_(sum), totals_(totals), requests_(requests) {}
  const TrainingState& state() const override { return state_; }
  float scale() const override { return 0.1f; }
  void begin_sums() override {
    ++begun;
    EXPECT_EQ(followed, 0);
    request();
  }
  void request() {
    if (requests_) totals_.request_stop();
  }
  void follow_sums() override {
    ++followed;
    while (sum_.has_sum()) sum_.next_sum(), ++in_passes;
  }
  int begun = 0, followed = 0, in_passes = 0;

 private:
  TrainingState state_;
  parallel::GradientSum& sum_;
  TotalsSum& totals_;
  bool requests_;
};

class PassesAlone : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    use_text();
    recipe_.model.layers = 2;
    recipe_.model.dropout = 0;
    recipe_.kernels.backend = "reference";
    recipe_.parallel.microbatches = 6;
  }
  /// What is there on a rank of a step whose gradients are summed.
  struct Rank {
    const comm::Communicator& world;
    const OwnedModel& held;
    parallel::GradientSum& sum;
    Passes& passes;
    TotalsSum& totals;
    const Told& told;
  };
  void run_step(int ranks, const parallel::Degrees& degrees, const std::function<void(const Rank&)>& check) {
    recipe_.parallel.pipeline_ranks = degrees.pipeline;
    world::run_threads(ranks, [&](world::World& world) {
      comm::run_connected(world, {}, [&](comm::Communicator& communicator) { pass(communicator, degrees, check); });
    });
  }

  std::mutex mutex_;

 private:
  void pass(comm::Communicator& communicator, const parallel::Degrees& degrees,
            const std::function<void(const Rank&)>& check) const {
    const parallel::Mesh mesh(communicator, degrees);
    const auto backend = kernels::make_backend(recipe_.kernels);
    const auto sources = data::open_sources(recipe_.data, recipe_.model.context, 1);
    const auto held = hold(model_of(recipe_, *sources.training), recipe_.parallel, mesh, *backend, {});
    const auto plan = parallel::make_plan(recipe_.parallel, degrees.data);
    const auto self = mesh.summing().rank();
    Microbatches microbatches(recipe_, *backend, held, communicator.rank(), plan.microbatches, plan.microbatch_size, 1);
    const auto count = microbatches.network().gradient_count();
    parallel::GradientSum sum(*backend, mesh.summing(), plan, count,
                              {.places = bucket_places(recipe_, mesh, held, microbatches.network(), *backend),
                               .bucket_mib = 1e-6,
                               .pieces = held.parts.size() > 1 ? held.pieces(count) : parallel::GradientSum::Pieces(),
                               .in_callers_thread = mesh.has_parts()});
    Auditor auditor(0, *backend, communicator, audited_parts(degrees), plan, held.tensors.layout, count);
    const auto passes = make_passes({recipe_, mesh, *backend, held, plan, microbatches, sum, auditor});
    TotalsSum totals(mesh, held, *backend, sum, passes->networks().back()->has_loss());
    sum.allocate();
    passes->allocate();
    std::vector<float> parameters(held.tensors.layout.size());
    model::initialize(held.tensors, 1, parameters);
    passes->load_parameters(parameters.data());
    microbatches.start_reading(sources, data::Sampler(1, sources.training->samples()), {},
                               std::make_shared<OwnOrder>(plan, self, OwnGroups{}, 0));
    Told told(sum, totals, communicator.rank() == distdl::Rank(1));
    passes->run(told);
    if (told.begun == 0) told.request();
    while (sum.next_sum() != nullptr) {
    }
    check({communicator, held, sum, *passes, totals, told});
  }
};

TEST_F(PassesAlone, SumWhileTheLastMicrobatchIsComputed) {
  run_step(3, {.data = 3}, [&](const Rank& rank) {
    EXPECT_EQ(rank.told.begun, 1);
    EXPECT_GT(rank.told.followed, 1);
    EXPECT_FALSE(rank.passes.times());
  });
  run_step(1, {}, [&](const Rank& rank) { EXPECT_EQ(rank.told.begun, 0) << "there is nothing to sum"; });
}

TEST_F(PassesAlone, OfStagesGiveTheGradientsOfAllLayers) {
  const auto sums_of = [&](int ranks, const parallel::Degrees& degrees) {
    std::map<std::string, std::vector<float>> sums;
    run_step(ranks, degrees, [&](const Rank& rank) {
      const std::lock_guard lock(mutex_);
      for (const auto& view : rank.held.tensors.layout.tensors()) {
        if (view.role != tensor::Role::parameter) continue;
        const auto* const from = rank.sum.result() + view.offset;
        sums[view.name] = std::vector<float>(from, from + view.count);
      }
    });
    return sums;
  };
  const auto whole = sums_of(1, {});
  EXPECT_EQ(sums_of(3, {.data = 3}), whole);
  EXPECT_EQ(sums_of(2, {.pipeline = 2}), whole);
  EXPECT_EQ(sums_of(4, {.data = 2, .pipeline = 2}), whole);
}

TEST_F(PassesAlone, TotalsAreTheSameHoweverTheyAreSummed) {
  std::optional<StepTotals> whole;
  const auto expect_same = [&](int ranks, const parallel::Degrees& degrees, bool shares_squares) {
    run_step(ranks, degrees, [&](const Rank& rank) {
      if (shares_squares) rank.totals.share_squares({});
      const auto totals = rank.totals.sum(rank.passes.times());
      const std::lock_guard lock(mutex_);
      if (!whole) whole = totals;
      EXPECT_EQ(totals.loss, whole->loss);
      EXPECT_EQ(totals.correct, whole->correct);
      EXPECT_EQ(totals.terms, 180) << "6 microbatches of 3 texts of 10 letters";
      EXPECT_EQ(totals.stop, ranks > 1);
      EXPECT_FALSE(totals.save);
      EXPECT_EQ(totals.squares.has_value(), shares_squares);
      EXPECT_EQ(totals.stages.has_value(), degrees.pipeline > 1);
      if (!totals.stages) return;
      EXPECT_GE(totals.stages->seconds, totals.stages->busiest);
      EXPECT_GE(totals.stages->busiest, totals.stages->seconds - totals.stages->waited);
    });
  };
  expect_same(1, {}, false);
  expect_same(2, {.data = 2}, false);
  expect_same(2, {.pipeline = 2}, false);
  expect_same(2, {.pipeline = 2}, true);
  expect_same(4, {.data = 2, .pipeline = 2}, true);
}
}  // namespace
}  // namespace distdl::train
