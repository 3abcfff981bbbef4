// SPDX-License-Identifier: Apache-2.0
// The table of transforms.
#include <array>

#include <distdl/data/transforms/transform.hpp>

namespace distdl::data {

std::span<const Transform> transforms() {
  static const std::array all{random_resized_crop(), random_mirror()};
  return all;
}

}  // namespace distdl::data
