// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/host/layers.hpp>

namespace distdl::kernels::host {
namespace {
/// Srivastava et al., "Dropout", 2014. Which values stay is drawn anew for the gradient: nothing is kept.
class DropoutLayer : public Stateless {
 public:
  DropoutLayer(const Dropout& spec, const tensor::Shape& shape, const Noise& noise)
      : Stateless(dense(shape)), spec_(spec), noise_(noise) {}
  void forward(const float* x, float* y, Phase phase) override {
    if (phase == Phase::evaluation)
      std::copy_n(x, count(), y);
    else
      drop(x, y);
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override { drop(dy, dx); }

 private:
  void drop(const float* from, float* to) const {
    const elementwise::Stays stays{noise_, spec_.stream, spec_.probability};
    const float scale = 1 / (1 - spec_.probability);
    for (std::int64_t i = 0; i < count(); i += 4) {
      const auto four = stays.four(static_cast<std::uint64_t>(i) / 4);
      for (std::int64_t j = 0; j < std::min<std::int64_t>(4, count() - i); ++j)
        to[i + j] = four[j] ? from[i + j] * scale : 0.0f;
    }
  }

  Dropout spec_;
  const Noise& noise_;
};
}  // namespace

std::unique_ptr<Layer> make_dropout(const Dropout& spec, const tensor::Shape& input, const Noise& noise) {
  return std::make_unique<DropoutLayer>(spec, input, noise);
}

}  // namespace distdl::kernels::host
