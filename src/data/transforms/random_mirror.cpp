// SPDX-License-Identifier: Apache-2.0
#include <distdl/data/transforms/transform.hpp>

namespace distdl::data {

Transform random_mirror() {
  return {.name = "mirror",
          .stream = 0x6d6972726f72,
          .is_used = [](const Options& options) { return options.mirror; },
          .frame = [](const Options&, Draws& draws, std::int64_t, std::int64_t, std::int64_t,
                      Frame& frame) { frame.mirrored = draws.bits() % 2 == 1; }};
}

}  // namespace distdl::data
