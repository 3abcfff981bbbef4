// SPDX-License-Identifier: Apache-2.0
#include <distdl/app/program.hpp>
#include <distdl/base/process_start.hpp>

namespace {
void prepare(int argc, char** argv, char**) noexcept {
  distdl::before_libraries();
  distdl::answer_early_stops(argc, argv);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const first)(int, char**, char**) noexcept = &prepare;
}  // namespace

int main(int argc, char** argv) {
  return distdl::app::program(argc, argv);
}
