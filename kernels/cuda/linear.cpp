// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/channels.hpp>
#include <distdl/kernels/cuda/cuda_error.hpp>
#include <distdl/kernels/cuda/layers.hpp>
#include <distdl/kernels/cuda/linear_gemm.hpp>

namespace distdl::kernels::cuda {
namespace {
constexpr float kOne = 1, kZero = 0;

void multiply(const Device& device, const Gemm& gemm, const float* a, const float* b, float* c) {
  auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  check(cublasSgemm_64(device.blas(), operation(gemm.transpose_a), operation(gemm.transpose_b), gemm.m, gemm.n, gemm.k,
                       &kOne, a, gemm.lda, b, gemm.ldb, &kZero, c, gemm.ldc),
        "multiply matrices");
}

class LinearLayer : public Layer {
 public:
  LinearLayer(SharedDevice device, const Linear& spec, const tensor::Shape& input)
      : device_(std::move(device)),
        output_(dense(output_shape(spec, input))),
        gemms_{input[0], tensor::element_count(input) / input[0], spec.out},
        outputs_{input[0], spec.out, 1} {}

  const ActivationFormat& output() const override { return output_; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = parameters[1];
  }

  void forward(const float* x, float* y, Phase) override {
    multiply(*device_, gemms_.forward(), weight_, x, y);
    add_bias(*device_, outputs_, bias_, y);
  }

  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    multiply(*device_, gemms_.backward_input(), weight_, dy, dx);
  }

  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    multiply(*device_, gemms_.backward_weights(), x, dy, gradients[0]);
    sum_channels(*device_, outputs_, dy, gradients[1]);
  }

 private:
  SharedDevice device_;
  ActivationFormat output_;
  LinearGemms gemms_;
  Channels outputs_;
  const float* weight_ = nullptr;  // (out, in)
  const float* bias_ = nullptr;    // (out)
};
}  // namespace

std::unique_ptr<Layer> make_linear(SharedDevice device, const Linear& spec, const tensor::Shape& input) {
  return std::make_unique<LinearLayer>(std::move(device), spec, input);
}

}  // namespace distdl::kernels::cuda
