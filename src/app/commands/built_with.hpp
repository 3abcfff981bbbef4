// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace distdl::app {

/// How this program was built. Empty: unknown, or none.
struct BuiltWith {
  std::string commit;      ///< commit that was checked out when CMake configured the build, or that the release holds
  std::string compiler;    ///< "GNU 12.2.0"
  std::string processor;   ///< "x86_64"
  std::string type;        ///< "Release"
  std::string sanitizers;  ///< "address,undefined"
  std::vector<std::pair<std::string, std::string>> libraries;  ///< names and versions that CMake found
};

const BuiltWith& built_with();

}  // namespace distdl::app
