// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <distdl/base/philox.hpp>
#include <distdl/data/codecs/framed_image.hpp>
#include <distdl/data/options.hpp>
#include <distdl/data/transforms/pixel_operations.hpp>

namespace distdl::data {

/// Random numbers of one transform of one sample in one epoch: a pure function of these and the seed, the same on any
/// rank and after any restart.
class Draws {
 public:
  /// `stream`: the transform's own, so that transforms do not change each other's numbers.
  Draws(std::uint64_t seed, std::uint64_t stream, std::int64_t epoch, std::int64_t sample)
      : key_(seed ^ stream), epoch_(static_cast<std::uint64_t>(epoch)), sample_(static_cast<std::uint64_t>(sample)) {}
  std::uint32_t bits() {
    constexpr std::uint64_t kPerBlock = 4, kShift = 48;  // samples are fewer than 2^48, blocks than 2^16
    if (used_ % kPerBlock == 0) block_ = Philox::block(key_, epoch_, (used_ / kPerBlock) << kShift ^ sample_);
    return block_[used_++ % kPerBlock];
  }
  /// Uniform in [low, high).
  double between(double low, double high) { return low + (high - low) * static_cast<double>(Philox::uniform(bits())); }
  /// One of 0 .. count - 1.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(std::uint64_t{bits()} * static_cast<std::uint64_t>(count) >> 32);
  }

 private:
  std::uint64_t key_, epoch_, sample_, used_ = 0;
  Philox::Block block_{};
};

/// The normalized values of an image, (channels, height, width).
struct Values {
  std::int64_t channels = 0, height = 0, width = 0;
  float* floats = nullptr;
};

/// A random change of training images. Each is in a file of its own, and changes one of the forms that an image passes
/// through; the other functions are null.
struct Transform {
  std::string_view name;
  std::uint64_t stream;  ///< the key of its random numbers
  bool (*is_used)(const Options& options);
  /// Changes which part of an encoded image is seen, see Frame.
  void (*frame)(const Options& options, Draws& draws, std::int64_t width, std::int64_t height, std::int64_t size,
                Frame& frame) = nullptr;
  void (*pixels)(const Options& options, Draws& draws, const Pixels& image) = nullptr;
  void (*values)(const Options& options, Draws& draws, const Values& image) = nullptr;
};

Transform random_resized_crop();
Transform random_mirror();
Transform rand_augment();
Transform color_jitter();
Transform random_erasing();

/// All transforms, in the order of their use.
std::span<const Transform> transforms();

/// The transforms of a training set, as functions of epoch and sample.
class SampleTransforms {
 public:
  /// `trains`: else there are none.
  SampleTransforms(const Options& options, std::uint64_t seed, bool trains);
  bool changes_pixels() const noexcept { return changes_pixels_; }
  void frame(std::int64_t epoch, std::int64_t sample, std::int64_t width, std::int64_t height, std::int64_t size,
             Frame& frame) const;
  void pixels(std::int64_t epoch, std::int64_t sample, const Pixels& image) const;
  void values(std::int64_t epoch, std::int64_t sample, const Values& image) const;

 private:
  /// Calls use(transform, draws) for those whose function `form` is not null.
  template <class Form, class Use>
  void each(Form form, std::int64_t epoch, std::int64_t sample, const Use& use) const;

  Options options_;
  std::uint64_t seed_;
  std::vector<Transform> used_;
  bool changes_pixels_;
};

/// The factors that ColorJitter draws from, for a strength of data.color_jitter. `middle`: the one that changes
/// nothing.
std::pair<double, double> jitter_range(double middle, double strength);

/// A crop of torchvision's RandomResizedCrop from an image: ten times a random area and ratio of sides, and then the
/// centre.
Frame random_crop(Draws& draws, double least_area, std::int64_t width, std::int64_t height, std::int64_t size);

}  // namespace distdl::data
