// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <omp.h>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/host/vectors.hpp>
#include <distdl/kernels/onednn/layers.hpp>

namespace distdl::kernels::onednn {
namespace {
/// Rows that are computed at once; a causal layer leaves out the blocks that no query sees.
constexpr std::int64_t kRows = 64;

/// For x <= 0, to about 2e-7 of the result; plain arithmetic, so that the compiler takes vectors.
float exp_of(float x) {
  x = std::max(x, -87.0f);
  const float n = x * 1.44269504f + 12582912.0f;  // the sum's last bits are x / log(2), rounded
  const float r = (x - (n - 12582912.0f) * 0.693145752f) - (n - 12582912.0f) * 1.42860677e-6f;
  const float p =
      1 + r * (1 + r * (0.5f + r * (0.166666671f + r * (0.0416664568f + r * (0.00833339617f + r * 0.00139304355f)))));
  return p * std::bit_cast<float>((std::bit_cast<std::int32_t>(n) << 23) + 0x3F800000);
}

struct Matrix {
  const float* data;
  std::int64_t stride;  ///< from row to row
  char transposed = 'N';
};
/// c = alpha a b + beta c; c: (rows, columns)
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, float alpha, Matrix a, Matrix b, float beta,
              float* c, std::int64_t stride) {
  const auto status = dnnl_sgemm(a.transposed, b.transposed, rows, columns, inner, alpha, a.data, a.stride, b.data,
                                 b.stride, beta, c, stride);
  require<InternalError>(status == dnnl_success, "oneDNN's sgemm ended with {}", static_cast<int>(status));
}

/// The probabilities of all queries are kept for backward: N * heads * queries * places floats.
class AttentionLayer : public Stateless {
 public:
  AttentionLayer(Context& context, const Attention& spec, const tensor::Shape& input)
      : Stateless(dense(output_shape(spec, input))),
        context_(context),
        spec_(spec),
        samples_(input[0]),
        in_(layout_of(spec, input)),
        places_(in_.places),
        kv_heads_(kv_heads_of(spec)),
        width_(in_.width),
        scale_(1 / std::sqrt(static_cast<float>(width_))),
        probability_count_(samples_ * spec.heads * in_.queries * places_),
        turned_count_(spec.rotary_base > 0 ? tensor::element_count(input) : 0),
        scores_(tensor::allocate_host(context.threads() * std::min(kRows, in_.queries) * places_ * sizeof(float))) {
    if (spec.rotary_base <= 0) return;
    for (std::int64_t t = 0; t < places_; ++t)
      for (std::int64_t i = 0; i < width_ / 2; ++i) {
        const double angle = static_cast<double>(t) *
                             std::pow(spec.rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(width_));
        cosines_.push_back(static_cast<float>(std::cos(angle)));
        sines_.push_back(static_cast<float>(std::sin(angle)));
      }
  }

  bool backward_reads_output() const override { return false; }
  std::size_t workspace() const override {
    return static_cast<std::size_t>(probability_count_ + turned_count_) * sizeof(float);
  }
  void use_workspace(void* memory) override { kept_ = static_cast<float*>(memory); }

  void forward(const float* x, float* y, Phase) override {
    if (kept_ == nullptr) use_workspace((own_ = tensor::allocate_host(workspace())).data());
    const float* const from = turn(x);
    for_each_group([&](std::int64_t n, std::int64_t kv) {
      for (std::int64_t head = first_of(kv); head < first_of(kv + 1); ++head)
        for_each_block([&](std::int64_t top, std::int64_t rows, std::int64_t seen) {
          float* const p = probabilities(n, head) + top * places_;
          multiply(rows, seen, width_, scale_, query(from, n, top, head), turned_over(key(from, n, kv)), 0, p, places_);
          host::vectorized([=, this] {
            for (std::int64_t i = 0; i < rows; ++i)
              softmax(p + i * places_, spec_.causal ? spec_.before + top + i + 1 : places_, seen);
          });
          multiply(rows, width_, seen, 1, {p, places_}, value(from, n, kv), 0, out(y, n, top, head), out_row());
        });
    });
  }

  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    const float* const from = spec_.rotary_base > 0 ? turned() : x;  // as the last forward left it
    for_each_group([&](std::int64_t n, std::int64_t kv) {
      for (std::int64_t t = 0; t < places_; ++t)
        for (std::int64_t at : {key_at(n, kv), value_at(n, kv)}) std::fill_n(dx + at + t * in_.key_row, width_, 0.0f);
      float* const scores = floats(scores_) + omp_get_thread_num() * std::min(kRows, in_.queries) * places_;
      for (std::int64_t head = first_of(kv); head < first_of(kv + 1); ++head)
        for_each_block([&](std::int64_t top, std::int64_t rows, std::int64_t seen) {
          const float* const p = probabilities(n, head) + top * places_;
          const Matrix gradient{dy + ((n * in_.queries + top) * spec_.heads + head) * width_, out_row()};
          // NOLINTNEXTLINE(readability-suspicious-call-argument): the product is of a transposed matrix
          multiply(seen, width_, rows, 1, {p, places_, 'T'}, gradient, 1, dx + value_at(n, kv), in_.key_row);
          multiply(rows, seen, width_, 1, gradient, turned_over(value(from, n, kv)), 0, scores, seen);
          host::vectorized([=, this] {
            for (std::int64_t i = 0; i < rows; ++i) softmax_gradient(p + i * places_, scores + i * seen, seen);
          });
          multiply(rows, width_, seen, scale_, {scores, seen}, key(from, n, kv), 0, dx + query_at(n, top, head),
                   in_.query_row);
          // NOLINTNEXTLINE(readability-suspicious-call-argument): as before
          multiply(seen, width_, rows, scale_, {scores, seen, 'T'}, query(from, n, top, head), 1, dx + key_at(n, kv),
                   in_.key_row);
        });
    });
    if (spec_.rotary_base > 0) turn_rows(dx, dx, -1);
  }

