// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/bench/bench_calibrate.hpp>
#include <distdl/app/bench/bench_checkpoint.hpp>
#include <distdl/app/bench/bench_comm.hpp>
#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/ranks/local_ranks.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/median.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/model/flops.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/network.hpp>
#include <distdl/model/tensor_shards.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/compression/gradient_compression.hpp>

namespace distdl::app {
namespace {
struct Arguments {
  LocalRanks local;
  kernels::Options kernels;
  std::string model = "lenet", precision = "fp32";
  std::int64_t batch = 64, steps = 20, tensor_shards = 1;
  double bucket_mib = 0;
  parallel::Options parallel;  ///< options of the compression
  std::string compression = "none";
  bool recomputes = false, json = false;
};

/// The sizes at which models are compared with those of others.
struct Case {
  model::Options options;
  tensor::Shape sample;
  std::int64_t classes;
  std::string optimizer = "sgd";
};
Case case_of(const std::string& name) {
  // 124 million parameters; the table's rows are filled up to a multiple of 128, as is usual for it.
  if (name == "gpt2") return {{.name = "gpt", .vocabulary = 50304}, {1024}, 50304, "adamw"};
  if (name == "resnet50-224") return {{.name = "resnet50"}, {3, 224, 224}, 1000};
  if (name == "gpt")
    return {{.name = name, .layers = 4, .width = 256, .heads = 4, .context = 256, .gelu = "erf", .tied_head = false},
            {256},
            256};
  if (name == "gpt-768") return {{.name = "gpt", .layers = 4, .context = 256, .gelu = "erf"}, {256}, 256};
  if (name == "gpt-llama")
    return {{.name = "gpt",
             .layers = 4,
             .width = 256,
             .heads = 4,
             .kv_heads = 2,
             .context = 256,
             .variant = model::GptVariant::llama,
             .tied_head = false},
            {256},
            256};
  if (name == "vit") return {{.name = name, .layers = 12, .width = 192, .heads = 3, .patch = 4}, {3, 32, 32}, 10};
  if (name.starts_with("resnet")) return {{.name = name}, {3, 32, 32}, 10};
  return {{.name = name}, {1, 28, 28}, 10};
}

/// Training steps on random input: the same work as a run, without data set and checkpoints. Each rank has a batch of
/// its own, and their gradients are summed.
class TrainBench {
 public:
  TrainBench(const Arguments& arguments, comm::Communicator& communicator)
      : backend_(kernels::make_backend(arguments.kernels)),
        case_(case_of(arguments.model)),
        batch_(arguments.batch),
        model_(
            model::divide(model::describe_model(case_.options, case_.sample, case_.classes), arguments.tensor_shards)),
        tensors_(model::tensors_of(model_)),
        network_(*backend_, model_, tensors_, arguments.batch,
                 arguments.recomputes ? model::Network::Activations::recomputed : model::Network::Activations::kept),
        sum_(*backend_, communicator,
             parallel::make_plan({.microbatches = communicator.size(), .microbatch_size = arguments.batch},
                                 communicator.size()),
             network_.gradient_count(),
             {.places = backend_->memory_is_host() ? network_.places() : std::vector<std::size_t>(),
              .bucket_mib = arguments.bucket_mib}),
        optim_{.name = case_.optimizer},
        optimizer_(optim_, tensors_.layout, *backend_),
        parameters_(backend_->allocate(tensors_.layout.size() * sizeof(float))),
        samples_(static_cast<std::size_t>(arguments.batch * tensor::element_count(case_.sample))),
        labels_(static_cast<std::size_t>(arguments.batch * network_.terms())),
        scale_(1.0f / static_cast<float>(labels_.size() * static_cast<std::size_t>(communicator.size()))) {
    if (arguments.parallel.compression.is_on())
      compression_.emplace(arguments.parallel, optim_,
                           train::GradientCompression::Sums{communicator, communicator, tensors_.layout,
                                                            tensors_.layout, sum_.buckets()},
                           *backend_, true);
    sum_.allocate({.compressed = compression_ ? &compression_->sum() : nullptr});
    if (compression_) compression_->allocate(state_);
    const auto classes = static_cast<std::uint32_t>(case_.classes);
    for (std::size_t i = 0; i < optimizer_.state().size(); ++i)
      moments_.push_back(backend_->allocate(tensors_.layout.size() * sizeof(float)));
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

  /// Seconds of a step, and of its parts; the backward pass is measured on a CPU only.
  struct Times {
    double step = 0, backward = 0, sum = 0, waited = 0;
  };
  Times step() {
    Times times;
    const Stopwatch watch;
    double forward = 0;
    network_.set_batch(samples_.data(), labels_.data());
    const auto sum_from = [&](std::size_t place) {
      if (forward == 0) forward = watch.seconds();
      sum_.set_final(place);
    };
    network_.forward_backward(sum_.microbatch_arena(), scale_, std::ref(sum_from));
    sum_.add();
    if (forward > 0) times.backward = watch.seconds() - forward;
    update(times.waited);
    float loss;  // reading it back waits for the device
    backend_->copy_to_host(&loss, sum_.result() + tensors_.layout.size(), sizeof loss);
    times.step = watch.seconds();
    times.sum = sum_.seconds();
    if (compression_) compression_->step_done(times.sum, times.waited);
    return times;
  }

  std::string backend() const { return backend_->description(); }
  /// Compression of the gradients that is in use at the end.
  std::string compression() const { return compression_ ? compression_->in_use() : "none"; }
  double activation_mib() const { return static_cast<double>(network_.activation_bytes()) / (1 << 20); }
  /// FLOPs of a sample, as kernels::flops_of() counts them; the second number includes what is computed again.
  std::pair<double, double> flops() const {
    const double model = model::flops_of(model_, 1).total();
    return {model, model + network_.repeated_flops() / static_cast<double>(batch_)};
  }
  /// Number of the loss's terms in a sample: tokens, or 1.
  std::int64_t terms() const { return network_.terms(); }

 private:
  const parallel::Bucket* next_sum(double& waited) {
    const Stopwatch watch;
    const auto* const bucket = sum_.next_sum();
    waited += watch.seconds();
    return bucket;
  }

  /// Updates the parameters of each bucket as soon as it is summed.
  void update(double& waited) {
    optim::Arenas arenas{.parameters = floats(parameters_), .gradients = sum_.result()};
    std::transform(moments_.begin(), moments_.end(), arenas.moments.begin(), &floats);
    optimizer_.prepare(arenas.gradients, {.rate = case_.optimizer == "adamw" ? 1e-4 : 0.01, .updates = updates_++});
    while (!sum_.is_divided() && next_sum(waited) != nullptr) {
    }
    network_.change_parameters([&] {
      if (!sum_.is_divided()) return optimizer_.apply(arenas);
      while (const auto* const bucket = next_sum(waited)) optimizer_.apply(arenas, {bucket->first, bucket->end});
    });
  }

  static float* floats(const tensor::Buffer& buffer) { return static_cast<float*>(buffer.data()); }

  std::unique_ptr<kernels::Backend> backend_;
  Case case_;
  std::int64_t batch_;
  model::Description model_;
  model::ModelTensors tensors_;
  model::Network network_;
  train::TrainingState state_;                             ///< state of the compression
  std::optional<train::GradientCompression> compression_;  ///< none: sums are exact
  parallel::GradientSum sum_;
  optim::Options optim_;
  optim::Optimizer optimizer_;
  tensor::Buffer parameters_;
  std::vector<tensor::Buffer> moments_;
  std::int64_t updates_ = 0;
  std::vector<std::uint32_t> samples_;  // floats or tokens
  std::vector<std::int32_t> labels_;
  float scale_;  ///< factor of the loss: one over the terms of all ranks
};

void check(const Arguments& arguments) {
  require<UsageError>(arguments.batch >= 1 && arguments.steps >= 1, "{}", "--batch and --steps must be at least 1");
  require<UsageError>(
      !arguments.local.local || arguments.kernels.threads == 1,
      "--threads {}: each rank of --local has one processor; use --threads 1, or start the ranks with srun",
      arguments.kernels.threads);
}

/// Rank 0 prints its own times: each step ends for all ranks when their gradients are summed.
void bench_train(const Arguments& arguments, comm::Communicator& communicator) {
  constexpr std::int64_t kWarmUp = 2;  // steps
  const bool is_first = communicator.rank() == Rank(0);
  std::optional<WorkProgress> progress;
  if (is_first && !arguments.json)
    progress.emplace("timing " + printable(arguments.model), WorkUnit::rounds,
                     static_cast<std::uint64_t>(kWarmUp + arguments.steps));
  TrainBench bench(arguments, communicator);
  const auto timed_step = [&] {
    const auto seconds = bench.step();
    if (is_first) work_done(WorkUnit::rounds, 1);
    return seconds;
  };
  for (std::int64_t i = 0; i < kWarmUp; ++i) timed_step();
  std::vector<TrainBench::Times> times;
  for (std::int64_t i = 0; i < arguments.steps; ++i) times.push_back(timed_step());
  progress.reset();  // the result takes its place
  if (!is_first) return;
  const auto sorted = [&](double TrainBench::Times::*part) {
    std::vector<double> seconds;
    seconds.reserve(times.size());
    for (const auto& each : times) seconds.push_back(each.*part);
    std::sort(seconds.begin(), seconds.end());
    return seconds;
  };
  const std::vector<double> seconds = sorted(&TrainBench::Times::step);
  const double step_s = median(seconds);
  const double peak_mib = peak_resident_bytes() / (1 << 20);
  double samples_per_s = static_cast<double>(arguments.batch * communicator.size()) / step_s;
  if (arguments.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"model", arguments.model},
                                              {"backend", bench.backend()},
                                              {"ranks", communicator.size()},
                                              {"precision", arguments.kernels.precision.name()},
                                              {"threads", arguments.kernels.threads},
                                              {"tensor_shards", arguments.tensor_shards},
                                              {"batch", arguments.batch},
                                              {"steps", arguments.steps},
                                              {"compression", bench.compression()},
                                              {"step_ms", step_s * 1e3},
                                              {"step_ms_min", seconds.front() * 1e3},
                                              {"step_ms_max", seconds.back() * 1e3},
                                              {"backward_ms", median(sorted(&TrainBench::Times::backward)) * 1e3},
                                              {"sum_ms", median(sorted(&TrainBench::Times::sum)) * 1e3},
                                              {"sum_waited_ms", median(sorted(&TrainBench::Times::waited)) * 1e3},
                                              {"flops_per_sample", bench.flops().first},
                                              {"hardware_flops_per_sample", bench.flops().second},
                                              {"samples_per_s", samples_per_s},
                                              {"terms_per_s", samples_per_s * static_cast<double>(bench.terms())},
                                              {"activation_mib", bench.activation_mib()},
                                              {"peak_mib", peak_mib}}
                           .dump(2));
  else
    fmt::print(
        "{} on {}, batch {}{}: median step {:.2f} ms (of {}: {:.2f} to {:.2f}), {:.0f} samples/s, peak memory {:.0f} "
        "MiB\n",
        arguments.model, bench.backend(), arguments.batch,
        communicator.size() > 1 ? fmt::format(" on each of {} ranks", communicator.size()) : "", step_s * 1e3,
        arguments.steps, seconds.front() * 1e3, seconds.back() * 1e3, samples_per_s, peak_mib);
}
}  // namespace

