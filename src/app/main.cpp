// SPDX-License-Identifier: Apache-2.0
#include <distdl/app/program.hpp>
#include <distdl/base/process_start.hpp>

namespace {
[[gnu::section(".preinit_array"), gnu::used]] void (*const first)() noexcept = &distdl::before_libraries;
}  // namespace

int main(int argc, char** argv) {
  return distdl::app::program(argc, argv);
}
