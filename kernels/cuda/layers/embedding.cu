// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <cub/device/device_radix_sort.cuh>

#include <distdl/kernels/cuda/layers/embedding.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/primitives/rows.cuh>

namespace distdl::kernels::cuda {
namespace {
/// Places sorted by their numbers, stably: hence in a fixed order.
class SortedPlaces {
 public:
  /// At most 2^31 - 1 places.
  SortedPlaces(const Device& device, std::int64_t places, std::int64_t entries)
      : places_(places),
        entries_(entries),
        state_(device.allocate(sizeof(std::int32_t) * static_cast<std::size_t>(3 * places + entries + 1))) {
    for_each(device, static_cast<std::size_t>(places_), Count{in_order()});
    std::size_t bytes = 0;
    check(sort_step(nullptr, bytes, nullptr, device.stream()), "plan a sort");
    workspace_ = device.allocate(bytes);
  }

  /// `first`: the number that the first row of the table has.
  void sort(const Device& device, const Numbers& numbers, std::int64_t first) {
    std::size_t bytes = workspace_.bytes();
    check(sort_step(workspace_.data(), bytes, numbers.data, device.stream()), "sort numbers");
    const Numbers sorted{sorted_numbers(), numbers.count, numbers.limit};
    for_each(device, static_cast<std::size_t>(entries_ + 1), FindStarts{sorted, starts(), first});
  }

  std::int32_t* places() const { return integers() + places_; }
  std::int32_t* starts() const { return integers() + 3 * places_; }

 private:
  cudaError_t sort_step(void* room, std::size_t& bytes, const std::int32_t* numbers, cudaStream_t stream) {
    return cub::DeviceRadixSort::SortPairs(room, bytes, numbers, sorted_numbers(), in_order(), places(), places_, 0, 32,
                                           stream);
  }
  std::int32_t* integers() const { return static_cast<std::int32_t*>(state_.data()); }
  std::int32_t* in_order() const { return integers(); }
  std::int32_t* sorted_numbers() const { return integers() + 2 * places_; }

  std::int64_t places_, entries_;
  tensor::Buffer state_;      // 0, 1, ..; places, sorted; their numbers; starts
  tensor::Buffer workspace_;  // workspace of the sort
};

/// x: numbers, y: of type T.
template <class T>
class EmbeddingLayer : public Layer {
 public:
  EmbeddingLayer(SharedDevice device, const Embedding& spec, const ActivationFormat& input)
      : device_(std::move(device)),
        spec_(spec),
        output_(dense(output_shape(spec, input.shape), tensor::data_type_of<T>())),
        places_(tensor::element_count(input.shape)),
        sorted_(*device_, places_, spec.entries) {}

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }
  void load_parameters(ConstPointers parameters) override { weight_ = parameters[0]; }

  void forward(const void* x, void* y, Phase) override {
    check_numbers(*device_, numbers(x), NumberFault::Of::table_row);
    for_each_row(
        *device_, places_,
        LookUp<T>{numbers(x), weight_, static_cast<T*>(y), spec_.width, spec_.first, spec_.first + spec_.entries});
  }
  void backward_input(const void*, const void*, const void*, void*) override {}
  void backward_weights(const void* x, const void* dy, Pointers gradients) override {
    sorted_.sort(*device_, numbers(x), spec_.first);
    for_each_long_row(
        *device_, spec_.entries,
        CollectGradient<T>{sorted_.places(), sorted_.starts(), static_cast<const T*>(dy), gradients[0], spec_.width});
  }

 private:
  Numbers numbers(const void* x) const {
    return {static_cast<const std::int32_t*>(x), places_,
            static_cast<std::int32_t>(spec_.all == 0 ? spec_.entries : spec_.all)};
  }

  SharedDevice device_;
  Embedding spec_;
  ActivationFormat output_;
  std::int64_t places_;
  SortedPlaces sorted_;
  const float* weight_ = nullptr;  // (entries, width)
};
}  // namespace

std::unique_ptr<Layer> make_layer(SharedDevice device, const Embedding& spec, const ActivationFormat& input) {
  return make_of_type<EmbeddingLayer>(device->activation_type(), device, spec, input);
}

}  // namespace distdl::kernels::cuda
