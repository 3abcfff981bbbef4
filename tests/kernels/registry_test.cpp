// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/options.hpp>

namespace distdl::kernels {
namespace {
using testing::Contains;
using testing::HasSubstr;

std::string message_of(const Options& options) {
  try {
    make_backend(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Backends, ReferenceIsAlwaysBuiltAndLast) {
  EXPECT_EQ(built_backends().back(), "reference");
}

TEST(Backends, AutoTakesOneThatIsBuilt) {
  auto backend = make_backend({});
  EXPECT_THAT(built_backends(), Contains(backend->name()));
  EXPECT_THAT(backend->description(), HasSubstr(backend->name() == "onednn" ? "oneDNN" : backend->name()));
}

TEST(Backends, AnUnknownNameNamesTheKnown) {
  EXPECT_THAT(message_of({.backend = "onednm"}), HasSubstr("must be auto, cuda, onednn, reference"));
}

TEST(Backends, OneThatIsNotBuiltSaysHowToGetIt) {
  for (std::string name : {"cuda", "onednn"}) {
    auto built = built_backends();
    if (std::find(built.begin(), built.end(), name) != built.end()) continue;
    EXPECT_THAT(message_of({.backend = name}), HasSubstr("configure with -DDISTDL_"));
  }
}

TEST(Backends, NoThreadsIsAnError) {
  EXPECT_THAT(message_of({.backend = "reference", .threads = 0}), HasSubstr("kernels.threads is 0"));
}
}  // namespace
}  // namespace distdl::kernels
