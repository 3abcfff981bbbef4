// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/backend.hpp>
#include <distdl/tensor/half.hpp>

namespace distdl::kernels {

/// A layer without parameters.
template <class T>
class StatelessOf : public LayerOf<T> {
 public:
  explicit StatelessOf(ActivationFormat output)
      : output_(std::move(output)), count_(tensor::element_count(output_.shape)) {}
  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers) override {}
  void backward_weights(const T*, const T*, Pointers) override {}

 protected:
  std::int64_t count() const { return count_; }  ///< elements of the output

 private:
  ActivationFormat output_;
  std::int64_t count_;
};
using Stateless = StatelessOf<float>;

}  // namespace distdl::kernels
