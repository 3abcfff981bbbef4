// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/onednn/context.hpp>

namespace distdl::kernels::onednn {

/// A format of images seen as planes of pixels, where a pixel is the values of a few channels that lie side by side: 16
/// in nChw16c, all of them in nhwc, one in dense nchw. What fills up a block is zero and must stay so.
struct Planes {
  dnnl::memory::format_tag tag;
  dnnl::memory::data_type type;
  std::int64_t count, height, width, lanes;
  std::int64_t size() const { return height * width * lanes; }
};

/// Throws ConfigError for a format of another kind.
Planes planes_of(const ActivationFormat& format);
/// The format with the tag of `planes` for another shape.
ActivationFormat format_of(const tensor::Shape& shape, const Planes& planes);

}  // namespace distdl::kernels::onednn
