// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <numeric>
#include <stop_token>
#include <thread>

#include <distdl/base/clock.hpp>
#include <distdl/base/median.hpp>
#include <distdl/base/process.hpp>
#include <distdl/comm/schedule.hpp>
#include <distdl/data/source.hpp>
#include <distdl/forecast/measure.hpp>
#include <distdl/forecast/memory.hpp>
#include <distdl/kernels/layer_flops.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/optimizer.hpp>

namespace distdl::forecast {
namespace {
constexpr double kLongEnough = 2;  ///< seconds
constexpr int kWarmUp = 2, kLeastRounds = 5, kMostRounds = 200;

double slowest(comm::Communicator& communicator, double value) {
  communicator.all_reduce(comm::Vector(&value, 1, comm::DataType::float64), {.reduction = comm::Reduction::maximum})
      .wait();
  return value;
}

/// Seconds of the parts of steps, one entry for each time.
struct Samples {
  std::vector<double> forward, backward, add, update, load, read;
  std::vector<std::vector<double>> finals;  ///< seconds for each place
};

/// Steps of two microbatches on memory of their own.
class WorkBench {
 public:
  WorkBench(const train::Recipe& recipe, const Workload& work, kernels::Backend& backend)
      : backend_(backend),
        sources_(data::open_sources(recipe.data, recipe.model.context, static_cast<std::uint64_t>(recipe.train.seed))),
        network_(backend, work.model, work.tensors, recipe.parallel.microbatch_size),
        optimizer_(recipe.optim, work.tensors.layout, backend),
        places_(network_.places()),
        picks_(static_cast<std::size_t>(recipe.parallel.microbatch_size)) {
    const std::size_t bytes = work.tensors.layout.size() * sizeof(float);
    parameters_ = backend.allocate(bytes);
    model::initialize(work.tensors, 1, parameters_.as<float>());
    for (auto& arena : gradients_) arena = backend.allocate(network_.gradient_count() * sizeof(float));
    for (const auto& what : optimizer_.state()) state_.emplace_back(what, backend.allocate(bytes));
    network_.load_parameters(parameters_.as<float>().data());
    samples_.finals.resize(places_.size());
    counted_ = static_cast<double>(bytes * (1 + state_.size()) + 2 * network_.gradient_count() * sizeof(float));
  }

  void round(bool counts) {
    for (int i = 0; i < 2; ++i) microbatch(i, counts);
    const auto note = [&](std::vector<double> Samples::*part, const std::function<void()>& work) {
      const Stopwatch watch;
      work();
      if (counts) (samples_.*part).push_back(watch.seconds());
    };
    float* const gradients = gradients_[0].as<float>().data();
    note(&Samples::add, [&] { backend_.add(gradients, gradients_[1].as<float>().data(), network_.gradient_count()); });
    note(&Samples::update, [&] { update(gradients); });
    note(&Samples::load, [&] { network_.load_parameters(parameters_.as<float>().data()); });
  }

  const Samples& samples() const { return samples_; }
  const std::vector<std::size_t>& places() const { return places_; }
  /// Bytes of parameters, gradients and moments.
  double counted_bytes() const { return counted_; }

 private:
  void microbatch(int number, bool counts) {
    const Stopwatch reading;
    for (auto& pick : picks_) pick.index = next_++ % sources_.training->samples();
    sources_.training->read(picks_, batch_);
    const double read = reading.seconds();
    const Stopwatch watch;
    double begun = 0;
    std::size_t place = 0;
    network_.set_batch(batch_.samples(), batch_.wanted());
    network_.forward_backward(gradients_[number].as<float>().data(), 1e-3F, [&](std::size_t) {
      if (place == 0) begun = watch.seconds();
      if (counts) samples_.finals[place].push_back(watch.seconds() - begun);
      ++place;
    });
    if (!counts) return;
    samples_.read.push_back(read);
    samples_.forward.push_back(begun);
    samples_.backward.push_back(watch.seconds() - begun);
  }

