// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/clock.hpp>
#include <distdl/parallel/coded_units.hpp>

namespace distdl::parallel {
using compression::Codec;

Codec codec_of(const CompressionOptions& options) {
  return {encoding_of(options.encoding).format, options.fraction};
}

bool is_coded(const Options& options, const tensor::TensorView& view) {
  return options.compression.is_on() && !encoding_of(options.compression.encoding).makes_factors &&
         view.role == tensor::Role::parameter && view.count >= compression::kMostElements;
}

std::vector<CodedUnit> units_of(const Options& options, const tensor::TensorView& view, const optim::Elements& within) {
  const bool is_exact = !is_coded(options, view);
  const auto part = optim::common({view.offset, view.offset + view.count}, within);
  std::vector<CodedUnit> units;
  for (std::size_t first = part.first; first < part.end; first += compression::kMostElements)
    units.push_back({first, std::min(compression::kMostElements, part.end - first), is_exact});
  return units;
}

double measure_codec(const Codec& codec, std::size_t elements) {
  constexpr std::size_t kUnits = 256;
  constexpr int kTimes = 3;  // the first warms up
  std::vector<float> values(compression::kMostElements), decoded(values.size()), again(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 100) - 50;
  std::vector<std::byte> code(codec.bytes(values.size()));
  double least = 0;
  for (int time = 0; time < kTimes; ++time) {
    const Stopwatch watch;
    // Each element is encoded once, or as a sum, and decoded once; those that a rank sums are decoded once more.
    for (std::size_t unit = 0; unit < kUnits; ++unit) {
      compression::add(values, decoded);
      codec.encode(values, code.data());
      codec.decode(code.data(), decoded);
      codec.decode(code.data(), again);
    }
    if (const double seconds = watch.seconds(); time == 0 || seconds < least) least = seconds;
  }
  return least * static_cast<double>(elements) / static_cast<double>(kUnits * values.size());
}

}  // namespace distdl::parallel
