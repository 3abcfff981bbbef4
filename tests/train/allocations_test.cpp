// SPDX-License-Identifier: Apache-2.0
// After its first steps a run takes no more memory: no step allocates any, and a thousand of them leave nothing behind.
// This program replaces malloc and its like, to count; sanitizers, which do so too, find leaks by themselves.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <new>
#include <tuple>

#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/kernels/options.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/train/state/state.hpp>

namespace {
/// Allocations by any thread while it counts. The bookkeeping of oneDNN's own executions, which it takes and gives back
/// within a call, and UCX's, which comes now and then, is nobody's to mend here and is counted apart.
struct Count {
  std::atomic<long> ours{0}, of_others{0};
  std::atomic<std::size_t> largest_of_others{0};
};
Count count;
std::atomic<bool> counting{false};
std::array<void*, 48> first_caller{};
std::atomic<int> frames{0};

bool is_other(void* caller) {
  Dl_info info{};
  if (::dladdr(caller, &info) == 0 || !info.dli_fname) return false;
  constexpr std::array kOthers{"libdnnl", "libucs", "libuct", "libucp"};
  return std::any_of(kOthers.begin(), kOthers.end(),
                     [&](const char* name) { return std::strstr(info.dli_fname, name) != nullptr; });
}

void note(void* caller, std::size_t bytes) {
  if (!counting.load(std::memory_order_relaxed)) return;
  if (is_other(caller)) {
    ++count.of_others;
    std::size_t largest = count.largest_of_others;
    while (bytes > largest && !count.largest_of_others.compare_exchange_weak(largest, bytes)) {
    }
  } else if (count.ours.fetch_add(1) == 0) {
    frames = ::backtrace(first_caller.data(), static_cast<int>(first_caller.size()));
  }
}
}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t bytes) {
  note(__builtin_return_address(0), bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t each, std::size_t bytes) {
  note(__builtin_return_address(0), each * bytes);
  return __libc_calloc(each, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  note(__builtin_return_address(0), bytes);
  return __libc_realloc(old, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  note(__builtin_return_address(0), bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note(__builtin_return_address(0), bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, std::size_t alignment, std::size_t bytes) {
  note(__builtin_return_address(0), bytes);
  *result = __libc_memalign(alignment, bytes);
  return *result ? 0 : ENOMEM;
}
}

// The others of the language end in these.
void* operator new(std::size_t bytes) {
  note(__builtin_return_address(0), bytes);
  if (void* memory = __libc_malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  __libc_free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  __libc_free(memory);
}

namespace distdl::train {
namespace {
void begin_counting() {
  (void)::backtrace(first_caller.data(), 1);  // which allocates once
  count.ours = count.of_others = 0;
  count.largest_of_others = 0;
  counting = true;
}

void expect_none(const char* what) {
  counting = false;
  EXPECT_LT(count.largest_of_others, 4096u) << "that is no bookkeeping";
  if (count.ours == 0) return;
  std::unique_ptr<char*, decltype(&std::free)> names(::backtrace_symbols(first_caller.data(), frames), &std::free);
  std::string who;
  for (int i = 0; i < frames; ++i) who += std::string(names.get()[i]) + "\n";
  ADD_FAILURE() << what << " allocates " << count.ours << " times, first by\n" << who;
}

struct Case {
  std::string name;
  model::Options model;
  tensor::Shape sample;
  std::int64_t classes;
};

std::vector<Case> cases() {
  return {{"mlp", {.name = "mlp", .batch_norm = true}, {1, 12, 12}, 10},
          {"lenet", {.name = "lenet"}, {1, 28, 28}, 10},
          {"resnet18", {.name = "resnet18"}, {3, 16, 16}, 10},
          {"gpt",
           {.name = "gpt", .layers = 2, .width = 32, .heads = 4, .context = 16, .vocabulary = 65, .dropout = 0.1},
           {16},
           65},
          {"llama",
           {.name = "gpt", .layers = 2, .width = 32, .heads = 4, .context = 16, .vocabulary = 65, .variant = "llama"},
           {16},
           65},
          {"vit", {.name = "vit", .layers = 2, .width = 32, .heads = 4, .patch = 8}, {3, 32, 32}, 10}};
}

/// The part of a rank that trains.
class Trained {
 public:
  Trained(const Case& what, kernels::Backend& backend, comm::Communicator& communicator, const optim::Options& optim)
      : backend_(backend),
        plan_(parallel::make_plan({.microbatches = 5, .microbatch_size = 4}, communicator.size())),
        range_(plan_.of(communicator.rank())),
        model_(model::describe_model(what.model, what.sample, what.classes)),
        tensors_(model::tensors_of(model_)),
        network_(backend, model_, tensors_, plan_.microbatch_size),
        sum_(backend, communicator, plan_, network_.gradient_count(),
             {.places = network_.places(), .bucket_mib = communicator.size() > 1 ? 1e-3 : 0}),
        optimizer_(optim, tensors_.layout, backend),
        second_(network_.places().end()[-2]) {
    allocate(state_, backend, tensors_.layout, optimizer_.state());
    std::vector<float> start(tensors_.layout.size());
    model::initialize(tensors_, 1, start);
    backend.copy_from_host(state_.parameters.data(), start.data(), state_.parameters.bytes());
    sum_.allocate();
    samples_.resize(static_cast<std::size_t>(plan_.microbatch_size * tensor::element_count(what.sample)), 0);
    labels_.resize(static_cast<std::size_t>(plan_.microbatch_size * network_.terms()), 1);
    network_.load_parameters(state_.parameter_arena());
  }

  void step() {
    for (int m = 0; m < range_.count; ++m) {
      network_.set_batch(samples_.data(), labels_.data());
      backend_.set_rng_key({1, static_cast<std::uint64_t>(m)});
      const auto sum_from = [this](std::size_t place) { sum_.set_final(place); };
      network_.forward_backward(sum_.microbatch_arena(), 0.01f,
                                m + 1 == range_.count ? sum_from : model::Network::Finished());
      sum_.add();
    }
    const float* gradients = sum_.finish();
    optimizer_.prepare(gradients, {1e-3, updates_, updates_, plan_.microbatches});
    network_.change_parameters([this, gradients] {
      optimizer_.apply(state_.arenas(gradients), {second_, tensors_.layout.size()});
      optimizer_.apply(state_.arenas(gradients), {0, second_});
    });
    ++updates_;
  }

 private:
  kernels::Backend& backend_;
  parallel::MicrobatchPlan plan_;
  comm::LeafRange range_;
  model::Description model_;
  model::ModelTensors tensors_;
  model::Network network_;
  parallel::GradientSum sum_;
  optim::Optimizer optimizer_;
  std::size_t second_;  ///< where the second layer begins
  TrainingState state_;
  std::vector<std::uint32_t> samples_;  // zeros: floats as well as tokens
  std::vector<std::int32_t> labels_;
  std::int64_t updates_ = 0;
};

/// A rank that fails does not let the others wait.
class Together {
 public:
  explicit Together(std::barrier<>& ranks) : ranks_(ranks) {}
  ~Together() {
    if (std::uncaught_exceptions() > 0) ranks_.arrive_and_drop();
  }
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;
  void meet() { ranks_.arrive_and_wait(); }

 private:
  std::barrier<>& ranks_;
};

class Steps : public ::testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(Steps, AllocateNothingOnceTheyAreWarm) {
  const Case& what = std::get<0>(GetParam());
  const int ranks = std::get<1>(GetParam());
  try {
    (void)kernels::make_backend({.backend = "onednn"});  // the reference is an oracle, and takes what it likes
  } catch (const ConfigError& error) {
    GTEST_SKIP() << error.what();
  }
  std::barrier<> barrier(ranks);
  world::run_threads(ranks, [&](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      Together together(barrier);
      const auto backend = kernels::make_backend({.backend = "onednn"});
      const bool counts = communicator.rank().value == 0;
      for (const auto& [name, moments, adapts, make] : optim::known_rules()) {
        Trained trained(what, *backend, communicator, {.name = name, .clip_norm = 1, .ema_decay = 0.9});
        for (int i = 0; i < 3; ++i) trained.step();
        together.meet();
        if (counts) begin_counting();
        together.meet();
        trained.step();
        together.meet();
        if (counts) expect_none(name.c_str());
        together.meet();
      }
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Of, Steps, ::testing::Combine(::testing::ValuesIn(cases()), ::testing::Values(1, 2)),
                         [](const auto& each) {
                           return std::get<0>(each.param).name + (std::get<1>(each.param) > 1 ? "_on_two_ranks" : "");
                         });

/// What is allocated, and what the process holds, in bytes.
struct Held {
  std::size_t allocated = 0, resident = 0;
  static Held now() {
    const auto info = ::mallinfo2();
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages >> pages;
    return {info.uordblks + info.hblkhd, pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))};
  }
};

struct Watcher final : records::Observer {
  explicit Watcher(std::filesystem::path checkpoints) : folder(std::move(checkpoints)) {}
  /// Looks just before each save. On a slow disk the one before is awaited, so that none is skipped.
  void on(const records::Record& record) override {
    if (const auto* done = std::get_if<records::StepDone>(&record)) step_done(*done);
  }
  void step_done(const records::StepDone& event) {
    if (event.step.value % 20 != 19) return;
    for (const auto limit = Deadline::after(std::chrono::seconds(20)); !is_saved(event.step) && !limit.expired();)
      std::this_thread::sleep_for(Milliseconds(1));
    if (event.step.value % 100 == 99) held.push_back(Held::now());
  }
  /// A checkpoint that was due while a snapshot was being written follows a few steps later.
  bool is_saved(Step step) const {
    const auto all = checkpoint::list(folder);
    return (all.empty() ? 0 : all.back().step.value) >= step.value / 100 * 100;
  }
  std::filesystem::path folder;
  std::vector<Held> held;
};

TEST_F(Run, AThousandStepsWithTheirSavesLeaveNothingBehind) {
  recipe_.train.steps = 1000;
  recipe_.train.evaluate_every_steps = 50;
  recipe_.train.evaluate_every = 0;
  recipe_.checkpoint.every = 100;
  recipe_.checkpoint.memory_every = 20;
  recipe_.optim.clip_norm = 1;
  Watcher watcher(folder_ / "long");
  world::run_threads(1, [&](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      Setting setting{folder_ / "long", {"local", 0, 0, "long"}, {}, {}};
      Host host;
      EXPECT_EQ(train::run(recipe_, setting, host, communicator, watcher), Outcome::finished);
    });
  });
  ASSERT_EQ(watcher.held.size(), 10u);
  const Held early = watcher.held[2], late = watcher.held.back();
  std::cout << "after 300 and 1000 steps: " << early.allocated << " and " << late.allocated << " bytes allocated, "
            << early.resident << " and " << late.resident << " resident\n";
  EXPECT_LT(late.allocated, early.allocated + (64 << 10));
  EXPECT_LT(late.resident, early.resident + (4 << 20));
}
}  // namespace
}  // namespace distdl::train
