// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/host/rounding.hpp>

namespace distdl::kernels {

/// Like activation_type(), but throws ConfigError for "tf32", which CPUs do not have.
tensor::DataType host_activation_type(const Options& options);

/// The common part of the CPU backends: host memory, element-wise loops and losses. Each backend adds its layers.
class HostBackend : public Backend {
 public:
  explicit HostBackend(tensor::DataType type) : type_(type) {}
  tensor::DataType activation_type() const override { return type_; }
  tensor::Buffer allocate(std::size_t bytes) override;
  tensor::Buffer allocate_staging(std::size_t bytes) override;
  bool memory_is_host() const override { return true; }
  tensor::Buffer reserve(std::size_t bytes) override { return tensor::reserve_host(bytes); }
  void commit(std::span<std::byte> /*memory*/) override {}  // whoever writes it does
  void discard(std::span<std::byte> memory) override { tensor::discard(memory); }
  void copy_from_host(void* to, const void* from, std::size_t bytes) override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;

  void fill(float* data, std::size_t count, float value) override;
  void clear(void* data, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void add(float* accumulate, const float* addend, std::size_t count) override;
  void add(const ActivationFormat& format, void* accumulate, const void* addend) override;
  /// In one pass over the memory.
  void sum(const ActivationFormat& format, std::span<void* const> addends) override;
  void convert(tensor::DataType from_type, const void* from, tensor::DataType to_type, void* to,
               std::size_t count) override;
  void update(const OptimizerStep& step, const UpdateArenas& arenas, ArenaRanges ranges) override;
  void sums_of_squares(const float* data, ArenaRanges ranges, double* sums) override;
  void sums_of_terms(const AdaptiveStep& step, const UpdateArenas& arenas, ArenaRanges ranges, double* sums) override;

  std::unique_ptr<Loss> loss(const LossSpec& spec, const ActivationFormat& predictions) override;
  std::unique_ptr<SlicedLoss> sliced_loss(const CrossEntropy& spec, const ActivationFormat& logits,
                                          const ClassSlice& slice) override;
  void set_rng_key(const RngKey& rng_key) override { rng_key_ = rng_key; }

 protected:
  /// The elements [first, end) of sum().
  static void sum_elements(tensor::DataType element, std::span<void* const> addends, std::size_t first,
                           std::size_t end);
  const RngKey& rng_key() const { return rng_key_; }
  /// Returns "", ", bf16" or ", fp16", for description().
  std::string precision_note() const;
  /// Wraps `layer`, which computes in floats, if activations have 16 bits; `input` and `output` then have that type.
  std::unique_ptr<Layer> rounded(std::unique_ptr<Layer> layer, const ActivationFormat& input,
                                 const ActivationFormat& output) {
    return host::make_rounding(std::move(layer), input, output, copies_);
  }

 private:
  tensor::DataType type_;
  host::FloatCopies copies_;
  RngKey rng_key_;
};

}  // namespace distdl::kernels
