// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include <gmock/gmock.h>

#include "tests/kernels/each_backend.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/kernels/host/host_backend.hpp>
#include <distdl/kernels/part_sums.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/optim/shards.hpp>

namespace distdl::optim {
namespace {
using Doubles = std::vector<double>;

/// One tensor as the papers write them, in double.
struct Reference {
  Doubles p, m, v;
  bool decays, adapts;
};

double norm(const Doubles& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum);
}

/// Step t (from 1) of the optimizer that the options name. `squares`: the number of the last one that changed second
/// moments, or this one.
void step(Reference& r, const Options& o, const Doubles& g, double rate, int t, int squares) {
  const double decay = r.decays ? o.weight_decay : 0, w = norm(r.p);
  if (o.name == "sgd" || o.name == "lars") {
    const bool trust = o.name == "lars" && r.adapts && w > 0 && norm(g) > 0;
    const double ratio = trust ? o.trust_coefficient * w / (norm(g) + decay * w) : 1;
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double d = g[i] + decay * r.p[i];
      if (o.name == "lars") {
        r.m[i] = o.momentum * r.m[i] + rate * ratio * d;
        r.p[i] -= r.m[i];
      } else {
        r.m[i] = o.momentum * r.m[i] + d;
        r.p[i] -= rate * (o.nesterov ? d + o.momentum * r.m[i] : r.m[i]);
      }
    }
    return;
  }
  Doubles u(g.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    r.m[i] = o.beta1 * r.m[i] + (1 - o.beta1) * g[i];
    if (squares == t) r.v[i] = o.beta2 * r.v[i] + (1 - o.beta2) * g[i] * g[i];
    const double m = r.m[i] / (1 - std::pow(o.beta1, t)), v = r.v[i] / (1 - std::pow(o.beta2, squares));
    u[i] = m / (std::sqrt(v) + o.epsilon) + decay * r.p[i];
  }
  const double length = norm(u);
  const double ratio = o.name == "lamb" && r.adapts && w > 0 && length > 0 ? w / length : 1;
  for (std::size_t i = 0; i < g.size(); ++i) r.p[i] -= rate * ratio * u[i];
}

/// Where a recorded update is made again from pointers alone, as a GPU makes it: no number of an earlier one may be
/// left in it.
class RecordingBackend final : public kernels::HostBackend {
 public:
  RecordingBackend() : HostBackend(tensor::DataType::float32) {}
  std::string name() const override { return "recording"; }
  std::string description() const override { return name(); }
  std::unique_ptr<kernels::Layer> layer(const kernels::LayerSpec&, const kernels::ActivationFormat&) override {
    return nullptr;
  }
  std::unique_ptr<kernels::Replay> make_replay() override { return std::make_unique<Recording>(calls_); }

  void update(const kernels::OptimizerStep& step, const kernels::UpdateArenas& arenas,
              kernels::ArenaRanges ranges) override {
    note([=, this] { HostBackend::update(step, arenas, ranges); });
  }

 private:
  using Calls = std::vector<std::function<void()>>;
  class Recording final : public kernels::Replay {
   public:
    explicit Recording(Calls*& calls) : open_(calls) {}
    void run(const std::function<void()>& work) override {
      if (calls_.empty()) {
        open_ = &calls_;
        work();
        open_ = nullptr;
      }
      for (const auto& call : calls_) call();
    }
    std::optional<std::string> obstacle() const override { return {}; }

   private:
    Calls*& open_;
    Calls calls_;
  };
  void note(std::function<void()> call) {
    if (calls_ == nullptr) return call();
    calls_->push_back(std::move(call));
  }
  Calls* calls_ = nullptr;  ///< where a recording is under way
};

class OnBackend : public kernels::test::EachBackend {
 protected:
  static constexpr int kSteps = 7, kMicrobatches = 3;

  OnBackend() {
    layout_.add("conv", {3, 5, 7});
    layout_.add("bias", {13});
    layout_.add("mean", {9}, tensor::Role::statistic);
    layout_.add("scale", {1});
    layout_.add("wide", {131, 257});  // more than two partial sums
    layout_.add("nothing", {4, 3});   // whose norm is 0
  }

