// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>

#include <omp.h>

#include <distdl/kernels/onednn/operation.hpp>
#include <distdl/kernels/onednn/winograd/conv2d.hpp>
#include <distdl/kernels/onednn/winograd/loops.hpp>

namespace distdl::kernels::onednn::winograd {
namespace {
constexpr std::int64_t kTaps = 9;

std::int64_t quotient_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

/// A convolution of images in tiles.
struct Pass {
  const Loops* loops;
  std::int64_t images, in, out;  ///< `in` and `out` are channels
  TileGrid grid;

  std::int64_t tiles() const { return images * grid.tiles_high * grid.tiles_wide; }
  std::int64_t blocks() const { return quotient_up(tiles(), grid.block); }
  std::int64_t panel() const { return 2 * loops->lanes; }
};

/// Cuts the images into tiles, and these into blocks of at least one for each thread.
Pass pass_of(const Loops& loops, std::int64_t images, std::int64_t in, std::int64_t out, TileGrid grid, int threads) {
  grid.tiles_high = quotient_up(grid.out_height, loops.side);
  grid.tiles_wide = quotient_up(grid.out_width, loops.side);
  Pass pass{&loops, images, in, out, grid};
  // A block's tiles take as much memory as the weights, so that a cache holds both; of many channels the weights are
  // too large for one, and the block is as large as pays.
  constexpr std::int64_t kMost = 1 << 14;
  const std::int64_t channels = std::max(in, out), most = quotient_up(pass.tiles(), threads);
  pass.grid.block = loops.rows * quotient_up(std::min({channels, kMost / channels, most}), loops.rows);
  return pass;
}

/// In products for each pair of channels. The transforms of weights take the time of some tiles more.
double cost_of(const Pass& pass) {
  constexpr std::int64_t kWeights = 8;
  const Loops& loops = *pass.loops;
  return static_cast<double>(loops.points * (loops.rows * quotient_up(pass.tiles(), loops.rows) + kWeights));
}
double cost_of_direct(const Pass& pass) {
  constexpr double kOfProduct = 0.6;  // no transforms
  return kOfProduct * static_cast<double>(kTaps * pass.images * pass.grid.out_height * pass.grid.out_width);
}

/// Absent where a direct convolution is faster or the only one.
std::optional<Pass> forward_pass(const Conv2d& spec, const ActivationFormat& input, int threads) {
  constexpr std::int64_t kLeastChannels = 32;  // with fewer, the transforms take more time than they save
  if (spec.kernel != 3 || spec.stride != 1 || spec.dilation != 1 || spec.groups != 1) return {};
  const tensor::Shape &in = input.shape, out = output_shape(spec, in);
  if (input.type != tensor::DataType::float32 || std::min(in[1], out[1]) < kLeastChannels) return {};
  const auto pass_by = [&](const Loops& loops) {
    return pass_of(loops, in[0], in[1], out[1], {in[2], in[3], spec.padding, out[2], out[3], 0, 0, 0}, threads);
  };
  const Pass large = pass_by(loops().large), small = pass_by(loops().small);
  const Pass& best = cost_of(large) <= cost_of(small) ? large : small;
  if (in[1] % best.panel() != 0 || out[1] % best.panel() != 0 || cost_of(best) > cost_of_direct(best)) return {};
  return best;
}

/// Its input is the output's gradient, its output the input's.
Pass backward_pass(const Pass& forward, int threads) {
  const TileGrid& grid = forward.grid;
  return pass_of(*forward.loops, forward.images, forward.out, forward.in,
                 {grid.out_height, grid.out_width, 2 - grid.padding, grid.height, grid.width, 0, 0, 0}, threads);
}

/// Some arrays one after the other, each of all points with `values` at each.
class Arrays {
 public:
  Arrays(const Pass& pass, std::int64_t count, std::int64_t values, std::int64_t first = 0)
      : first_(first), stride_(values + kApart), array_(pass.loops->points * stride_), end_(first + count * array_) {}
  std::int64_t end() const { return end_; }
  Transformed at(float* memory, std::int64_t i) const { return {memory + first_ + i * array_, stride_}; }

