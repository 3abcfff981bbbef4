// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/each_backend.hpp"

#include <distdl/base/errors.hpp>
#include <distdl/kernels/options.hpp>

namespace distdl::kernels::test {

const std::vector<std::string>& known_backends() {
  static const std::vector<std::string> names{"reference", "onednn", "cuda"};
  return names;
}

std::unique_ptr<Backend> try_backend(const std::string& name, std::string& reason, const std::string& precision,
                                     bool deterministic) {
  try {
    return make_backend({.backend = name, .precision = precision, .deterministic = deterministic});
  } catch (const ConfigError& error) {
    reason = error.what();
    return nullptr;
  }
}

}  // namespace distdl::kernels::test
