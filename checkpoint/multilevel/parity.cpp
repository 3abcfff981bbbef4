// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/multilevel/level.hpp>

namespace distdl::checkpoint {
namespace {

void check_set(const Options& options) {
  require(options.parity_set >= 3 && options.parity_set <= 1024,
          "checkpoint.parity_set is {}, but must be between 3 and 1024", options.parity_set);
}

}  // namespace

extern const Level kParity;
const Level kParity{.name = "parity",
                    .in_memory = true,
                    .key = "checkpoint.parity_every",
                    .every = &Options::parity_every,
                    .check = &check_set};

}  // namespace distdl::checkpoint