 private:
  static constexpr std::int64_t kApart = 16;  // else the points of a tile might share one set of a cache
  std::int64_t first_, stride_, array_, end_;
};

/// The memory of convolve(): for each thread a block of tiles and a panel of its products, and the panels of weights;
/// one panel of them is enough where each is used once.
struct ConvolutionArrays {
  ConvolutionArrays(const Pass& pass, int threads)
      : panels(pass.blocks() == 1 ? 1 : pass.out / pass.panel()),
        tiles(pass, threads, pass.in * pass.grid.block),
        products(pass, threads, pass.panel() * pass.grid.block, tiles.end()),
        weights(pass, panels, pass.in * pass.panel(), products.end()) {}
  std::int64_t panels;
  Arrays tiles, products, weights;
};

/// Memory for the gradient of weights: a block of both sides' tiles and the panels of the gradient.
struct GradientArrays {
  GradientArrays(const Pass& pass, int threads)
      : panels(pass.blocks() == 1 && threads == 1 ? 1 : pass.out / pass.panel()),
        tiles(pass, 1, pass.in * pass.grid.block),
        gradients(pass, 1, pass.out * pass.grid.block, tiles.end()),
        weights(pass, panels, pass.in * pass.panel(), gradients.end()) {}
  std::int64_t panels;
  Arrays tiles, gradients, weights;
};

class WinogradConv2d : public Layer {
 public:
  WinogradConv2d(Context& context, const Conv2d& spec, const ActivationFormat& input, const Pass& forward)
      : context_(context),
        has_bias_(spec.bias),
        forward_(forward),
        backward_(backward_pass(forward, context.threads())),
        for_forward_(forward_, context.threads()),
        for_backward_(backward_, context.threads()),
        for_weights_(forward_, context.threads()) {
    using tag = dnnl::memory::format_tag;
    const auto blocked = [&](const tensor::Shape& shape) {
      return dnnl::memory::desc(shape, type_of(input.type), forward.loops->lanes == 8 ? tag::nChw8c : tag::nChw16c);
    };
    const tensor::Shape out = output_shape(spec, input.shape);
    output_ = format_of(out, input.type, blocked(out));
    x_ = {context, desc_of(input), blocked(input.shape)};
    dx_ = {context, desc_of(input), blocked(input.shape)};
    const std::int64_t most =
        std::max({for_forward_.weights.end(), for_backward_.weights.end(), for_weights_.weights.end()});
    context.reserve_scratchpad(static_cast<std::size_t>(most) * sizeof(float));
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = has_bias_ ? parameters[1] : nullptr;
  }

  void forward(const void* x, void* y, Phase) override {
    convolve(forward_, for_forward_, false, static_cast<const float*>(x_.load(x)), bias_, static_cast<float*>(y));
  }

  void backward_input(const void*, const void*, const void* dy, void* dx) override {
    convolve(backward_, for_backward_, true, static_cast<const float*>(dy), nullptr,
             static_cast<float*>(dx_.target(dx)));
    dx_.store(dx);
  }

  void backward_weights(const void* x, const void* dy, Pointers gradients) override {
    weight_gradient(static_cast<const float*>(x_.load(x)), static_cast<const float*>(dy), gradients[0]);
    if (has_bias_) bias_gradient(static_cast<const float*>(dy), gradients[1]);
  }

 private:
  float* memory() const { return static_cast<float*>(context_.scratchpad()); }

  void transform_weights(const Pass& pass, bool turned, std::int64_t panel, Transformed to) const {
    pass.loops->transform_weights(weight_, turned ? pass.in : pass.out, turned ? pass.out : pass.in, turned, panel, to);
  }

