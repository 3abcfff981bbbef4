// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/backend.hpp>

namespace distdl::kernels {

/// A layer without parameters.
class Stateless : public Layer {
 public:
  explicit Stateless(const ActivationFormat& output) : output_(output), count_(tensor::element_count(output.shape)) {}
  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers) override {}
  void backward_weights(const float*, const float*, Pointers) override {}

 protected:
  std::int64_t count() const { return count_; }  ///< elements of the output

 private:
  ActivationFormat output_;
  std::int64_t count_;
};

}  // namespace distdl::kernels
