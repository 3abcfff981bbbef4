// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/onednn/context.hpp>

namespace distdl::kernels::onednn {

/// A format of images as planes of pixels, where a pixel has the values of some adjacent channels: 16 in nChw16c, all
/// of them in nhwc, and one in dense nchw. The padding of a block is zero and must stay zero.
struct Planes {
  dnnl::memory::format_tag tag;
  tensor::DataType type;
  std::int64_t count, height, width, lanes;
  std::int64_t size() const { return height * width * lanes; }
};

/// Throws ConfigError for a format of another kind.
Planes planes_of(const ActivationFormat& format);
/// The format of another shape with the tag of `planes`.
ActivationFormat format_of(const tensor::Shape& shape, const Planes& planes);

}  // namespace distdl::kernels::onednn
