// SPDX-License-Identifier: Apache-2.0
// Checkpoints that fit a model in part.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/model/models.hpp>
#include <distdl/train/state/state.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::train {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kBatch = 32;

/// One model's state with its checkpointer, as a rank has them.
struct Side {
  Side(const model::Options& options, comm::Communicator& communicator, groups::CommunicatorGroup& group,
       checkpoint::Store& store)
      : backend(kernels::make_backend({.backend = "reference"})),
        tensors(model::tensors_of(model::describe_model(options, {1, 6, 6}, 4))),
        checkpointer(*backend, communicator, group, store, tensors, {}) {
    allocate(state, *backend, tensors.layout, {{"momentum", optim::StateArena::Kind::moment}});
  }
  std::span<float> values(const tensor::Buffer& arena) const {
    return {static_cast<float*>(arena.data()), tensors.layout.size()};
  }
  const tensor::Buffer& momentum() const { return state.optimizer.at(0).memory; }
  /// The values of one tensor.
  std::vector<float> of(const tensor::Buffer& arena, const std::string& name) const {
    for (const auto& tensor : tensors.tensors)
      if (tensor.view.name == name) {
        auto part = values(arena).subspan(tensor.view.offset, tensor.view.count);
        return {part.begin(), part.end()};
      }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }

  std::unique_ptr<kernels::Backend> backend;
  model::ModelTensors tensors;
  StateCheckpointer checkpointer;
  TrainingState state;
};

/// Counts the bytes that are read.
class CountingFiles final : public FileSystem {
 public:
  ssize_t pread(int descriptor, std::byte* data, std::size_t bytes, off_t offset) override {
    const ssize_t count = FileSystem::pread(descriptor, data, bytes, offset);
    if (count > 0) read += static_cast<std::size_t>(count);
    return count;
  }
  std::atomic<std::size_t> read{0};
};

StartValues start_values() {
  return {[](std::span<float> arena) { std::fill(arena.begin(), arena.end(), 0.25f); }, kBatch};
}

class Partial : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("partial_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Two ranks each save a state of `saved` with the values 1, 2, ... and restore it into one of `wanted`.
  /// The error, if there was one.
  std::string carry(const model::Options& saved, const model::Options& wanted, bool partial,
                    const std::function<void(const Side&, const Side&)>& look) {
    std::string message;
    world::run_threads(2, [&](world::World& world) {
      comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
        groups::CommunicatorGroup group(communicator, 20);
        checkpoint::Store store(folder_, {});
        store.take(group, {"local", 0, 0, "test"});
        Side before(saved, communicator, group, store), after(wanted, communicator, group, store);
        std::iota(before.values(before.state.parameters).begin(), before.values(before.state.parameters).end(), 1.0f);
        std::iota(before.values(before.momentum()).begin(), before.values(before.momentum()).end(), 1e6f);
        before.state.step = Step(7);
        before.state.position = 777;
        const auto part = before.checkpointer.part_of(before.state);
        store.save(group, before.state.step, part.slices, part.state);
        auto fallback = start_values();
        try {
          EXPECT_TRUE(after.checkpointer.restore(after.state, nullptr, partial ? &fallback : nullptr));
          look(before, after);
        } catch (const Error& error) {
          EXPECT_EQ(error.exit_code(), ExitCode::incompatible);
          if (world.rank() == Rank(0)) message = error.what();
        }
      });
    });
    return message;
  }
  static void nothing(const Side&, const Side&) {}

  std::filesystem::path folder_;
  model::Options plain_{.name = "mlp", .hidden = {8}, .batch_norm = false};
  model::Options with_norm_{.name = "mlp", .hidden = {8}, .batch_norm = true};
  model::Options wider_{.name = "mlp", .hidden = {9}, .batch_norm = false};
};

TEST_F(Partial, AnAddedLayerIsRefusedByNameUnlessAskedFor) {
  auto message = carry(plain_, with_norm_, false, nothing);
  EXPECT_THAT(message, AllOf(HasSubstr("it lacks momentum/fc1_norm."), HasSubstr("--partial"), HasSubstr("step-")));
}

