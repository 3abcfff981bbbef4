// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/host/layers.hpp>

namespace distdl::kernels::host {
namespace {
/// Srivastava et al., "Dropout", 2014. The choice of values is computed again for the gradient, so nothing is stored.
template <class T>
class DropoutLayer : public StatelessOf<T> {
 public:
  DropoutLayer(const Dropout& spec, const ActivationFormat& input, const RngKey& rng_key)
      : StatelessOf<T>(input), spec_(spec), rng_key_(rng_key) {}
  void forward(const T* x, T* y, Phase phase) override {
    if (phase == Phase::evaluation)
      std::copy_n(x, this->count(), y);
    else
      drop(x, y);
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override { drop(dy, dx); }

 private:
  void drop(const T* from, T* to) const {
    const elementwise::Stays stays{rng_key_, spec_.stream, spec_.probability};
    const float scale = 1 / (1 - spec_.probability);
    for (std::int64_t i = 0; i < this->count(); i += 4) {
      const auto four = stays.four(static_cast<std::uint64_t>(i) / 4);
      for (std::int64_t j = 0; j < std::min<std::int64_t>(4, this->count() - i); ++j)
        to[i + j] = four[j] ? T(from[i + j] * scale) : T(0.0f);
    }
  }

  Dropout spec_;
  const RngKey& rng_key_;
};
}  // namespace

std::unique_ptr<Layer> make_dropout(const Dropout& spec, const ActivationFormat& input, const RngKey& rng_key) {
  return tensor::with_type(input.type, [&](auto type) -> std::unique_ptr<Layer> {
    return std::make_unique<DropoutLayer<decltype(type)>>(spec, input, rng_key);
  });
}

}  // namespace distdl::kernels::host
