// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::kernels::onednn::winograd {

/// The images of a convolution with 3x3 weights and stride 1, and the tiles that its output is cut into: side x side
/// pixels each, all of an image in rows, image after image. Sizes are in pixels.
struct TileGrid {
  std::int64_t height, width, padding;  ///< the input's, without padding; padding on each side
  std::int64_t out_height, out_width;   ///< height + 2 * padding - 2, and so on
  std::int64_t tiles_high, tiles_wide;  ///< in each image
  std::int64_t block;                   ///< room for tiles in a Transformed: a multiple of Loops::rows
};

/// For each point, a matrix of rows by channels: panels of 2 * lanes channels, and in a panel row after row. The rows
/// are tiles, or the channels of the other side of a convolution.
struct Transformed {
  float* values;
  std::int64_t stride;  ///< floats from one point to the next
};

/// The loops for one kind of processor and one size of tiles. Images are floats in blocks of `lanes` channels (oneDNN's
/// nChw16c or nChw8c), weights are dense: out, in, 3, 3. A panel is 2 * lanes channels. [first, first + count) are
/// tiles of all images; in a block they are its first rows.
/// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016, with the points 0, +-sqrt(1/2),
/// +-sqrt(2) and infinity (side 4), which round less than their 0, +-1, +-2; or 0, +-1 and infinity (side 2).
struct Loops {
  std::int64_t lanes;
  std::int64_t rows;    ///< that multiply() computes at once
  std::int64_t side;    ///< pixels of the output in a tile, in each direction
  std::int64_t points;  ///< (side + 2)^2

  /// Input tiles, with the pixels around them; rows up to the next multiple of `rows` become 0.
  void (*transform_images)(const TileGrid&, const float* x, std::int64_t channels, std::int64_t panel,
                           std::int64_t first, std::int64_t count, Transformed to);
  /// Tiles of the output's gradient, for the gradient of the weights.
  void (*transform_gradients)(const TileGrid&, const float* dy, std::int64_t channels, std::int64_t panel,
                              std::int64_t first, std::int64_t count, Transformed to);
  /// A panel of outputs, whose rows are inputs. `turned`: inputs and outputs change places and each 3x3 is rotated by
  /// half a turn, as the gradient of the input needs it.
  void (*transform_weights)(const float* weights, std::int64_t out, std::int64_t in, bool turned, std::int64_t panel,
                            Transformed to);
  /// At each point, a panel of the product of the first `count` tiles of a block (rows up to the next multiple of
  /// `rows`) and a panel of weights.
  void (*multiply)(Transformed images, std::int64_t block, std::int64_t count, std::int64_t channels,
                   Transformed weights, Transformed to);
  /// At each point: to (+)= the transposed images times a panel of the gradients, all of a block's first `count` tiles.
  /// The rows of `to` are the images' channels.
  void (*multiply_transposed)(Transformed images, std::int64_t block, std::int64_t count, std::int64_t channels,
                              Transformed gradients, std::int64_t panel, bool add, Transformed to);
  /// Pixels of the output from a panel of products; `bias` may be null.
  void (*restore_images)(const TileGrid&, Transformed products, std::int64_t channels, std::int64_t panel,
                         std::int64_t first, std::int64_t count, const float* bias, float* y);
  /// Gradients of the weights of a panel of outputs.
  void (*restore_weights)(Transformed products, std::int64_t in, std::int64_t panel, float* weights);
};

/// Large tiles need the fewest products; small ones serve small images.
struct LoopsOfProcessor {
  Loops large, small;
};
extern const LoopsOfProcessor kBaseline;       ///< any processor of this architecture
extern const LoopsOfProcessor kAvx2, kAvx512;  ///< x86 only

/// The widest that oneDNN may use on this processor: its highest instruction set can be limited.
const LoopsOfProcessor& loops();

}  // namespace distdl::kernels::onednn::winograd