  static float draw(std::uint64_t stream, std::uint64_t i) {
    return 2 * Philox::uniform(Philox::block(3, stream, i)[0]) - 1;
  }
  std::vector<float> start() const {
    std::vector<float> values(layout_.size());
    for (const auto& tensor : layout_.tensors())
      for (std::size_t i = 0; i < tensor.count && tensor.name != "nothing"; ++i)
        values[tensor.offset + i] = 0.5f * draw(0, tensor.offset + i);
    return values;
  }
  /// Of step t. Some are 0, in some tensors all.
  std::vector<float> gradients(int t) const {
    std::vector<float> values(layout_.size());
    for (const auto& tensor : layout_.tensors())
      for (std::size_t i = 0; i < tensor.count; ++i)
        if (i % 5 != 4 && !(tensor.name == "scale" && t == 2))
          values[tensor.offset + i] = 0.1f * draw(static_cast<std::uint64_t>(t), tensor.offset + i) *
                                      (tensor.role == tensor::Role::parameter ? grown_ : 1.0f);
    return values;
  }

  static std::size_t moments_of(const std::vector<StateArena>& state) {
    return static_cast<std::size_t>(std::ranges::count(state, StateArena::Kind::moment, &StateArena::kind));
  }

  struct Outcome {
    std::vector<float> parameters, average;
    std::map<std::string, std::vector<float>> moments;
    Doubles norms;
  };
  static double rate(int t) { return 0.1 / t; }
  /// All steps, the run being `after` steps old. With a replay each step runs by it.
  Outcome train(const Options& options, std::int64_t after = 0, kernels::Replay* replay = nullptr) {
    Optimizer optimizer(options, layout_, *backend_);
    const auto spread = spread_tensors(layout_, layout_, options);
    if (spreads_) optimizer.rule().spread(spread.own);
    std::vector<tensor::Buffer> memory;
    auto upload = [&](const std::vector<float>& values) {
      memory.push_back(backend_->allocate(values.size() * sizeof(float)));
      backend_->copy_from_host(memory.back().data(), values.data(), values.size() * sizeof(float));
      return static_cast<float*>(memory.back().data());
    };
    Arenas arenas{.parameters = upload(start())};
    const auto state = optimizer.state();
    std::vector<float*> places;
    for (std::size_t i = 0; i < state.size(); ++i) {
      const bool average = state[i].kind == StateArena::Kind::average;
      places.push_back(upload(average ? start() : std::vector<float>(layout_.size())));
      (average ? arenas.average : arenas.moments.at(i)) = places.back();
    }
    Outcome outcome;
    float* const gradient = upload(std::vector<float>(layout_.size()));
    arenas.gradients = gradient;
    for (int t = 1; t <= kSteps; ++t) {
      backend_->copy_from_host(gradient, gradients(t).data(), layout_.size() * sizeof(float));
      auto norm = optimizer.prepare(arenas.gradients, {rate(t), after + t - 1, t - 1, kMicrobatches, gradient_scale_,
                                                       std::max(0, t - 1 - last_squares_), t > last_squares_});
      if (spreads_) set_rates(optimizer.rule(), arenas, spread);
      const auto apply = [&] {
        for (const auto& of_rank : shards_of(options, layout_, shards_, {}).of) {
          const Elements& shard = of_rank.front();
          Arenas part = arenas;
          part.first = shard.first;
          for (std::size_t i = 0; i < moments_of(state); ++i) part.moments.at(i) += shard.first;
          optimizer.apply(part, shard);
        }
      };
      replay != nullptr ? replay->run(apply) : apply();
      if (norm) outcome.norms.push_back(*norm);
    }
    outcome.parameters = download(arenas.parameters);
    for (std::size_t i = 0; i < state.size(); ++i)
      (state[i].name == "average" ? outcome.average : outcome.moments[state[i].name]) = download(places[i]);
    return outcome;
  }
  /// As ranks do that have some elements of each tensor, a piece in one hand or in two.
  void set_rates(Rule& rule, const Arenas& arenas, const SpreadTensors& spread) {
    rule.begin_terms(arenas, {0, layout_.size()});
    Doubles squares, terms;
    for (const auto& whole : spread.whole) {
      Doubles square, term;
      for (std::size_t done = 0; done < whole.count; done += kernels::kSummedPart) {
        const kernels::ArenaRange piece{whole.offset + done, std::min(whole.count - done, kernels::kSummedPart),
                                        whole.options};
        Sums sums(*backend_, 2);
        backend_->sums_of_squares(arenas.parameters, std::span(&piece, 1), sums.at(0));
        rule.add_up_terms(arenas, std::span(&piece, 1), sums.at(1));
        square.push_back(sums.read()[0]);
        term.push_back(sums.read()[1]);
        Doubles all(piece.count);
        const std::size_t first = piece.count / 3;
        rule.list_terms(arenas, {piece.offset, first, piece.options}, std::span(all).first(first));
        rule.list_terms(arenas, {piece.offset + first, piece.count - first, piece.options},
                        std::span(all).subspan(first));
        EXPECT_EQ(kernels::sum_of_terms(all), term.back());
      }
      squares.push_back(kernels::sum_of_parts(square));
      terms.push_back(kernels::sum_of_parts(term));
    }
    rule.set_rates(squares, terms);
  }

