// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/files/inputs.hpp>

namespace distdl {

void require_not_input(const std::filesystem::path& output, const std::vector<std::filesystem::path>& inputs) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path place = fs::canonical(output, error);
  if (error) return;  // nothing is replaced, or writing tells why
  for (const auto& input : inputs)
    for (fs::path above = place;; above = above.parent_path()) {
      require<UsageError>(!fs::equivalent(above, input, error), "\"{}\" is {} what is read; write to another file",
                          output.string(), above == place ? "itself" : "part of");
      if (above == above.parent_path()) break;
    }
}

}  // namespace distdl
