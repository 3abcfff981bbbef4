// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/set_writer.hpp>
#include <distdl/data/shapes.hpp>
#include <distdl/data/synthetic/figures.hpp>

namespace distdl::data {
namespace {

constexpr std::uint64_t kShapesStream = 0x736861706573ull;  // "shapes": apart from other uses of the same seed
constexpr std::uint64_t kNoise = std::uint64_t{1} << 63;    // upper half of the counters: noise of pixels

/// Numbers of one sample, one after the other.
class Random {
 public:
  Random(std::uint64_t seed, std::int64_t sample)
      : seed_(seed ^ kShapesStream), sample_(static_cast<std::uint64_t>(sample)) {}
  std::uint32_t bits() {
    if (used_ % 4 == 0) block_ = Philox::block(seed_, sample_, used_ / 4);
    return block_[used_++ % 4];
  }
  float between(float low, float high) { return low + (high - low) * Philox::uniform(bits()); }
  /// Cosine and sine of an angle whose half has a tangent of at most `limit`. No trigonometry: its last bit differs
  /// between machines.
  Point turn(float limit) {
    float t = between(-limit, limit);
    return {(1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)};
  }

 private:
  std::uint64_t seed_, sample_, used_ = 0;
  Philox::Block block_{};
};

/// Everything that the picture shows, but for the brightnesses and the noise. Lengths are in halves of the image. The
/// ranges are chosen so that a small convolutional network learns 12,000 of them nearly perfectly in a few epochs and a
/// linear classifier does not: turned by up to 30 degrees, say, because with any turn LeNet got 93% in 8 epochs.
struct Scene {
  explicit Scene(Random& random)
      : centre{random.between(-0.2f, 0.2f), random.between(-0.2f, 0.2f)},
        turn(random.turn(0.27f)),
        radius(random.between(0.6f, 0.8f)),
        stretch(random.between(0.9f, 1.1f)),
        thickness(random.between(0.18f, 0.3f)),
        gradient(random.turn(1)),
        covered(random.between(0, 1) < 0.2f),
        cover_centre{random.between(-0.8f, 0.8f), random.between(-0.8f, 0.8f)},
        cover_half{random.between(0.08f, 0.25f), random.between(0.08f, 0.25f)} {}

  /// Share of the pixel of edge `pixel` at p that the figure covers, 0 to 1.
  float inside(const Figure& figure, Point p, float pixel) const {
    float x = p.x - centre.x, y = p.y - centre.y;
    Point q{(turn.x * x + turn.y * y) / (radius * stretch), (turn.x * y - turn.y * x) / (radius / stretch)};
    return std::clamp(0.5f - figure.distance(q, thickness) * radius / pixel, 0.0f, 1.0f);
  }
  bool hidden(Point p) const {
    return covered && std::abs(p.x - cover_centre.x) < cover_half.x && std::abs(p.y - cover_centre.y) < cover_half.y;
  }

  Point centre, turn;
  float radius, stretch, thickness;
  Point gradient;
  bool covered;
  Point cover_centre, cover_half;
};

/// Brightnesses of one channel, 0 to 1.
struct Light {
  explicit Light(Random& random)
      : background(random.between(0.1f, 0.4f)),
        slope(random.between(-0.2f, 0.2f)),
        contrast(random.between(0.3f, 0.6f)),
        cover(random.between(0, 1)) {}
  float background, slope, contrast, cover;
};

/// About normal, deviation 1: the sum of the four bytes.
float normal(std::uint32_t bits) {
  int sum = static_cast<int>((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24));
  return static_cast<float>(sum - 510) / 147.8005f;
}

void add_noise(const ShapesOptions& options, std::int64_t sample, std::span<float> values) {
  auto amount = static_cast<float>(options.noise);
  for (std::size_t i = 0; i < values.size(); i += 4) {
    auto bits = Philox::block(options.seed ^ kShapesStream, static_cast<std::uint64_t>(sample), kNoise | i / 4);
    for (std::size_t k = i; k < std::min(i + 4, values.size()); ++k) values[k] += amount * normal(bits[k - i]);
  }
}

void paint(const Figure& figure, const Scene& scene, std::span<const Light> lights, std::int64_t size,
           std::span<float> values) {
  const float pixel = 2.0f / static_cast<float>(size);
  const auto width = static_cast<std::size_t>(size), plane = width * width;
  for (std::size_t i = 0; i < plane; ++i) {
    std::size_t column = i % width, row = i / width;
    Point p{(static_cast<float>(column) + 0.5f) * pixel - 1, (static_cast<float>(row) + 0.5f) * pixel - 1};
    float share = scene.inside(figure, p, pixel), along = scene.gradient.x * p.x + scene.gradient.y * p.y;
    bool hidden = scene.hidden(p);
    for (std::size_t c = 0; c < lights.size(); ++c) {
      const Light& light = lights[c];
      values[c * plane + i] = hidden ? light.cover : light.background + light.slope * along + light.contrast * share;
    }
  }
}

void check(const ShapesOptions& options) {
  auto most = static_cast<std::int64_t>(figures().size());
  require(options.samples >= 1, "--samples is {}, but must be at least 1", options.samples);
  require(options.size >= 8 && options.size <= 4096, "--size is {}, but must be 8 to 4096 pixels", options.size);
  require(options.channels >= 1 && options.channels <= 16, "--channels is {}, but must be 1 to 16", options.channels);
  require(options.classes >= 2 && options.classes <= most, "--classes is {}, but must be 2 to {}", options.classes,
          most);
  require(options.noise >= 0 && options.noise <= 1, "--noise is {}, but must be 0 to 1", options.noise);
}

}  // namespace

std::int32_t draw_shape(const ShapesOptions& options, std::int64_t sample, std::span<std::uint8_t> pixels) {
  check(options);
  Random random(options.seed, sample);
  auto label = static_cast<std::int32_t>(random.bits() % static_cast<std::uint32_t>(options.classes));
  Scene scene(random);
  std::vector<Light> lights;
  for (std::int64_t c = 0; c < options.channels; ++c) lights.emplace_back(random);
  std::vector<float> values(static_cast<std::size_t>(options.channels * options.size * options.size));
  require(pixels.size() == values.size(), "an image of {} values does not fit into {}", values.size(), pixels.size());
  paint(figures()[static_cast<std::size_t>(label)], scene, lights, options.size, values);
  add_noise(options, sample, values);
  std::transform(values.begin(), values.end(), pixels.begin(), [](float value) {
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): never negative, and another rounding is another set
    return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 1.0f) * 255.0f + 0.5f);
  });
  return label;
}

Description make_shapes(const ShapesOptions& options, const std::filesystem::path& output, Overwrite overwrite) {
  check(options);
  SetWriter writer(output,
                   {.kind = kImages,
                    .origin = fmt::format("shapes seed={} noise={}", options.seed, options.noise),
                    .samples = options.samples,
                    .shape = {options.channels, options.size, options.size},
                    .classes = options.classes},
                   overwrite);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(options.channels * options.size * options.size));
  for (std::int64_t sample = 0; sample < options.samples; ++sample) {
    std::int32_t label = draw_shape(options, sample, pixels);
    writer.append(pixels, {&label, 1});
    work_done(WorkUnit::samples, 1);
  }
  return writer.commit();
}

}  // namespace distdl::data
