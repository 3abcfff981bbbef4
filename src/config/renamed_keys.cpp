// SPDX-License-Identifier: Apache-2.0
#include <distdl/config/renamed_keys.hpp>

namespace distdl::config {

const std::vector<RenamedKey>& renamed_keys() {
  static const std::vector<RenamedKey> keys{
      // A line goes with the version after the one that brought it.
      {"parallel.servers", "cluster.ps.tasks"},
      {"parallel.server_placement", "cluster.ps.placement"},
  };
  return keys;
}

}  // namespace distdl::config