  void convolve(const Pass& pass, const ConvolutionArrays& arrays, bool turned, const float* x, const float* bias,
                float* y) const {
    const Loops& loops = *pass.loops;
    const std::int64_t blocks = pass.blocks(), block = pass.grid.block, panels = pass.out / pass.panel();
    const bool all_weights = arrays.panels == panels;
    context_.enter();
    if (all_weights) {
#pragma omp parallel for schedule(static) if (context_.threads() > 1)
      for (std::int64_t panel = 0; panel < panels; ++panel)
        transform_weights(pass, turned, panel, arrays.weights.at(memory(), panel));
    }
#pragma omp parallel for schedule(static) if (context_.threads() > 1)
    for (std::int64_t i = 0; i < blocks; ++i) {
      const int thread = omp_get_thread_num();
      const Transformed tiles = arrays.tiles.at(memory(), thread), products = arrays.products.at(memory(), thread);
      const std::int64_t first = i * block, count = std::min(block, pass.tiles() - first);
      for (std::int64_t panel = 0; panel < pass.in / pass.panel(); ++panel)
        loops.transform_images(pass.grid, x, pass.in, panel, first, count, tiles);
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const Transformed weights = arrays.weights.at(memory(), all_weights ? panel : 0);
        if (!all_weights) transform_weights(pass, turned, panel, weights);
        loops.multiply(tiles, block, count, pass.in, weights, products);
        loops.restore_images(pass.grid, products, pass.out, panel, first, count, bias, y);
      }
    }
  }

  /// Adds up one block of tiles after the other, so the threads share the channels.
  void weight_gradient(const float* x, const float* dy, float* gradient) const {
    const Pass& pass = forward_;
    const Loops& loops = *pass.loops;
    const std::int64_t blocks = pass.blocks(), block = pass.grid.block, panels = pass.out / pass.panel();
    const Transformed tiles = for_weights_.tiles.at(memory(), 0), gradients = for_weights_.gradients.at(memory(), 0);
    const std::int64_t in_panels = pass.in / pass.panel();
    context_.enter();
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t first = i * block, count = std::min(block, pass.tiles() - first);
#pragma omp parallel for schedule(static) if (context_.threads() > 1)
      for (std::int64_t panel = 0; panel < in_panels + panels; ++panel)
        if (panel < in_panels)
          loops.transform_images(pass.grid, x, pass.in, panel, first, count, tiles);
        else
          loops.transform_gradients(pass.grid, dy, pass.out, panel - in_panels, first, count, gradients);
#pragma omp parallel for schedule(static) if (context_.threads() > 1)
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const Transformed sums = for_weights_.weights.at(memory(), for_weights_.panels == 1 ? 0 : panel);
        loops.multiply_transposed(tiles, block, count, pass.in, gradients, panel, i > 0, sums);
        if (i + 1 == blocks) loops.restore_weights(sums, pass.in, panel, gradient);
      }
    }
  }

  /// Sums of rows, then of images, so that no sum has many terms.
  void bias_gradient(const float* dy, float* gradient) const {
    const std::int64_t lanes = forward_.loops->lanes, width = forward_.grid.out_width;
    std::fill_n(gradient, forward_.out, 0.0F);
    for (std::int64_t image = 0; image < forward_.images; ++image)
      for (std::int64_t channel = 0; channel < forward_.out; channel += lanes)
        for (std::int64_t row = 0; row < forward_.grid.out_height; ++row) {
          std::array<float, kMostLanes> sums{};
          for (std::int64_t column = 0; column < width; ++column, dy += lanes)
            for (std::int64_t lane = 0; lane < lanes; ++lane) sums[lane] += dy[lane];
          for (std::int64_t lane = 0; lane < lanes; ++lane) gradient[channel + lane] += sums[lane];
        }
  }

  static constexpr std::int64_t kMostLanes = 16;
  Context& context_;
  bool has_bias_;
  ActivationFormat output_;
  Pass forward_, backward_;
  ConvolutionArrays for_forward_, for_backward_;
  GradientArrays for_weights_;
  Operand x_, dx_;
  const float* weight_ = nullptr;
  const float* bias_ = nullptr;
};
}  // namespace

std::unique_ptr<Layer> make_conv2d(Context& context, const Conv2d& spec, const ActivationFormat& input) {
  const auto pass = forward_pass(spec, input, context.threads());
  if (!pass) return nullptr;
  return std::make_unique<WinogradConv2d>(context, spec, input, *pass);
}

}  // namespace distdl::kernels::onednn::winograd
