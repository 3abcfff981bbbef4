// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/layers/image_layout.hpp>
#include <distdl/kernels/cuda/primitives/elementwise.hpp>

namespace distdl::kernels::cuda {
namespace {
constexpr char kChannelsLast = 0;  // its address is what `layout` holds

/// From (N, rows, columns) to (N, columns, rows); with one row, a conversion.
struct Swap {
  std::int64_t rows, columns;
};
Swap swap_between(const ActivationFormat& from, const ActivationFormat& to) {
  if (has_channels_last(from) == has_channels_last(to)) return {1, 1};
  const std::int64_t channels = from.shape[1], pixels = from.shape[2] * from.shape[3];
  return has_channels_last(to) ? Swap{channels, pixels} : Swap{pixels, channels};
}
}  // namespace

ActivationFormat channels_last(const tensor::Shape& shape, tensor::DataType type) {
  ActivationFormat format = dense(shape, type);
  format.layout = std::shared_ptr<const void>(std::shared_ptr<const void>(), &kChannelsLast);
  return format;
}

bool has_channels_last(const ActivationFormat& format) {
  return format.layout != nullptr;
}

ActivationFormat like(const ActivationFormat& format, const tensor::Shape& shape) {
  return has_channels_last(format) && shape.size() == 4 ? channels_last(shape, format.type) : dense(shape, format.type);
}

void rearrange(const Device& device, const ActivationFormat& from_format, const void* from,
               const ActivationFormat& to_format, void* to) {
  const auto [rows, columns] = swap_between(from_format, to_format);
  swap_axes(device, from_format.type, from, to_format.type, to, from_format.elements(), rows, columns);
}

PoolWindows windows_over(const ActivationFormat& input, const ActivationFormat& output, std::int64_t kernel,
                         std::int64_t stride, std::int64_t padding) {
  return {kernel,         stride,          padding,         input.shape[2],
          input.shape[3], output.shape[2], output.shape[3], has_channels_last(input) ? input.shape[1] : 1};
}

}  // namespace distdl::kernels::cuda