  std::vector<float> download(const float* data) {
    std::vector<float> values(layout_.size());
    backend_->copy_to_host(values.data(), data, values.size() * sizeof(float));
    return values;
  }

  /// The same by the book; gradients shortened to `clip_norm` where they are longer.
  std::map<std::string, Reference> expected(const Options& options) {
    std::map<std::string, Reference> tensors;
    const auto first = start();
    for (const auto& tensor : layout_.tensors()) {
      if (tensor.role != tensor::Role::parameter) continue;
      const bool several = tensor.shape.size() > 1, decays = several || options.decay_one_dimensional;
      auto from = first.begin() + static_cast<std::ptrdiff_t>(tensor.offset);
      tensors[tensor.name] = {{from, from + static_cast<std::ptrdiff_t>(tensor.count)},
                              Doubles(tensor.count),
                              Doubles(tensor.count),
                              options.name == "sgd" || decays,
                              several};
    }
    for (int t = 1; t <= kSteps; ++t) {
      const auto all = gradients(t);
      const double whole = norm_of(all), scale = options.clip_norm > 0 ? std::min(1.0, options.clip_norm / whole) : 1;
      for (auto& [name, reference] : tensors) {
        const auto* tensor = layout_.find(name);
        Doubles g(tensor->count);
        for (std::size_t i = 0; i < g.size(); ++i) g[i] = scale * all[tensor->offset + i];
        step(reference, options, g, rate(t), t, std::min(t, last_squares_));
      }
    }
    return tensors;
  }
  /// Over all parameters.
  double norm_of(const std::vector<float>& arena) const {
    Doubles values;
    for (const auto& tensor : layout_.tensors())
      for (std::size_t i = 0; i < tensor.count && tensor.role == tensor::Role::parameter; ++i)
        values.push_back(arena[tensor.offset + i]);
    return norm(values);
  }

  void expect_the_book(const Options& options) {
    const auto outcome = train(options);
    for (const auto& [name, reference] : expected(options)) {
      const auto* tensor = layout_.find(name);
      for (std::size_t i = 0; i < tensor->count; ++i) {
        ASSERT_NEAR(outcome.parameters[tensor->offset + i], reference.p[i], 2e-6 * (1 + std::abs(reference.p[i])))
            << options.name << ", " << name << "[" << i << "]";
        for (const auto& [which, moment] : outcome.moments)
          ASSERT_NEAR(moment[tensor->offset + i], which == "second_moment" ? reference.v[i] : reference.m[i], 1e-6)
              << options.name << ", " << which << " of " << name << "[" << i << "]";
      }
    }
  }

  tensor::ArenaLayout layout_;
  float grown_ = 1;  ///< how large gradients are
  double gradient_scale_ = 1;
  int last_squares_ = kSteps;  ///< the last step that changes second moments
  int shards_ = 1;
  bool spreads_ = false;  ///< as if other ranks had some elements of each tensor
};

