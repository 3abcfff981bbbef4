// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/base/errors.hpp>

namespace distdl::kernels {

/// A backend that this machine or this installation has not: not built, no GPU, no driver, a library is missing.
class BackendUnavailable : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

}  // namespace distdl::kernels
