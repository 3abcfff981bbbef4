// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/cuda/backend.hpp>
#include <distdl/kernels/cuda/device/accelerator.hpp>
#include <distdl/kernels/cuda/device/choose_gpu.hpp>
#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/device/graph_replay.hpp>
#include <distdl/kernels/cuda/device/reserved_memory.hpp>
#include <distdl/kernels/cuda/device/staging_ring.hpp>
#include <distdl/kernels/cuda/layers/adapted.hpp>
#include <distdl/kernels/cuda/layers/image_layout.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/optimizers/optimizers.hpp>
#include <distdl/kernels/cuda/optimizers/range_tables.hpp>
#include <distdl/kernels/cuda/primitives/elementwise.hpp>
#include <distdl/kernels/options.hpp>

namespace distdl::kernels::cuda {
namespace {
/// Throws ConfigError for a number that its kernels cannot count in 32 bits.
void require_countable(std::int64_t count, const char* what, const tensor::Shape& shape) {
  require(count <= std::numeric_limits<std::int32_t>::max(),
          "the cuda backend takes at most 2^31 - 1 {}, not {} of shape {}; use smaller microbatches", what, count,
          tensor::to_string(shape));
}

struct MakeLayer {
  const SharedDevice& device;
  const ActivationFormat& input;
  std::unique_ptr<Layer> operator()(const auto& spec) const { return make_layer(device, spec, input); }
  std::unique_ptr<Layer> operator()(const Linear& spec) const { return of_dense(spec); }
  std::unique_ptr<Layer> operator()(const Dropout& spec) const { return of_dense(spec); }
  std::unique_ptr<Layer> operator()(const Embedding& spec) const {
    require_countable(tensor::element_count(input.shape), "numbers", input.shape);
    require_countable(spec.entries, "rows of a table", input.shape);
    return make_layer(device, spec, input);
  }

 private:
  /// A layer that takes no images as (N, H, W, C).
  std::unique_ptr<Layer> of_dense(const auto& spec) const {
    const ActivationFormat own = dense(input.shape, input.type);
    const ActivationFormat output = like(input, output_shape(spec, input.shape));
    return adapted(device, make_layer(device, spec, own), own, input, output);
  }
};

struct MakeLoss {
  const SharedDevice& device;
  const ActivationFormat& predictions;
  std::unique_ptr<Loss> operator()(const CrossEntropy& spec) const {
    const auto& shape = predictions.shape;
    require_countable(loss_terms(spec, shape), "rows of logits", shape);
    require_countable(shape.back(), "classes", shape);
    return make_cross_entropy(device, spec, predictions);
  }
  std::unique_ptr<Loss> operator()(const MeanSquaredError&) const {
    const ActivationFormat own = dense(predictions.shape, predictions.type);
    return adapted(device, make_squared_error(device, own), own, predictions);
  }
};

class CudaBackend : public Backend {
 public:
  CudaBackend(int gpu, const Arithmetic& arithmetic, bool replays)
      : device_(std::make_shared<Device>(gpu, arithmetic)), staging_(*device_), replays_(replays) {}

  std::string name() const override { return "cuda"; }
  std::string description() const override { return device_->description(); }
  tensor::DataType activation_type() const override { return device_->activation_type(); }

  tensor::Buffer allocate(std::size_t bytes) override { return device_->allocate(bytes); }
  tensor::Buffer allocate_staging(std::size_t bytes) override { return device_->allocate_pinned(bytes); }
  bool memory_is_host() const override { return false; }

  tensor::Buffer reserve(std::size_t bytes) override {
    device_->make_current();
    auto memory = std::make_shared<ReservedMemory>(device_->ordinal(), bytes);
    auto* const data = memory->data();
    std::erase_if(reserved_, [](const auto& known) { return known.second.expired(); });  // which may lie within it
    reserved_[data] = memory;
    return {data, bytes, [memory](void*) mutable { memory.reset(); }};
  }
  void commit(std::span<std::byte> memory) override {
    if (!memory.empty()) reserved_with(memory.data())->commit(memory, device_->stream());
  }
  void discard(std::span<std::byte> memory) override {
    if (memory.empty()) return;
    device_->wait();
    reserved_with(memory.data())->discard(memory);
  }

  void copy_from_host(void* to, const void* from, std::size_t bytes) override {
    staging_.send(*device_, to, from, bytes);
  }

  void copy_to_host(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, device_->stream()), "copy from the GPU");
    device_->wait();
  }

