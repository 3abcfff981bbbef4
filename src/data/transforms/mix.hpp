// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <distdl/data/options.hpp>
#include <distdl/data/transforms/transform.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::data {

/// A way to mix two images and their labels. Each is in a file of its own.
struct Mix {
  std::string_view name;
  std::uint64_t stream;                     ///< the key of its random numbers
  double (*alpha)(const Options& options);  ///< parameter of the Beta distribution of shares; 0: not used
  /// Prepares for images of this shape, of which the first is to have `share`.
  struct Plan {
    float share = 1;                                     ///< share of the label of the image itself
    std::int64_t top = 0, left = 0, high = 0, wide = 0;  ///< the rectangle that comes from the other image
  };
  Plan (*plan)(Draws& draws, double share, const tensor::Shape& image);
  void (*apply)(const Plan& plan, const tensor::Shape& image, float* values, const float* other);
};

Mix mixup();
Mix cutmix();

/// All of them.
std::span<const Mix> mixes();

/// A number from Beta(alpha, alpha).
double beta(Draws& draws, double alpha);

}  // namespace distdl::data
