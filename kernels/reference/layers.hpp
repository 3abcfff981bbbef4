// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>

#include <distdl/kernels/backend.hpp>

/// Plain loops over dense row-major arrays, sums in double; slow and easy to check. The oracle for every other backend.
namespace distdl::kernels::reference {

/// A layer without parameters.
class Stateless : public Layer {
 public:
  explicit Stateless(const tensor::Shape& output) : output_(dense(output)), count_(tensor::element_count(output)) {}
  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers) override {}
  void backward_weights(const float*, const float*, Pointers) override {}

 protected:
  std::int64_t count() const { return count_; }  ///< elements of the output

 private:
  ActivationFormat output_;
  std::int64_t count_;
};

std::unique_ptr<Layer> make_linear(const Linear& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_conv2d(const Conv2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_max_pool2d(const MaxPool2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_average_pool2d(const AveragePool2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_global_average_pool(const tensor::Shape& input);
std::unique_ptr<Layer> make_relu(const tensor::Shape& input);
std::unique_ptr<Layer> make_gelu(const Gelu& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_silu(const tensor::Shape& input);
std::unique_ptr<Layer> make_gated_silu(const tensor::Shape& input);
std::unique_ptr<Layer> make_batch_norm(const BatchNorm& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer_norm(const LayerNorm& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_rms_norm(const RmsNorm& spec, const tensor::Shape& input);
/// `noise` must outlive the layer.
std::unique_ptr<Layer> make_dropout(const Dropout& spec, const tensor::Shape& input, const Noise& noise);
std::unique_ptr<Layer> make_embedding(const Embedding& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_position_embedding(const PositionEmbedding& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_class_token(const tensor::Shape& input);
std::unique_ptr<Layer> make_pixels_to_sequence(const tensor::Shape& input);
std::unique_ptr<Layer> make_select_place(const SelectPlace& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_attention(const Attention& spec, const tensor::Shape& input);

}  // namespace distdl::kernels::reference