  void clear(void* data, std::size_t bytes) override {
    check(cudaMemsetAsync(data, 0, bytes, device_->stream()), "clear memory of the GPU");
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, device_->stream()), "copy on the GPU");
  }

  std::shared_ptr<tensor::Accelerator> accelerator() override {
    if (!accelerator_) accelerator_ = make_accelerator(device_);
    return accelerator_;
  }

  void fill(float* data, std::size_t count, float value) override { cuda::fill(*device_, data, count, value); }
  void add(float* accumulate, const float* addend, std::size_t count) override {
    cuda::add(*device_, tensor::DataType::float32, accumulate, addend, count);
  }
  void add(const ActivationFormat& format, void* accumulate, const void* addend) override {
    cuda::add(*device_, format.type, accumulate, addend, format.elements());
  }
  void convert(tensor::DataType from_type, const void* from, tensor::DataType to_type, void* to,
               std::size_t count) override {
    swap_axes(*device_, from_type, from, to_type, to, count);
  }
  void to_dense(const ActivationFormat& format, const void* from, float* to) override {
    rearrange(*device_, format, from, dense(format.shape), to);
  }
  void from_dense(const ActivationFormat& format, const float* from, void* to) override {
    rearrange(*device_, dense(format.shape), from, format, to);
  }
  bool same_layout(const ActivationFormat& one, const ActivationFormat& other) const override {
    return one.shape == other.shape && one.type == other.type && has_channels_last(one) == has_channels_last(other);
  }
  void update(const OptimizerStep& step, const UpdateArenas& arenas, ArenaRanges ranges) override {
    cuda::update(*device_, step, arenas, table_of(ranges));
  }
  void sums_of_squares(const float* data, ArenaRanges ranges, double* sums) override {
    cuda::sums_of_squares(*device_, data, table_of(ranges), sums);
  }
  void sums_of_terms(const AdaptiveStep& step, const UpdateArenas& arenas, ArenaRanges ranges, double* sums) override {
    cuda::sums_of_terms(*device_, step, arenas, table_of(ranges), sums);
  }

  std::unique_ptr<Layer> layer(const LayerSpec& spec, const ActivationFormat& input) override {
    output_shape(spec, input.shape);  // throws if they do not fit
    return std::visit(MakeLayer{device_, input}, spec);
  }
  std::unique_ptr<Loss> loss(const LossSpec& spec, const ActivationFormat& predictions) override {
    target_count(spec, predictions.shape);  // throws if they do not fit
    return std::visit(MakeLoss{device_, predictions}, spec);
  }
  std::unique_ptr<SlicedLoss> sliced_loss(const CrossEntropy& spec, const ActivationFormat& logits,
                                          const ClassSlice& slice) override {
    require_countable(loss_terms(spec, logits.shape), "rows of logits", logits.shape);
    require(slice.first >= 0 && slice.first + logits.shape.back() <= slice.all,
            "the logits {} cannot be the classes from {} on of {}", tensor::to_string(logits.shape), slice.first,
            slice.all);
    require(!spec.is_mixed, "logits in slices of the classes do not take mixed targets");
    return make_sliced_entropy(device_, spec, logits, slice);
  }
  void set_rng_key(const RngKey& rng_key) override { store_rng_key(*device_, rng_key); }
  std::unique_ptr<Replay> make_replay() override { return replays_ ? std::make_unique<GraphReplay>(device_) : nullptr; }

 private:
  std::shared_ptr<ReservedMemory> reserved_with(const std::byte* address) const {
    const auto after = reserved_.upper_bound(address);
    auto found = after == reserved_.begin() ? nullptr : std::prev(after)->second.lock();
    require<InternalError>(found != nullptr, "{}", "memory to be committed or given back was not reserved");
    return found;
  }
  RangeTable table_of(ArenaRanges ranges) { return tables_.of(*device_, staging_, ranges); }

  SharedDevice device_;
  StagingRing staging_;
  RangeTables tables_;
  bool replays_;
  std::map<const std::byte*, std::weak_ptr<ReservedMemory>> reserved_;  ///< by its address
  std::shared_ptr<tensor::Accelerator> accelerator_;                    ///< once it was asked for
};
}  // namespace

std::unique_ptr<Backend> make_backend(const Options& options) {
  const Arithmetic arithmetic{activation_type(options), options.precision == Precision::tf32, options.deterministic};
  return std::make_unique<CudaBackend>(choose_gpu(options.device), arithmetic, options.replay);
}

}  // namespace distdl::kernels::cuda
