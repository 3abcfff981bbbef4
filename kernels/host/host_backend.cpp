// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <utility>
#include <variant>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/elementwise/ordered_sum.hpp>
#include <distdl/kernels/host/host_backend.hpp>
#include <distdl/kernels/host/losses.hpp>
#include <distdl/kernels/host/vectors.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/tensor/half.hpp>

namespace distdl::kernels {
namespace {
constexpr std::size_t kSumBlock = 1024;  ///< elements, which stay in the cache

double squares(const float* data, std::size_t count) {
  return elementwise::ordered_sum(count, [=](std::size_t i) { return elementwise::Square{}(data[i]); });
}

template <class Step, class... Moment>
void update_ranges(const Step& step, ArenaRanges ranges, float* __restrict parameters,
                   const float* __restrict gradients, Moment* __restrict... moments) {
  for (const auto& [offset, count, options] : ranges) {
    Step own = step_of_group(step, options);
    if constexpr (Adaptive<Step>) {
      const double length = options.adapts ? squares(parameters + offset, count) : 0;
      const double terms = elementwise::ordered_sum(count, [=, offset = offset](std::size_t i) {
        i += offset;
        return own.term(parameters[i], moments[i]..., gradients[i]);
      });
      if (options.adapts) own.learning_rate = own.trusted_rate(length, terms);
    }
    for (std::size_t i = offset; i < offset + count; ++i) own(parameters[i], moments[i]..., gradients[i]);
  }
}
template <class Step, class... Moment>
void sum_terms(const Step& step, ArenaRanges ranges, const float* parameters, const float* gradients, double* sums,
               const Moment*... moments) {
  for (const auto& [offset, count, options] : ranges) {
    const Step own = step_of_group(step, options);
    *sums++ = elementwise::ordered_sum(count, [=, offset = offset](std::size_t i) {
      i += offset;
      return own.known_term(parameters[i], moments[i]..., gradients[i]);
    });
  }
}

/// Writes the elements [at, at + count) of the sum along the tree.
template <class T>
void sum_block(std::span<void* const> addends, std::size_t at, std::size_t count, T* sum) {
  const auto block_of = [&](void* addend) { return static_cast<const T*>(addend) + at; };
  const std::size_t left = std::bit_floor(addends.size() - 1);
  const T *one = block_of(addends[0]), *other = block_of(addends[left]);
  std::array<T, kSumBlock> right;  // NOLINT(cppcoreguidelines-pro-type-member-init): it is written before it is read
  if (left > 1) {
    sum_block(addends.first(left), at, count, sum);
    one = sum;
  }
  if (addends.size() - left > 1) {
    sum_block(addends.subspan(left), at, count, right.data());
    other = right.data();
  }
  host::vectorized([=] {
#pragma GCC ivdep  // `sum` may be `one`, but not overlap it otherwise
    for (std::size_t i = 0; i < count; ++i) sum[i] = elementwise::Add{}(one[i], other[i]);
  });
}
}  // namespace

tensor::DataType host_activation_type(const Options& options) {
  require(options.precision != Precision::tf32, "{}",
          "kernels.precision is \"tf32\", which only GPUs support; set \"fp32\" for the CPU's backends");
  return kernels::activation_type(options);
}

std::string HostBackend::precision_note() const {
  if (type_ == tensor::DataType::float32) return {};
  return type_ == tensor::DataType::bfloat16 ? ", bf16" : ", fp16";
}

tensor::Buffer HostBackend::allocate(std::size_t bytes) {
  return tensor::allocate_host(bytes);
}

tensor::Buffer HostBackend::allocate_staging(std::size_t bytes) {
  return tensor::allocate_host(bytes);
}

void HostBackend::copy_from_host(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void HostBackend::copy_to_host(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void HostBackend::fill(float* data, std::size_t count, float value) {
  std::fill_n(data, count, value);
}

void HostBackend::clear(void* data, std::size_t bytes) {
  std::memset(data, 0, bytes);
}

void HostBackend::copy(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

void HostBackend::add(float* __restrict accumulate, const float* __restrict addend, std::size_t count) {
  elementwise::Add sum;
  for (std::size_t i = 0; i < count; ++i) accumulate[i] = sum(accumulate[i], addend[i]);
}

void HostBackend::add(const ActivationFormat& format, void* accumulate, const void* addend) {
  tensor::with_type(format.type, [&](auto type) {
    auto* const __restrict sum = static_cast<decltype(type)*>(accumulate);
    const auto* const __restrict more = static_cast<const decltype(type)*>(addend);
    const std::size_t count = format.elements();
    host::vectorized([=] {
      for (std::size_t i = 0; i < count; ++i) sum[i] = elementwise::Add{}(sum[i], more[i]);
    });
  });
}

void HostBackend::sum(const ActivationFormat& format, std::span<void* const> addends) {
  sum_elements(format.type, addends, 0, format.elements());
}

void HostBackend::sum_elements(tensor::DataType element, std::span<void* const> addends, std::size_t first,
                               std::size_t end) {
  if (addends.size() < 2) return;
  tensor::with_type(element, [&](auto type) {
    auto* const result = static_cast<decltype(type)*>(addends[0]);
    for (std::size_t at = first; at < end; at += kSumBlock)
      sum_block(addends, at, std::min(kSumBlock, end - at), result + at);
  });
}

void HostBackend::convert(tensor::DataType from_type, const void* from, tensor::DataType to_type, void* to,
                          std::size_t count) {
  tensor::with_type(from_type, [&](auto given) {
    tensor::with_type(to_type, [&](auto wanted) {
      const auto* const __restrict source = static_cast<const decltype(given)*>(from);
      auto* const __restrict target = static_cast<decltype(wanted)*>(to);
      host::vectorized([=] {
        for (std::size_t i = 0; i < count; ++i) target[i] = static_cast<float>(source[i]);
      });
    });
  });
}

void HostBackend::update(const OptimizerStep& step, const UpdateArenas& arenas, ArenaRanges ranges) {
  const auto with_moments = [&]<class Step, std::size_t... k>(const Step& numbers, std::index_sequence<k...>) {
    update_ranges(numbers, ranges, arenas.parameters, arenas.gradients, arenas.moments[k]...);
  };
  std::visit([&]<class Step>(const Step* all) { with_moments(*all, std::make_index_sequence<Step::kMoments>()); },
             step);
}

void HostBackend::sums_of_squares(const float* data, ArenaRanges ranges, double* sums) {
  for (const auto& [offset, count, options] : ranges) *sums++ = squares(data + offset, count);
}

void HostBackend::sums_of_terms(const AdaptiveStep& step, const UpdateArenas& arenas, ArenaRanges ranges,
                                double* sums) {
  const auto with_moments = [&]<class Step, std::size_t... k>(const Step& numbers, std::index_sequence<k...>) {
    sum_terms(numbers, ranges, arenas.parameters, arenas.gradients, sums, arenas.moments[k]...);
  };
  std::visit([&]<class Step>(const Step* all) { with_moments(*all, std::make_index_sequence<Step::kMoments>()); },
             step);
}

std::unique_ptr<Loss> HostBackend::loss(const LossSpec& spec, const ActivationFormat& predictions) {
  target_count(spec, predictions.shape);  // throws if they do not fit
  assert(!predictions.layout);
  if (const auto* entropy = std::get_if<CrossEntropy>(&spec)) return host::make_cross_entropy(*entropy, predictions);
  return host::make_mean_squared_error(predictions);
}

std::unique_ptr<SlicedLoss> HostBackend::sliced_loss(const CrossEntropy& spec, const ActivationFormat& logits,
                                                     const ClassSlice& slice) {
  return host::make_sliced_cross_entropy(spec, logits, slice);
}

}  // namespace distdl::kernels
