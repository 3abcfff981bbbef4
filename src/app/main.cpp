// SPDX-License-Identifier: Apache-2.0
#include <distdl/app/program.hpp>

int main(int argc, char** argv) {
  return distdl::app::program(argc, argv);
}
