// SPDX-License-Identifier: Apache-2.0
// The entry points of libFuzzer: PROGRAM [-OPTION=VALUE...] [FOLDER...] -ignore_remaining_args=1 TARGET, or list in its
// place
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "target.hpp"

namespace {
distdl::fuzz::Run chosen = nullptr;
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  const std::string_view name = (*arguments)[*count - 1];
  for (const auto& [known, run] : distdl::fuzz::targets()) {
    if (known == name) chosen = run;
    if (name == "list") std::puts(known.c_str());
  }
  if (!chosen) std::exit(name == "list" ? 0 : 64);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  distdl::fuzz::run(chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}
