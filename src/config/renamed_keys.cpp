// SPDX-License-Identifier: Apache-2.0
#include <distdl/config/renamed_keys.hpp>

namespace distdl::config {

const std::vector<RenamedKey>& renamed_keys() {
  static const std::vector<RenamedKey> keys{
      // {"train.passes", "train.epochs"}, as an example; a line goes with the version after the one that brought it.
  };
  return keys;
}

}  // namespace distdl::config