 private:
  static float* floats(const tensor::Buffer& buffer) { return static_cast<float*>(buffer.data()); }

  std::int64_t first_of(std::int64_t kv) const { return kv * spec_.heads / kv_heads_; }
  // Where they begin in x.
  std::int64_t query_at(std::int64_t n, std::int64_t t, std::int64_t head) const {
    return n * in_.sample + t * in_.query_row + head * width_;
  }
  std::int64_t key_at(std::int64_t n, std::int64_t kv) const { return n * in_.sample + in_.keys + kv * width_; }
  std::int64_t value_at(std::int64_t n, std::int64_t kv) const { return key_at(n, kv_heads_ + kv); }
  Matrix query(const float* x, std::int64_t n, std::int64_t t, std::int64_t head) const {
    return {x + query_at(n, t, head), in_.query_row};
  }
  Matrix key(const float* x, std::int64_t n, std::int64_t kv) const { return {x + key_at(n, kv), in_.key_row}; }
  Matrix value(const float* x, std::int64_t n, std::int64_t kv) const { return {x + value_at(n, kv), in_.key_row}; }
  static Matrix turned_over(Matrix matrix) { return {matrix.data, matrix.stride, 'T'}; }
  std::int64_t out_row() const { return spec_.heads * width_; }
  float* out(float* y, std::int64_t n, std::int64_t t, std::int64_t head) const {
    return y + (n * in_.queries + t) * out_row() + head * width_;
  }
  float* probabilities(std::int64_t n, std::int64_t head) const {
    return kept_ + (n * spec_.heads + head) * in_.queries * places_;
  }

  /// Heads that share keys and values belong to one thread.
  template <class Visit>
  void for_each_group(Visit&& visit) const {
    context_.enter();
#pragma omp parallel for schedule(static) if (context_.threads() > 1)
    for (std::int64_t i = 0; i < samples_ * kv_heads_; ++i) visit(i / kv_heads_, i % kv_heads_);
  }
  /// visit(first query, queries, keys that any of them sees)
  template <class Visit>
  void for_each_block(Visit&& visit) const {
    for (std::int64_t top = 0; top < in_.queries; top += kRows) {
      const std::int64_t rows = std::min(kRows, in_.queries - top);
      visit(top, rows, spec_.causal ? spec_.before + top + rows : places_);
    }
  }

  /// Softmax of the first `seen` scores; the rest, up to `count`, become 0.
  static void softmax(float* row, std::int64_t seen, std::int64_t count) {
    const float largest = host::largest_of(seen, [=](auto i) { return row[i]; });
    for (std::int64_t i = 0; i < seen; ++i) row[i] = exp_of(row[i] - largest);
    const float part = 1 / host::sum_of(seen, [=](auto i) { return row[i]; });
    for (std::int64_t i = 0; i < seen; ++i) row[i] *= part;
    std::fill(row + seen, row + count, 0.0f);
  }
  static void softmax_gradient(const float* __restrict p, float* __restrict scores, std::int64_t count) {
    const float mean = host::sum_of(count, [=](auto i) { return p[i] * scores[i]; });
    for (std::int64_t i = 0; i < count; ++i) scores[i] = p[i] * (scores[i] - mean);
  }

  float* turned() const {
    return kept_ + probability_count_;
  }
  const float* turn(const float* x) {
    if (spec_.rotary_base <= 0) return x;
    std::copy_n(x, turned_count_, turned());
    turn_rows(x, turned(), 1);
    return turned();
  }
  /// Queries and keys; `sign` -1 turns back.
  void turn_rows(const float* from, float* result, float sign) const {
    for (std::int64_t n = 0; n < samples_; ++n)
      for (std::int64_t t = 0; t < places_; ++t) {
        if (t >= spec_.before)
          for (std::int64_t head = 0; head < spec_.heads; ++head)
            turn_row(from, result, query_at(n, t - spec_.before, head), t, sign);
        for (std::int64_t kv = 0; kv < kv_heads_; ++kv)
          turn_row(from, result, key_at(n, kv) + t * in_.key_row, t, sign);
      }
  }
  void turn_row(const float* from, float* result, std::int64_t at, std::int64_t t, float sign) const {
    const std::int64_t half = width_ / 2;
    const float* const cosine = cosines_.data() + t * half;
    const float* const sine = sines_.data() + t * half;
    for (std::int64_t i = at, k = 0; k < half; ++i, ++k) {
      const float a = from[i], b = from[i + half];
      result[i] = a * cosine[k] - sign * b * sine[k];
      result[i + half] = b * cosine[k] + sign * a * sine[k];
    }
  }

  Context& context_;
  Attention spec_;
  std::int64_t samples_;
  AttentionLayout in_;
  std::int64_t places_, kv_heads_, width_;
  float scale_;
  std::int64_t probability_count_, turned_count_;
  float* kept_ = nullptr;               // probabilities, then x with turned heads
  tensor::Buffer own_;                  // for those, if the caller gives none
  tensor::Buffer scores_;               // scores of one block, for each thread
  std::vector<float> cosines_, sines_;  // (T, D / 2)
};
}  // namespace

std::unique_ptr<Layer> make_layer(Context& context, const Attention& spec, const ActivationFormat& input) {
  return std::make_unique<AttentionLayer>(context, spec, input.shape);
}

}  // namespace distdl::kernels::onednn