  void update(const float* gradients) {
    optim::Arenas arenas{.parameters = parameters_.as<float>().data(), .gradients = gradients};
    std::size_t moments = 0;
    for (const auto& [what, memory] : state_)
      (what.kind == optim::StateArena::Kind::average ? arenas.average : arenas.moments.at(moments++)) =
          memory.as<float>().data();
    optimizer_.prepare(gradients, {.rate = 1e-6, .updates = updates_++});
    optimizer_.apply(arenas);
  }

  kernels::Backend& backend_;
  data::Sources sources_;
  model::Network network_;
  optim::Optimizer optimizer_;
  std::vector<std::size_t> places_;
  std::vector<data::Source::Pick> picks_;
  data::Batch batch_;
  tensor::Buffer parameters_;
  std::array<tensor::Buffer, 2> gradients_;
  std::vector<std::pair<optim::StateArena, tensor::Buffer>> state_;
  std::int64_t next_ = 0, updates_ = 0;
  Samples samples_;
  double counted_ = 0;
};

/// Leaves out a tenth at either end, which other processes have disturbed.
double spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto cut = static_cast<std::ptrdiff_t>(values.size() / 10);
  const std::vector<double> kept(values.begin() + cut, values.end() - cut);
  const double mean = std::accumulate(kept.begin(), kept.end(), 0.0) / static_cast<double>(kept.size());
  double squares = 0;
  for (const double value : kept) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(kept.size())) / mean;
}

/// Longer passes have so many places that not all are worth keeping.
std::vector<FinalGradients> finals_of(const WorkBench& bench, comm::Communicator& communicator) {
  constexpr std::size_t kMostPlaces = 200;
  const auto& places = bench.places();
  const std::size_t every = places.size() / kMostPlaces + 1;
  std::vector<FinalGradients> finals;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (i % every == 0 || i + 1 == places.size())
      finals.push_back({places[i], slowest(communicator, median(bench.samples().finals[i]))});
  return finals;
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
}  // namespace

MeasuredWork measure_work(const train::Recipe& recipe, const Workload& work, kernels::Backend& backend,
                          comm::Communicator& communicator) {
  MeasuredWork measured;
  const double counted =
      make_dry_network(recipe.kernels, work.model, work.tensors, {.samples = recipe.parallel.microbatch_size}).bytes;
  give_back_freed_memory();
  const double before = resident_bytes();
  WorkBench bench(recipe, work, backend);
  const Stopwatch watch;
  for (int i = 0; i < kWarmUp + kMostRounds; ++i) {
    const bool enough = slowest(communicator, watch.seconds()) > kLongEnough;  // also makes all begin together
    if (enough && i >= kWarmUp + kLeastRounds) break;
    bench.round(i >= kWarmUp);
  }
  const auto& samples = bench.samples();
  const auto part = [&](const std::vector<double>& values) { return slowest(communicator, median(values)); };
  measured.identity = identity_of_work(recipe, work);
  measured.ranks = static_cast<int>(communicator.ranks_on_host_of(communicator.rank()).size());
  measured.processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));  // by its affinity
  measured.flops = forward_flops(work.model, recipe.parallel.microbatch_size);
  measured.read = part(samples.read);
  measured.work = {part(samples.forward),
                   part(samples.backward),
                   finals_of(bench, communicator),
                   part(samples.add),
                   part(samples.update),
                   part(samples.load),
                   0,
                   part({spread_of(samples.backward)})};
  measured.program_bytes = slowest(communicator, std::max(before, resident_bytes() - counted - bench.counted_bytes()));
  return measured;
}

