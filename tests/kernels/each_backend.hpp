// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <distdl/kernels/backend.hpp>

namespace distdl::kernels::test {

/// The known backends, built or not.
const std::vector<std::string>& known_backends();

/// Makes the backend, or returns nullptr and says in `reason` why it is not here.
std::unique_ptr<Backend> try_backend(const std::string& name, std::string& reason,
                                     const std::string& precision = "fp32", bool deterministic = true);

/// A test that runs on each known backend; one that is not built, or cannot run here, skips and says why.
class EachBackend : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string reason;
    backend_ = try_backend(GetParam(), reason);
    if (!backend_) GTEST_SKIP() << reason;
  }

  std::unique_ptr<Backend> backend_;
};

inline std::string name_of_backend(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace distdl::kernels::test

#define DISTDL_ON_EACH_BACKEND(fixture) \
  INSTANTIATE_TEST_SUITE_P(On, fixture, testing::ValuesIn(known_backends()), name_of_backend)