void add_bench_command(Command app) {
  auto bench = app.add_subcommand("bench", "Measure parts of distdl on this machine");
  bench.require_subcommand();
  auto command = bench.add_subcommand("train", "Time training steps on random input");
  auto arguments = std::make_shared<Arguments>();
  arguments->local.add_to(command);
  command
      .add_option("--model", arguments->model,
                  "lenet or mlp (of 1 x 28 x 28), resnet18, resnet34, resnet50 or vit (3 x 32 x 32), gpt (256 tokens), "
                  "gpt-768 (of that width, 256 tokens), gpt-llama (as gpt, with model.variant \"llama\" and 2 heads of "
                  "keys and values for 4); of the published sizes: resnet50-224 (3 x 224 x 224), gpt2 (124M "
                  "parameters, 1024 tokens)")
      .show_default();
  command.add_option("--backend", arguments->kernels.backend, "reference, onednn, cuda or auto").show_default();
  command.add_option("--precision", arguments->precision, "fp32, bf16, fp16 or (on GPUs) tf32").show_default();
  command.add_flag("!--no-replay", arguments->kernels.replay, "Do not record and replay steps (CUDA graphs)");
  command.add_flag("!--no-deterministic", arguments->kernels.deterministic,
                   "On a GPU, let cuDNN choose the fastest algorithms by its own estimate");
  command.add_option("--threads", arguments->kernels.threads, "CPU threads").positive().show_default();
  command.add_option("--batch", arguments->batch, "Samples per rank and step").positive().show_default();
  command.add_option("--steps", arguments->steps, "Steps to time, after two warm-up steps").positive().show_default();
  command.add_option("--tensor-shards", arguments->tensor_shards, "Same as parallel.tensor_shards")
      .positive()
      .show_default();
  command.add_option("--bucket-mib", arguments->bucket_mib, "Same as parallel.bucket_mib")
      .not_negative()
      .show_default();
  command.add_option("--compression", arguments->compression, "Same as parallel.compression").show_default();
  command.add_option("--compression-fraction", arguments->parallel.compression.fraction,
                     "Same as parallel.compression_fraction");
  command.add_option("--compression-rank", arguments->parallel.compression.rank, "Same as parallel.compression_rank");
  command.add_flag("--recompute", arguments->recomputes, "As parallel.recompute = \"blocks\"");
  command.add_flag("--json", arguments->json, "Print JSON");
  command.examples(
      {{"distdl bench train --model resnet18 --batch 32", "Time steps of a model"},
       {"distdl bench train --model mlp --local -n 2 --threads 1", "Time steps of 2 ranks with their sums"}});
  command.callback([arguments] {
    arguments->kernels.precision = arguments->precision;
    arguments->parallel.compression.encoding = arguments->compression;
    arguments->local.run([&] { check(*arguments); },
                         [&](comm::Communicator& communicator) { bench_train(*arguments, communicator); });
  });
  add_bench_calibrate(bench);
  add_bench_checkpoint(bench);
  add_bench_comm(bench);
}

}  // namespace distdl::app