TEST_F(Partial, AnAddedLayerBeginsAfreshAndTheRestIsLoaded) {
  EXPECT_EQ(carry(plain_, with_norm_, true,
                  [](const Side& before, const Side& after) {
                    for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}) {
                      EXPECT_EQ(after.of(after.state.parameters, name), before.of(before.state.parameters, name));
                      EXPECT_EQ(after.of(after.momentum(), name), before.of(before.momentum(), name));
                    }
                    EXPECT_THAT(after.of(after.state.parameters, "fc1_norm.weight"), ::testing::Each(0.25f));
                    EXPECT_THAT(after.of(after.momentum(), "fc1_norm.weight"), ::testing::Each(0.0f));
                    EXPECT_EQ(after.state.step, Step(7));
                    EXPECT_EQ(after.state.position, 777);
                  }),
            "");
}

TEST_F(Partial, ARemovedLayerIsIgnoredWhenAskedFor) {
  auto message = carry(with_norm_, plain_, false, nothing);
  EXPECT_THAT(message,
              AllOf(HasSubstr("fc1_norm."), HasSubstr("which the model does not have"), HasSubstr("--partial")));
  EXPECT_EQ(carry(with_norm_, plain_, true,
                  [](const Side& before, const Side& after) {
                    EXPECT_EQ(after.of(after.state.parameters, "fc2.weight"),
                              before.of(before.state.parameters, "fc2.weight"));
                  }),
            "");
}

TEST_F(Partial, AnotherShapeIsAlwaysRefused) {
  for (bool partial : {false, true}) {
    auto message = carry(plain_, wider_, partial, nothing);
    EXPECT_THAT(message,
                AllOf(HasSubstr("parameter/fc1.weight"), HasSubstr("in the model"), Not(HasSubstr("--partial"))));
  }
}

TEST_F(Partial, TensorsAreReadOnce) {
  CountingFiles files;
  world::run_threads(1, [&](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      groups::CommunicatorGroup group(communicator, 20);
      checkpoint::Store store(folder_, {}, files);
      store.take(group, {"local", 0, 0, "test"});
      Side side({.name = "mlp", .hidden = {20000}}, communicator, group, store);
      const auto part = side.checkpointer.part_of(side.state);
      store.save(group, Step(1), part.slices, part.state);
      files.read = 0;
      EXPECT_TRUE(side.checkpointer.restore(side.state));
      EXPECT_GE(files.read, side.state.bytes());
      EXPECT_LT(files.read, side.state.bytes() * 5 / 4) << "the manifest, and what HDF5 wants, are a few kilobytes";
    });
  });
}

TEST_F(Partial, WeightsAloneAreEnough) {
  world::run_threads(1, [&](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      groups::CommunicatorGroup group(communicator, 20);
      checkpoint::Store store(folder_, {});
      store.take(group, {"local", 0, 0, "test"});
      Side side(plain_, communicator, group, store);
      std::vector<float> weights(side.tensors.layout.size(), 3.5f);
      std::vector<checkpoint::Slice> slices;
      for (const auto& tensor : side.tensors.tensors)
        slices.push_back({"parameter/" + tensor.view.name, tensor::DataType::float32, tensor.view.shape,
                          tensor::whole(tensor.view.shape), reinterpret_cast<const std::byte*>(weights.data())});
      store.save(group, Step(3), slices, {});
      try {
        side.checkpointer.restore(side.state);
        ADD_FAILURE() << "momenta are missing";
      } catch (const Error& error) {
        EXPECT_EQ(error.exit_code(), ExitCode::incompatible);
        EXPECT_THAT(error.what(), AllOf(HasSubstr("it lacks momentum/fc1.bias"), HasSubstr("--partial")));
      }
      auto fallback = start_values();
      std::ranges::fill(side.values(side.momentum()), 9.0f);
      EXPECT_TRUE(side.checkpointer.restore(side.state, nullptr, &fallback));
      EXPECT_THAT(side.of(side.state.parameters, "fc1.weight"), ::testing::Each(3.5f));
      EXPECT_THAT(side.of(side.momentum(), "fc1.weight"), ::testing::Each(0.0f));
      EXPECT_EQ(side.state.step, Step(3));
      EXPECT_EQ(side.state.position, 3 * kBatch);
    });
  });
}

TEST(ShareOf, CoversEachTensorExactlyOnce) {
  for (const tensor::Shape& shape : {tensor::Shape{1000, 100}, {7}, {}, {3, 100000}, {128, 3136}})
    for (int writers = 1; writers <= 5; ++writers) {
      std::int64_t covered = 0;
      for (int w = 0; w < writers; ++w)
        if (auto box = share_of(shape, 4, w, writers)) covered += tensor::element_count(box->extent);
      EXPECT_EQ(covered, tensor::element_count(shape)) << tensor::to_string(shape) << writers;
    }
}
}  // namespace
}  // namespace distdl::train
