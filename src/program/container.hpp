// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace distdl::program {

/// The words of run.container, with what only this start of the program knows. Podman lets nothing in by itself: behind
/// "podman run" come options for the variables (names, or "PMIX_*"), the folders at the same paths, and the machine's
/// network, shared memory and process numbers, which libraries of ranks use among themselves; the user's options count
/// for more. Other engines let all variables and the folder of temporary files in, and stay as they are.
std::vector<std::string> words_of_container(const std::vector<std::string>& given,
                                            const std::vector<std::string>& variables,
                                            const std::vector<std::string>& folders);

}  // namespace distdl::program
