// SPDX-License-Identifier: Apache-2.0
// Where the time of a training step goes: LeNet, batch 64, random input, SGD with momentum, on one backend and one
// thread. usage: lenet_step [BACKEND [STEPS]]
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "tests/kernels/layer_run.hpp"
#include <distdl/kernels/device_value.hpp>
#include <distdl/kernels/options.hpp>

namespace distdl::kernels::test {
namespace {
constexpr std::int64_t kBatch = 64;

/// Times of one part of the step over all steps.
class Clock {
 public:
  template <class Part>
  void time(const std::string& name, Part&& part) {
    auto start = std::chrono::steady_clock::now();
    part();
    milliseconds_[name].push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  void forget() { milliseconds_.clear(); }
  double median(const std::string& name) const {
    auto times = milliseconds_.at(name);
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
  double least(const std::string& name) const { return *std::ranges::min_element(milliseconds_.at(name)); }
  const std::map<std::string, std::vector<double>>& parts() const { return milliseconds_; }

 private:
  std::map<std::string, std::vector<double>> milliseconds_;
};

struct Step {
  std::string name;
  std::unique_ptr<Layer> layer;
  std::vector<const float*> parameters;
  std::vector<float*> gradients;
  tensor::Buffer y, dy;
};

class LeNet {
 public:
  explicit LeNet(Backend& backend) : backend_(backend) {
    ActivationFormat format = dense({kBatch, 1, 28, 28});
    x_ = filled(random_values(tensor::element_count(format.shape), 1));
    add("conv1", Conv2d{.out = 32, .kernel = 3, .padding = 1}, format);
    add("relu1", Relu{}, format);
    add("pool1", MaxPool2d{}, format);
    add("conv2", Conv2d{.out = 64, .kernel = 3, .padding = 1}, format);
    add("relu2", Relu{}, format);
    add("pool2", MaxPool2d{}, format);
    add("fc1", Linear{128}, format);
    add("relu3", Relu{}, format);
    add("fc2", Linear{10}, format);
    loss_ = backend.loss(CrossEntropy{}, format);
    bind_arenas();
    std::vector<std::int32_t> labels(kBatch);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i * 7 % 10);
    labels_ = backend.allocate(kBatch * sizeof(std::int32_t));
    backend.copy_from_host(labels_.data(), labels.data(), kBatch * sizeof(std::int32_t));
    totals_ = backend.allocate(3 * sizeof(float));
  }

  void step(Clock& clock) {
    clock.time("total", [&] {
      for (auto& step : steps_) clock.time(step.name + " load", [&] { step.layer->load_parameters(step.parameters); });
      for (std::size_t i = 0; i < steps_.size(); ++i)
        clock.time(steps_[i].name + " forward",
                   [&] { steps_[i].layer->forward(x(i), floats(steps_[i].y), Phase::training); });
      clock.time("loss", [&] {
        loss_->forward_backward(floats(steps_.back().y), labels_.as<std::int32_t>().data(), 1.0f / kBatch,
                                floats(steps_.back().dy), floats(totals_));
      });
      for (std::size_t i = steps_.size(); i-- > 0;) backward(i, clock);
      clock.time("sgd", [&] {
        backend_.update(sgd_.get(), {floats(parameters_), {floats(momentum_)}, floats(gradients_)},
                        std::array{ArenaRange{0, layout_.size()}});
      });
    });
  }

  float loss() {
    float totals[2];
    backend_.copy_to_host(totals, totals_.data(), sizeof(totals));
    return totals[0] / kBatch;
  }

 private:
  static float* floats(const tensor::Buffer& buffer) { return static_cast<float*>(buffer.data()); }
  const float* x(std::size_t layer) const { return floats(layer == 0 ? x_ : steps_[layer - 1].y); }

  tensor::Buffer filled(const Values& values) {
    auto buffer = backend_.allocate(values.size() * sizeof(float));
    backend_.copy_from_host(buffer.data(), values.data(), values.size() * sizeof(float));
    return buffer;
  }

  void add(const std::string& name, const LayerSpec& spec, ActivationFormat& format) {
    Step step{name, backend_.layer(spec, format), {}, {}, {}, {}};
    for (const auto& parameter : parameters_of(spec, format.shape)) {
      layout_.add(name + "." + parameter.name, parameter.shape);
      bounds_.push_back(1 / std::sqrt(static_cast<float>(parameter.fan_in)));
    }
    format = step.layer->output();
    step.y = backend_.allocate(format.bytes);
    step.dy = backend_.allocate(format.bytes);
    steps_.push_back(std::move(step));
  }

  void bind_arenas() {
    Values start(layout_.size());
    for (std::size_t i = 0; i < bounds_.size(); ++i) {
      const auto& view = layout_.tensors()[i];
      Values values = random_values(static_cast<std::int64_t>(view.count), i);
      for (std::size_t k = 0; k < view.count; ++k) start[view.offset + k] = bounds_[i] * values[k];
    }
    parameters_ = filled(start);
    gradients_ = backend_.allocate(start.size() * sizeof(float));
    momentum_ = backend_.allocate(start.size() * sizeof(float));
    for (const auto& view : layout_.tensors())
      for (auto& step : steps_)
        if (view.name.starts_with(step.name + ".")) {
          step.parameters.push_back(floats(parameters_) + view.offset);
          step.gradients.push_back(floats(gradients_) + view.offset);
        }
  }

  void backward(std::size_t i, Clock& clock) {
    Step& step = steps_[i];
    clock.time(step.name + " backward weights",
               [&] { step.layer->backward_weights(x(i), floats(step.dy), step.gradients); });
    if (i == 0) return;
    clock.time(step.name + " backward input",
               [&] { step.layer->backward_input(x(i), floats(step.y), floats(step.dy), floats(steps_[i - 1].dy)); });
  }

  Backend& backend_;
  const DeviceValue<SgdStep> sgd_{backend_, {0.01f, 0.9f, 0, false}};
  tensor::ArenaLayout layout_;
  std::vector<float> bounds_;
  std::vector<Step> steps_;
  std::unique_ptr<Loss> loss_;
  tensor::Buffer x_, parameters_, gradients_, momentum_, labels_, totals_;
};

int run(const std::string& name, int steps) {
  auto backend = make_backend({.backend = name});
  LeNet network(*backend);
  Clock clock;
  for (int i = 0; i < 3; ++i) network.step(clock);
  clock.forget();
  for (int i = 0; i < steps; ++i) network.step(clock);
  for (const auto& [part, times] : clock.parts())
    if (clock.median(part) >= 0.005)
      fmt::print("{:24} median {:7.3f} ms, least {:7.3f} ms\n", part, clock.median(part), clock.least(part));
  fmt::print("{}; loss {:.4f}; step_ms={:.3f} (least {:.3f})\n", backend->description(), network.loss(),
             clock.median("total"), clock.least("total"));
  return 0;
}
}  // namespace
}  // namespace distdl::kernels::test

int main(int argc, char** argv) {
  return distdl::kernels::test::run(argc > 1 ? argv[1] : "auto", argc > 2 ? std::atoi(argv[2]) : 20);
}
