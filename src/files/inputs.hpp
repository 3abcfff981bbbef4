// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace distdl {

/// Throws UsageError if writing `output` would replace what is read to write it: one of `inputs`, by whatever name, or
/// a file below an input that is a folder. Inputs that are not there are no error here.
void require_not_input(const std::filesystem::path& output, const std::vector<std::filesystem::path>& inputs);

}  // namespace distdl
