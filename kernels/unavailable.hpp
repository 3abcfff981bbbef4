// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/base/errors.hpp>

namespace distdl::kernels {

/// The backend is not available here: not built, no GPU, no driver, or a library is missing.
class BackendUnavailable : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

}  // namespace distdl::kernels
