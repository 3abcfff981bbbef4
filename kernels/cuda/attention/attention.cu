// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/attention/angle_tables.hpp>
#include <distdl/kernels/cuda/layers/adapted.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/primitives/rows.cuh>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::cuda {
namespace {
/// So many scores, 256 MiB, lie in the scratch at a time, unless one group has more.
constexpr std::int64_t kScores = std::int64_t{1} << 26;

/// Groups that are computed at once: as many as fit, evenly.
std::int64_t groups_at_once(const AttentionExtents& of) {
  const std::int64_t most = std::max<std::int64_t>(1, kScores / of.scores());
  const std::int64_t passes = (of.groups() + most - 1) / most;
  return (of.groups() + passes - 1) / passes;
}

/// Parts of the device's scratch, each aligned to 256 bytes.
class Workspace {
 public:
  explicit Workspace(void* start) : next_(static_cast<float*>(start)) {}
  float* take(std::int64_t floats) {
    used_ += (floats + 63) / 64 * 64;
    return next_ == nullptr ? nullptr : std::exchange(next_, next_ + (floats + 63) / 64 * 64);
  }
  std::size_t bytes() const { return sizeof(float) * static_cast<std::size_t>(used_); }

 private:
  float* next_;
  std::int64_t used_ = 0;
};

/// Keeps nothing for backward, which computes the probabilities again from x.
class AttentionLayer : public Stateless {
 public:
  bool backward_reads_output() const override { return false; }
  AttentionLayer(SharedDevice device, const Attention& spec, const tensor::Shape& input)
      : Stateless(dense(output_shape(spec, input))),
        device_(std::move(device)),
        of_(extents_of(spec, input)),
        at_once_(groups_at_once(of_)),
        scale_(1 / std::sqrt(static_cast<float>(of_.width))),
        tables_(*device_, of_, spec.rotary_base) {
    device_->reserve_scratch(take_parts(nullptr).bytes);
  }

  void forward(const float* x, float* y, Phase) override {
    const Parts parts = take_parts(device_->scratch());
    for_each_row(*device_, of_.all_heads(), TakeHeads{of_, x, parts.heads, tables_.get()});
    for_each_pass([&](std::int64_t group, std::int64_t count) {
      compute_probabilities(parts, group, count);
      multiply(*device_, of_.mix(), count, 1, parts.heads.values + group * keys(), parts.probabilities,
               parts.outputs + group * queries());
    });
    for_each_row(*device_, of_.y_heads(), JoinHeads{of_, parts.outputs, y});
  }

  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    const Parts parts = take_parts(device_->scratch());
    for_each_row(*device_, of_.all_heads(), TakeHeads{of_, x, parts.heads, tables_.get()});
    for_each_row(*device_, of_.y_heads(), SplitOutput{of_, dy, parts.outputs});
    for_each_pass([&](std::int64_t group, std::int64_t count) {
      compute_probabilities(parts, group, count);
      compute_gradients(parts, group, count);
    });
    for_each_row(*device_, of_.all_heads(), ReturnHeads{of_, parts.gradients, dx, tables_.get()});
  }

 private:
  struct Parts {
    SplitHeads heads, gradients;
    float* outputs;        ///< or dy
    float* probabilities;  ///< probabilities of the groups of a pass
    float* dscores;        ///< likewise
    std::size_t bytes;
  };
  Parts take_parts(void* scratch) const {
    Workspace workspace(scratch);
    Parts parts{};
    for (SplitHeads* heads : {&parts.heads, &parts.gradients}) {
      heads->queries = workspace.take(of_.queries());
      heads->keys = workspace.take(of_.keys());
      heads->values = workspace.take(of_.keys());
    }
    parts.outputs = workspace.take(of_.queries());
    parts.probabilities = workspace.take(at_once_ * of_.scores());
    parts.dscores = workspace.take(at_once_ * of_.scores());
    parts.bytes = workspace.bytes();
    return parts;
  }

  void compute_probabilities(const Parts& parts, std::int64_t group, std::int64_t count) {
    multiply(*device_, of_.compare(), count, scale_, parts.heads.keys + group * keys(),
             parts.heads.queries + group * queries(), parts.probabilities);
    for_each_row(*device_, count * of_.group_rows(), SoftmaxOfScores{of_, parts.probabilities});
  }

  void compute_gradients(const Parts& parts, std::int64_t group, std::int64_t count) {
    const float* const dy = parts.outputs + group * queries();
    const std::int64_t key = group * keys(), query = group * queries();
    multiply(*device_, of_.collect(), count, 1, dy, parts.probabilities, parts.gradients.values + key);
    multiply(*device_, of_.compare(), count, 1, parts.heads.values + key, dy, parts.dscores);
    for_each_row(*device_, count * of_.group_rows(), SoftmaxOfScoresGradient{of_, parts.probabilities, parts.dscores});
    multiply(*device_, of_.mix(), count, scale_, parts.heads.keys + key, parts.dscores,
             parts.gradients.queries + query);
    multiply(*device_, of_.collect(), count, scale_, parts.heads.queries + query, parts.dscores,
             parts.gradients.keys + key);
  }

  template <class Pass>
  void for_each_pass(const Pass& pass) const {
    for (std::int64_t group = 0; group < of_.groups(); group += at_once_)
      pass(group, std::min(at_once_, of_.groups() - group));
  }

  // Elements of one group.
  std::int64_t queries() const { return of_.group_rows() * of_.width; }
  std::int64_t keys() const { return of_.places * of_.width; }

  SharedDevice device_;
  AttentionExtents of_;
  std::int64_t at_once_;  // groups
  float scale_;
  AngleTables tables_;
};
}  // namespace

AngleTables::AngleTables(const Device& device, const AttentionExtents& of, double rotary_base) {
  if (rotary_base <= 0) return;
  const std::int64_t half = of.places * (of.width / 2);
  tables_ = device.allocate(sizeof(float) * 2 * static_cast<std::size_t>(half));
  angles_ = {static_cast<float*>(tables_.data()), static_cast<float*>(tables_.data()) + half};
  for_each(device, static_cast<std::size_t>(half), FillAngles{angles_, rotary_base, of.width});
}

std::unique_ptr<Layer> make_layer(SharedDevice device, const Attention& spec, const ActivationFormat& input) {
  const std::int64_t width = extents_of(spec, input.shape).width;
  const bool is_chunk = spec.queries > 0;
  if (!is_chunk && input.type != tensor::DataType::float32 && width % 8 == 0) {
    if (auto layer = make_dnn_attention(device, spec, input)) return layer;
    if (width <= 128) return make_flash_attention(std::move(device), spec, input);
  }
  auto layer = std::make_unique<AttentionLayer>(device, spec, input.shape);
  return adapted(device, std::move(layer), dense(input.shape), input,
                 dense(output_shape(spec, input.shape), input.type));
}

}  // namespace distdl::kernels::cuda
