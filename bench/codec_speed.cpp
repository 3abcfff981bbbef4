// SPDX-License-Identifier: Apache-2.0
// usage: codec_speed. How fast one processor encodes and decodes gradients: ninja -C build codec_speed &&
// build/bin/codec_speed
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/compression/codec.hpp>

int main() {
  using namespace distdl::compression;
  constexpr std::size_t kCount = std::size_t{1} << 22, kUnit = kMostElements;
  constexpr int kTimes = 5;
  constexpr double kGiga = 1e9;
  std::vector<float> start(kCount), decoded(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto bits = distdl::Philox::block(1, 0, i);
    start[i] = (distdl::Philox::uniform(bits[0]) - 0.5F) * std::exp2(-static_cast<float>(bits[1] % 8));
  }
  fmt::print("| codec | bytes of a value | encode (GB/s of floats) | decode (GB/s of floats) |\n|---|---|---|---|\n");
  for (const Format* format : kFormats) {
    const Codec codec{format, 0.01};
    const std::size_t bytes = codec.bytes(kUnit);
    std::vector<std::byte> code(kCount / kUnit * bytes);
    double encoding = 1, decoding = 1;
    for (int time = 0; time < kTimes; ++time) {
      auto values = start;
      const distdl::Stopwatch watch;
      for (std::size_t i = 0; i < kCount / kUnit; ++i) codec.encode({&values[i * kUnit], kUnit}, &code[i * bytes]);
      encoding = std::min(encoding, watch.seconds());
      const distdl::Stopwatch again;
      for (std::size_t i = 0; i < kCount / kUnit; ++i) codec.decode(&code[i * bytes], {&decoded[i * kUnit], kUnit});
      decoding = std::min(decoding, again.seconds());
    }
    const double floats = kCount * sizeof(float) / kGiga;
    fmt::print("| {} | {:.3g} | {:.1f} | {:.1f} |\n", format->name, static_cast<double>(bytes) / kUnit,
               floats / encoding, floats / decoding);
  }
}
