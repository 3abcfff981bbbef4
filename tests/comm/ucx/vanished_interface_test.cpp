// SPDX-License-Identifier: Apache-2.0
// A network interface may vanish between UCX's listing and its opening. This program's ucp_worker_create() stands in
// for UCX's and reports that, as often as a test asks for it.
#include <atomic>

#include <dlfcn.h>
#include <gmock/gmock.h>

#include "tests/comm/ucx/connected_fabrics.hpp"
#include <distdl/base/errors.hpp>

namespace {
std::atomic<int> vanished = 0;  ///< interfaces that are yet to vanish
}

extern "C" __attribute__((visibility("default"))) ucs_status_t ucp_worker_create(ucp_context_h context,
                                                                                 const ucp_worker_params_t* params,
                                                                                 ucp_worker_h* worker) {
  if (vanished > 0 && vanished-- > 0) return UCS_ERR_NO_DEVICE;
  static const auto real = reinterpret_cast<decltype(&ucp_worker_create)>(::dlsym(RTLD_NEXT, "ucp_worker_create"));
  return real(context, params, worker);
}

namespace distdl::comm {
namespace {
TEST(VanishedInterface, IsListedNoMoreByTheNextTry) {
  vanished = 3;
  EXPECT_NO_THROW(Fabric{test_options()});
  EXPECT_EQ(vanished, 0);
}

TEST(VanishedInterface, IsAnErrorWhereNoneCanBeOpened) {
  vanished = 1000;
  try {
    const Fabric fabric(test_options());
    ADD_FAILURE() << "it was opened";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("ucp_worker_create: No such device"));
  }
  EXPECT_GT(vanished, 0);
  vanished = 0;
}
}  // namespace
}  // namespace distdl::comm
