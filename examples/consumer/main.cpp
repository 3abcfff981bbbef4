// SPDX-License-Identifier: Apache-2.0
// Lays two tensors into a flat arena and says where they lie.
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include <distdl/tensor/arena.hpp>
#include <distdl/version.hpp>

int main() {
  distdl::tensor::ArenaLayout layout;
  layout.add("weight", {10, 20});
  layout.add("bias", {10});
  for (const auto& view : layout.tensors())
    fmt::print("{} {} at {}\n", view.name, distdl::tensor::to_string(view.shape), view.offset);
  fmt::print("distdl {}: {} floats\n", distdl::version(), layout.size());
  return std::string_view(distdl::version()) == DISTDL_VERSION ? EXIT_SUCCESS : EXIT_FAILURE;
}
