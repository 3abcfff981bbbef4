// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <distdl/app/bench_checkpoint.hpp>
#include <distdl/app/bench_comm.hpp>
#include <distdl/app/commands.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/optimizer.hpp>

namespace distdl::app {
namespace {
struct Arguments {
  std::string model = "lenet", backend = "auto";
  std::int64_t threads = 1, batch = 64, steps = 20;
  bool json = false;
};

/// The sizes at which models are compared with those of others.
struct Case {
  model::Options options;
  tensor::Shape sample;
  std::int64_t classes;
};
Case case_of(const std::string& name) {
  if (name == "gpt")
    return {{.name = name, .layers = 4, .width = 256, .heads = 4, .context = 256, .gelu = "erf", .tied_head = false},
            {256},
            256};
  if (name == "vit") return {{.name = name, .layers = 12, .width = 192, .heads = 3, .patch = 4}, {3, 32, 32}, 10};
  if (name.starts_with("resnet")) return {{.name = name}, {3, 32, 32}, 10};
  return {{.name = name}, {1, 28, 28}, 10};
}

/// A training step of one rank on random input: the same work as a run, without data set and communication.
class TrainBench {
 public:
  explicit TrainBench(const Arguments& arguments)
      : backend_(kernels::make_backend({.backend = arguments.backend, .threads = arguments.threads})),
        case_(case_of(arguments.model)),
        model_(model::describe_model(case_.options, case_.sample, case_.classes)),
        tensors_(model::tensors_of(model_)),
        network_(*backend_, model_, tensors_, arguments.batch),
        optimizer_({}, tensors_.layout, *backend_),
        parameters_(backend_->allocate(tensors_.layout.size() * sizeof(float))),
        momentum_(backend_->allocate(tensors_.layout.size() * sizeof(float))),
        gradients_(backend_->allocate(network_.gradient_count() * sizeof(float))),
        samples_(static_cast<std::size_t>(arguments.batch * tensor::element_count(case_.sample))),
        labels_(static_cast<std::size_t>(arguments.batch * network_.terms())) {
    const auto classes = static_cast<std::uint32_t>(case_.classes);
    const bool tokens = case_.sample.size() == 1;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const std::uint32_t bits = Philox::block(1, 0, i)[0];
      samples_[i] = tokens ? bits % classes : std::bit_cast<std::uint32_t>(2 * Philox::uniform(bits) - 1);
    }
    for (std::size_t i = 0; i < labels_.size(); ++i)
      labels_[i] = static_cast<std::int32_t>(Philox::block(1, 1, i)[0] % classes);
    tensor::Buffer start = tensor::allocate_host(parameters_.bytes());
    model::initialize(tensors_, 1, start.as<float>());
    backend_->copy_from_host(parameters_.data(), start.data(), start.bytes());
    network_.load_parameters(floats(parameters_));
  }

  double step() {
    Stopwatch watch;
    network_.set_batch(samples_.data(), labels_.data());
    network_.forward_backward(floats(gradients_), 1.0f / static_cast<float>(labels_.size()));
    optimizer_.update({floats(parameters_), {floats(momentum_)}, nullptr, floats(gradients_)}, {.rate = 0.01});
    network_.load_parameters(floats(parameters_));
    float loss;  // reading it back waits for the device
    backend_->copy_to_host(&loss, floats(gradients_) + tensors_.layout.size(), sizeof loss);
    return watch.seconds();
  }

  std::string backend() const { return backend_->description(); }

 private:
  static float* floats(const tensor::Buffer& buffer) { return static_cast<float*>(buffer.data()); }

  std::unique_ptr<kernels::Backend> backend_;
  Case case_;
  model::Description model_;
  model::ModelTensors tensors_;
  model::Network network_;
  optim::Optimizer optimizer_;
  tensor::Buffer parameters_, momentum_, gradients_;
  std::vector<std::uint32_t> samples_;  // floats or tokens
  std::vector<std::int32_t> labels_;
};

void bench_train(const Arguments& arguments) {
  require<UsageError>(arguments.batch >= 1 && arguments.steps >= 1, "{}", "--batch and --steps must be at least 1");
  TrainBench bench(arguments);
  for (int i = 0; i < 2; ++i) bench.step();
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < arguments.steps; ++i) seconds.push_back(bench.step());
  std::sort(seconds.begin(), seconds.end());
  double median = seconds[seconds.size() / 2];
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-union-access): so glibc declares rusage
  double peak_mib = static_cast<double>(usage.ru_maxrss) / 1024;
  double samples_per_s = static_cast<double>(arguments.batch) / median;
  if (arguments.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"model", arguments.model},
                                              {"backend", bench.backend()},
                                              {"threads", arguments.threads},
                                              {"batch", arguments.batch},
                                              {"steps", arguments.steps},
                                              {"step_ms", median * 1e3},
                                              {"step_ms_min", seconds.front() * 1e3},
                                              {"step_ms_max", seconds.back() * 1e3},
                                              {"samples_per_s", samples_per_s},
                                              {"peak_mib", peak_mib}}
                           .dump(2));
  else
    fmt::print(
        "{} on {}, batch {}: median step {:.2f} ms (of {}: {:.2f} to {:.2f}), {:.0f} samples/s, peak memory {:.0f} "
        "MiB\n",
        arguments.model, bench.backend(), arguments.batch, median * 1e3, arguments.steps, seconds.front() * 1e3,
        seconds.back() * 1e3, samples_per_s, peak_mib);
}
}  // namespace

void add_bench_command(CLI::App& app) {
  auto* bench = app.add_subcommand("bench", "Measure parts of distdl on this machine");
  bench->require_subcommand(1);
  auto* command = bench->add_subcommand("train", "Time training steps of one rank on random input");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("--model", arguments->model,
                   "lenet or mlp (of 1 x 28 x 28), resnet18, resnet34, resnet50 or vit (3 x 32 x 32), gpt (256 tokens)")
      ->capture_default_str();
  command->add_option("--backend", arguments->backend, "reference, onednn, cuda or auto")->capture_default_str();
  command->add_option("--threads", arguments->threads, "CPU threads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--batch", arguments->batch, "Samples per step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--steps", arguments->steps, "Steps to time, after two to warm up")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { bench_train(*arguments); });
  add_bench_checkpoint(*bench);
  add_bench_comm(*bench);
}

}  // namespace distdl::app