double measure_product(kernels::Backend& backend, std::int64_t size, double seconds) {
  const auto cells = static_cast<std::size_t>(size * size);
  const auto input = kernels::dense({size, size}, backend.activation_type());
  auto layer = backend.layer(kernels::Linear{.out = size, .bias = false}, input);
  const auto weight = backend.allocate(cells * sizeof(float));
  const auto x = backend.allocate(input.bytes), y = backend.allocate(layer->output().bytes);
  backend.fill(static_cast<float*>(weight.data()), cells, 0.5f);
  const float* weights[] = {static_cast<const float*>(weight.data())};
  layer->load_parameters(weights);
  double least = 0, sum = 0;
  for (int i = 0; i < 2 || sum < seconds; ++i) {
    const Stopwatch watch;
    layer->forward(x.data(), y.data(), kernels::Phase::evaluation);
    float one = 0;
    backend.copy_to_host(&one, y.data(), sizeof one);  // this waits for a GPU
    const double taken = watch.seconds();
    sum += taken;
    if (i > 0) least = i == 1 ? taken : std::min(least, taken);  // the first one prepares
  }
  return kernels::flops_of(kernels::Linear{.out = size}, {size, size}).forward / least;
}

MeasuredPeak measure_peak(kernels::Backend& backend, comm::Communicator& communicator) {
  constexpr double kSeconds = 0.2, kLongest = 1;
  const std::int64_t first = backend.memory_is_host() ? 512 : 4096;
  communicator.barrier().wait();
  double best = 0;
  for (std::int64_t size = first; size <= 4 * first; size *= 2) {
    const double flops = kernels::flops_of(kernels::Linear{.out = size}, {size, size}).forward;
    if (best > 0 && flops / best > kLongest) break;  // so slow that nothing is lost
    best = std::max(best, measure_product(backend, size, kSeconds));
  }
  communicator.all_reduce(comm::Vector(&best, 1, comm::DataType::float64), {.reduction = comm::Reduction::average})
      .wait();
  return {static_cast<int>(communicator.ranks_on_host_of(communicator.rank()).size()), best};
}

std::optional<double> measure_busy_per_byte(comm::Communicator& communicator) {
  constexpr std::size_t kBytes = 4 << 20;
  constexpr int kSums = 8;
  if (communicator.ranks_on_host_of(communicator.rank()).size() == static_cast<std::size_t>(communicator.size()))
    return std::nullopt;
  const auto memory = communicator.allocate(kBytes);
  const comm::Vector values(memory.data(), kBytes / sizeof(float), comm::DataType::float32);
  const std::stop_source never;
  communicator.all_reduce(values).wait(never.get_token());
  const double before = processor_seconds();
  for (int i = 0; i < kSums; ++i) communicator.all_reduce(values).wait(never.get_token());
  return slowest(communicator, (processor_seconds() - before) / kSums / static_cast<double>(kBytes));
}

std::optional<double> measure_nap(comm::Communicator& communicator) {
  constexpr int kSums = 20;
  constexpr std::size_t kFloats = std::size_t{1} << 18;
  constexpr double kWaits = kFloats * sizeof(float) / (comm::kSharedBytes / 2.0) + 2;  // through the shared areas
  if (communicator.ranks_on_host_of(communicator.rank()).size() != static_cast<std::size_t>(communicator.size()) ||
      communicator.size() == 1)
    return std::nullopt;
  std::vector<float> values(kFloats);
  const std::stop_source never;
  const auto seconds_with = [&](const std::stop_token& stop) {
    communicator.barrier().wait();
    const Stopwatch watch;
    for (int i = 0; i < kSums; ++i) communicator.all_reduce(comm::Vector(std::span(values))).wait(stop);
    return watch.seconds() / kSums / kWaits;
  };
  seconds_with({});
  const double awake = seconds_with({}), asleep = seconds_with(never.get_token());
  return slowest(communicator, std::max(0.0, asleep - awake));
}

double measure_touch_per_byte() {
  constexpr std::size_t kBytes = 32 << 20;
  const auto memory = tensor::reserve_host(kBytes);
  const auto seconds_of = [&] {
    const Stopwatch watch;
    std::ranges::fill(memory.as<std::byte>(), std::byte{1});
    return watch.seconds();
  };
  seconds_of();
  const double kept = seconds_of();
  const Stopwatch watch;
  tensor::discard(memory.as<std::byte>());
  seconds_of();
  return std::max(0.0, watch.seconds() - kept) / kBytes;
}

}  // namespace distdl::forecast
