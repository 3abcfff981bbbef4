// SPDX-License-Identifier: Apache-2.0
// write_sample DIR: saves a sample with three ranks cut along rows, and beside it each tensor's bytes as DIR/<n>.raw.
#include <fstream>

#include "tests/checkpoint/sample.hpp"

int main(int, char** arguments) {
  using namespace distdl::checkpoint;
  std::filesystem::path root = arguments[1];
  Sample sample = make_sample(1, 200'000);
  if (!all_empty(save_as(root, 3, distdl::Step(5), sample))) return 1;
  for (std::size_t i = 0; i < sample.size(); ++i)
    std::ofstream(root / (std::to_string(i) + ".raw"), std::ios::binary)
        .write(reinterpret_cast<const char*>(sample[i].bytes.data()),
               static_cast<std::streamsize>(sample[i].bytes.size()));
  return 0;
}