TEST_P(OnBackend, SgdFollowsItsFormula) {
  expect_the_book({.momentum = 0});
  expect_the_book({.momentum = 0.9, .weight_decay = 0.01});
  expect_the_book({.momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
}

TEST_P(OnBackend, AdamWFollowsItsFormula) {
  expect_the_book({.name = "adamw"});
  expect_the_book({.name = "adamw", .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1});
  expect_the_book({.name = "adamw", .beta1 = 0, .weight_decay = 0.1, .decay_one_dimensional = true});
}

TEST_P(OnBackend, SecondMomentsMayBeHeld) {
  last_squares_ = 4;
  for (const char* name : {"adamw", "lamb"}) expect_the_book({.name = name, .epsilon = 1e-4, .weight_decay = 0.1});
}

TEST_P(OnBackend, LambFollowsItsFormula) {
  expect_the_book({.name = "lamb", .epsilon = 1e-6});
  expect_the_book({.name = "lamb", .epsilon = 1e-6, .weight_decay = 0.1});
  expect_the_book({.name = "lamb", .weight_decay = 0.1, .decay_one_dimensional = true});
}

TEST_P(OnBackend, LarsFollowsItsFormula) {
  expect_the_book({.name = "lars", .momentum = 0});
  expect_the_book({.name = "lars", .trust_coefficient = 0.02, .weight_decay = 0.01});
  expect_the_book({.name = "lars", .weight_decay = 0.01, .decay_one_dimensional = true});
}

TEST_P(OnBackend, ALongGradientIsShortenedForEveryOptimizer) {
  for (const auto& [name, moments, adapts, make] : known_rules())
    for (double limit : {1.5, 1e6})
      expect_the_book({.name = name, .epsilon = 1e-4, .weight_decay = 0.1, .clip_norm = limit});
}

TEST_P(OnBackend, AScaledGradientIsAsGoodAsALargerOne) {
  for (const auto& [name, moments, adapts, make] : known_rules())
    for (double limit : {0.0, 1.5, 1e6}) {
      const Options options{.name = name, .weight_decay = 0.1, .clip_norm = limit};
      grown_ = 4, gradient_scale_ = 1;
      const auto larger = train(options);
      grown_ = 1, gradient_scale_ = 4;
      const auto scaled = train(options);
      EXPECT_EQ(scaled.parameters, larger.parameters) << name << ", " << limit;
      EXPECT_EQ(scaled.moments, larger.moments) << name << ", " << limit;
      EXPECT_EQ(scaled.norms, larger.norms) << name << ", " << limit;
    }
}

TEST_P(OnBackend, ARecordedUpdateGivesTheSameBits) {
  std::map<std::string, Outcome> plain;
  const auto options = [](const std::string& name) {
    return Options{.name = name, .weight_decay = 0.1, .clip_norm = 1.5, .ema_decay = 0.9};
  };
  for (const auto& [name, moments, adapts, make] : known_rules()) plain[name] = train(options(name));
  if (backend_->make_replay() == nullptr) backend_ = std::make_unique<RecordingBackend>();
  for (const auto& [name, moments, adapts, make] : known_rules()) {
    const auto replay = backend_->make_replay();
    const auto recorded = train(options(name), 0, replay.get());
    EXPECT_EQ(recorded.parameters, plain[name].parameters) << name;
    EXPECT_EQ(recorded.average, plain[name].average) << name;
    EXPECT_EQ(recorded.moments, plain[name].moments) << name;
    EXPECT_EQ(recorded.norms, plain[name].norms) << name;
  }
}

TEST_P(OnBackend, ShardsGiveTheSameBits) {
  for (const auto& [name, moments, adapts, make] : known_rules()) {
    const Options options{.name = name, .weight_decay = 0.1, .clip_norm = 1.5, .ema_decay = 0.9};
    shards_ = 1;
    const auto whole = train(options);
    for (shards_ = 2; shards_ <= 7; ++shards_) {
      const auto sharded = train(options);
      EXPECT_EQ(sharded.parameters, whole.parameters) << name << ", " << shards_;
      EXPECT_EQ(sharded.average, whole.average) << name << ", " << shards_;
      EXPECT_EQ(sharded.moments, whole.moments) << name << ", " << shards_;
    }
  }
}

TEST_P(OnBackend, TensorsOfSeveralRanksGiveTheSameBits) {
  for (const auto& [name, moments, adapts, make] : known_rules()) {
    if (!adapts) continue;
    const Options options{.name = name, .weight_decay = 0.1, .clip_norm = 1.5, .ema_decay = 0.9};
    for (shards_ = 1; shards_ <= 3; shards_ += 2) {
      spreads_ = false;
      const auto whole = train(options);
      spreads_ = true;
      const auto spread = train(options);
      EXPECT_EQ(spread.parameters, whole.parameters) << name << ", " << shards_;
      EXPECT_EQ(spread.average, whole.average) << name << ", " << shards_;
      EXPECT_EQ(spread.moments, whole.moments) << name << ", " << shards_;
    }
  }
}

TEST_P(OnBackend, TheNormIsThatOfAllParametersAndOfNothingElse) {
  EXPECT_TRUE(train({}).norms.empty());
  const auto norms = train({.clip_norm = 1}).norms;
  ASSERT_EQ(norms.size(), kSteps);
  for (int t = 1; t <= kSteps; ++t) EXPECT_NEAR(norms[t - 1], norm_of(gradients(t)), 1e-12) << t;
}

TEST_P(OnBackend, StatisticsAreRunningAveragesWhateverTheOptimizer) {
  const auto* mean = layout_.find("mean");
  for (const auto& [name, moments, adapts, make] : known_rules()) {
    const auto outcome = train({.name = name, .clip_norm = 0.01, .statistic_weight = 0.25});
    for (std::size_t i = mean->offset; i < mean->offset + mean->count; ++i) {
      double value = start()[i];
      for (int t = 1; t <= kSteps; ++t) value = 0.75 * value + 0.25 * gradients(t)[i] / kMicrobatches;
      ASSERT_NEAR(outcome.parameters[i], value, 1e-6) << name;
      for (const auto& [which, moment] : outcome.moments) ASSERT_EQ(moment[i], 0) << name << " " << which;
    }
  }
}

TEST_P(OnBackend, TheAverageFollowsTheParameters) {
  const Options plain{.name = "sgd", .momentum = 0};
  for (std::int64_t after : {0, 1000000}) {
    Options options = plain;
    options.ema_decay = 0.9;
    const auto outcome = train(options, after);
    ASSERT_EQ(outcome.parameters, train(plain).parameters);
    Doubles p, average;
    for (float value : start()) {
      p.push_back(value);
      average.push_back(value);
    }
    const auto* bias = layout_.find("bias");
    for (int t = 1; t <= kSteps; ++t) {
      const double decay = std::min(0.9, (after + t + 1.0) / (after + t + 10.0));
      for (std::size_t i = bias->offset; i < bias->offset + bias->count; ++i) {
        p[i] -= rate(t) * gradients(t)[i];
        average[i] = decay * average[i] + (1 - decay) * p[i];
      }
    }
    for (std::size_t i = bias->offset; i < bias->offset + bias->count; ++i)
      ASSERT_NEAR(outcome.average[i], average[i], 1e-6) << after;
    const auto* mean = layout_.find("mean");
    EXPECT_NE(outcome.average[mean->offset], start()[mean->offset]) << "statistics are averaged too";
  }
}

TEST_P(OnBackend, GapsBetweenTensorsStayZero) {
  for (const auto& [name, moments, adapts, make] : known_rules()) {
    const auto outcome = train({.name = name, .weight_decay = 0.1, .clip_norm = 0.5, .ema_decay = 0.9});
    std::vector<float> gaps = outcome.parameters;
    for (const auto& tensor : layout_.tensors())
      std::fill_n(gaps.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.count, 0.0f);
    EXPECT_THAT(gaps, testing::Each(0.0f)) << name;
  }
}

TEST_P(OnBackend, KeepsWhatItNames) {
  auto names = [&](const Options& options) {
    std::vector<std::string> all;
    for (const auto& arena : Optimizer(options, layout_, *backend_).state()) all.push_back(arena.name);
    return all;
  };
  using testing::ElementsAre;
  EXPECT_THAT(names({}), ElementsAre("momentum"));
  EXPECT_THAT(names({.name = "lars", .ema_decay = 0.5}), ElementsAre("velocity", "average"));
  EXPECT_THAT(names({.name = "adamw"}), ElementsAre("first_moment", "second_moment"));
  EXPECT_THAT(names({.name = "lamb", .ema_decay = 0.5}), ElementsAre("first_moment", "second_moment", "average"));
  EXPECT_THROW(names({.name = "adam"}), ConfigError);
}

INSTANTIATE_TEST_SUITE_P(On, OnBackend, testing::ValuesIn(kernels::test::known_backends()),
                         kernels::test::name_of_backend);
}  // namespace
}  // namespace distdl::optim
