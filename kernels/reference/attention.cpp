// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include <distdl/kernels/reference/layers.hpp>

namespace distdl::kernels::reference {
namespace {
using Row = std::vector<double>;

class AttentionLayer : public Stateless {
 public:
  AttentionLayer(const Attention& spec, const tensor::Shape& input)
      : Stateless(dense(output_shape(spec, input))),
        spec_(spec),
        samples_(input[0]),
        in_(layout_of(spec, input)),
        kv_heads_(kv_heads_of(spec)),
        width_(in_.width) {}

  void forward(const float* x, float* y, Phase) override {
    for_each_query([&](std::int64_t n, std::int64_t head, std::int64_t t) {
      const Row p = probabilities(x, n, head, t);
      for (std::int64_t d = 0; d < width_; ++d) {
        double sum = 0;
        for (std::size_t s = 0; s < p.size(); ++s) sum += p[s] * x[value_at(n, s, head) + d];
        y[out(n, t, head) + d] = static_cast<float>(sum);
      }
    });
  }

  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    std::vector<double> sums(static_cast<std::size_t>(samples_ * in_.sample));
    for_each_query([&](std::int64_t n, std::int64_t head, std::int64_t t) {
      const Row p = probabilities(x, n, head, t);
      Row dp(p.size());
      double mean = 0;
      for (std::size_t s = 0; s < p.size(); ++s) {
        const std::int64_t v = value_at(n, s, head);
        for (std::int64_t d = 0; d < width_; ++d) {
          dp[s] += double{dy[out(n, t, head) + d]} * x[v + d];
          sums[v + d] += p[s] * dy[out(n, t, head) + d];
        }
        mean += p[s] * dp[s];
      }
      const Row q = turned(x + query_at(n, t, head), place_of(t));
      Row dq(q.size());
      for (std::size_t s = 0; s < p.size(); ++s) {
        const double dscore = p[s] * (dp[s] - mean) / std::sqrt(static_cast<double>(width_));
        const Row k = turned(x + key_at(n, s, head), s);
        Row dk(k.size());
        for (std::int64_t d = 0; d < width_; ++d) {
          dq[d] += dscore * k[d];
          dk[d] = dscore * q[d];
        }
        add_turned_back(dk, s, &sums[key_at(n, s, head)]);
      }
      add_turned_back(dq, place_of(t), &sums[query_at(n, t, head)]);
    });
    for (std::size_t i = 0; i < sums.size(); ++i) dx[i] = static_cast<float>(sums[i]);
  }

 private:
  template <class Visit>
  void for_each_query(Visit&& visit) const {
    for (std::int64_t n = 0; n < samples_; ++n)
      for (std::int64_t head = 0; head < spec_.heads; ++head)
        for (std::int64_t t = 0; t < in_.queries; ++t) visit(n, head, t);
  }

  std::size_t place_of(std::int64_t query) const { return static_cast<std::size_t>(spec_.before + query); }
  std::int64_t query_at(std::int64_t n, std::int64_t t, std::int64_t head) const {
    return n * in_.sample + t * in_.query_row + head * width_;
  }
  std::int64_t key_at(std::int64_t n, std::size_t place, std::int64_t head) const {
    return n * in_.sample + in_.keys + static_cast<std::int64_t>(place) * in_.key_row +
           head * kv_heads_ / spec_.heads * width_;
  }
  std::int64_t value_at(std::int64_t n, std::size_t place, std::int64_t head) const {
    return key_at(n, place, head) + kv_heads_ * width_;
  }
  std::int64_t out(std::int64_t n, std::int64_t t, std::int64_t head) const {
    return ((n * in_.queries + t) * spec_.heads + head) * width_;
  }

  /// One query or key at this place, as it is compared.
  Row turned(const float* from, std::size_t place) const {
    Row row(from, from + width_);
    turn(row, static_cast<double>(place));
    return row;
  }
  void add_turned_back(Row row, std::size_t t, double* sums) const {
    turn(row, -static_cast<double>(t));
    for (std::int64_t d = 0; d < width_; ++d) sums[d] += row[d];
  }
  void turn(Row& row, double t) const {
    const std::int64_t half = width_ / 2;
    for (std::int64_t i = 0; i < half && spec_.rotary_base > 0; ++i) {
      const double angle = t * std::pow(spec_.rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(width_));
      const double a = row[i], b = row[i + half];
      row[i] = a * std::cos(angle) - b * std::sin(angle);
      row[i + half] = b * std::cos(angle) + a * std::sin(angle);
    }
  }

  /// Returns the probabilities of the places that query t sees.
  Row probabilities(const float* x, std::int64_t n, std::int64_t head, std::int64_t t) const {
    Row p(spec_.causal ? place_of(t) + 1 : static_cast<std::size_t>(in_.places));
    const Row q = turned(x + query_at(n, t, head), place_of(t));
    for (std::size_t s = 0; s < p.size(); ++s) {
      const Row k = turned(x + key_at(n, s, head), s);
      for (std::int64_t d = 0; d < width_; ++d) p[s] += q[d] * k[d];
      p[s] /= std::sqrt(static_cast<double>(width_));
    }
    const double largest = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& one : p) sum += one = std::exp(one - largest);
    for (double& one : p) one /= sum;
    return p;
  }

  Attention spec_;
  std::int64_t samples_;
  AttentionLayout in_;
  std::int64_t kv_heads_, width_;
};
}  // namespace

std::unique_ptr<Layer> make_layer(const Attention& spec, const tensor::Shape& input) {
  return std::make_unique<AttentionLayer>(spec, input);
}

}  // namespace distdl::kernels::reference
