// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/kernels/onednn/planes.hpp>

namespace distdl::kernels::onednn {
using dnnl::memory;

Planes planes_of(const ActivationFormat& format) {
  using tag = memory::format_tag;
  std::int64_t channels = format.shape[1];
  memory::desc desc = desc_of(format);
  for (auto [candidate, lanes] :
       {std::pair<tag, std::int64_t>{tag::nchw, 1}, {tag::nChw16c, 16}, {tag::nChw8c, 8}, {tag::nhwc, channels}})
    if (desc == memory::desc(format.shape, type_of(format.type), candidate))
      return {candidate,       format.type,     format.shape[0] * ((channels + lanes - 1) / lanes),
              format.shape[2], format.shape[3], lanes};
  throw ConfigError(
      fmt::format("oneDNN chose a format for an activation of shape {} that the onednn backend does not support; "
                  "set kernels.backend = \"reference\" and report this",
                  tensor::to_string(format.shape)));
}

ActivationFormat format_of(const tensor::Shape& shape, const Planes& planes) {
  return format_of(shape, planes.type, memory::desc(shape, type_of(planes.type), planes.tag));
}

}  // namespace distdl::kernels::onednn
