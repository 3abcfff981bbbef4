// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace distdl {

/// Whether this user can run a program of this name, which is searched on PATH.
bool is_on_path(const std::string& program);
/// Its file; empty if there is none.
std::string found_on_path(const std::string& program);

}  // namespace distdl
