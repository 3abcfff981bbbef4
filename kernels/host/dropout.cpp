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
      : StatelessOf<T>(input), spec_(spec), rng_key_(rng_key), run_(this->count()), step_(run_) {
    const std::int64_t width = input.shape.back();
    from_ = spec.rows.first * width;
    if (spec.all == 0) {
      run_ = step_ = from_ + this->count();
      return;
    }
    run_ = (spec.rows.places > 0 ? spec.rows.places : input.shape.at(1)) * width;
    step_ = spec.all * width;
    first_ = spec.first * width;
  }
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
    // Runs of values that follow each other in the whole microbatch. A slice may begin and end within one.
    for (std::int64_t at = 0, of_run = from_ % run_, begin = first_ + from_ / run_ * step_ + of_run; at < this->count();
         of_run = 0) {
      const std::int64_t run = std::min(run_ - of_run, this->count() - at);
      for (std::int64_t i = begin / 4 * 4; i < begin + run; i += 4) {
        const auto four = stays.four(static_cast<std::uint64_t>(i) / 4);
        for (std::int64_t j = std::max(begin, i); j < std::min(i + 4, begin + run); ++j)
          to[at + j - begin] = four[j - i] ? T(from[at + j - begin] * scale) : T(0.0f);
      }
      at += run;
      begin += step_ - of_run;
    }
  }

  Dropout spec_;
  const RngKey& rng_key_;
  std::int64_t run_, step_, first_ = 0;  // values: of a run, from one run to the next, before the first one
  std::int64_t from_ = 0;                // value of the runs with which the input begins
};
}  // namespace

std::unique_ptr<Layer> make_dropout(const Dropout& spec, const ActivationFormat& input, const RngKey& rng_key) {
  return tensor::with_type(input.type, [&](auto type) -> std::unique_ptr<Layer> {
    return std::make_unique<DropoutLayer<decltype(type)>>(spec, input, rng_key);
  });
}

}  // namespace distdl::kernels::host
