// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <distdl/compression/low_rank.hpp>
#include <distdl/forecast/coded_sums.hpp>
#include <distdl/parallel/coded_units.hpp>

namespace distdl::forecast {
namespace {
/// Seconds to encode a value once and to decode it twice: bench/results/compression.md.
struct CodecSpeed {
  const compression::Format* format;
  double seconds;
};
constexpr std::array kSpeeds{CodecSpeed{&compression::kBf16, 0.8e-9}, CodecSpeed{&compression::kFp16, 6e-9},
                             CodecSpeed{&compression::kInt8, 0.6e-9}, CodecSpeed{&compression::kTopk, 2.8e-9},
                             CodecSpeed{&compression::kOnebit, 2.8e-9}};
constexpr double kFactorFlops = 10e9;  ///< multiplications and additions per second of thin matrix products

double seconds_of(const compression::Format* format) {
  for (const CodecSpeed& each : kSpeeds)
    if (each.format == format) return each.seconds;
  return 0;
}
}  // namespace

CodedValues coded_values(const parallel::Options& options, const tensor::ArenaLayout& layout,
                         const optim::Elements& elements) {
  CodedValues all{elements.count(), 0};
  if (!options.compression.is_on()) return all;
  const auto codec = parallel::codec_of(options.compression);
  const auto rank = static_cast<std::size_t>(options.compression.rank);
  const bool makes_factors = parallel::encoding_of(options.compression.encoding).makes_factors;
  for (const auto& view : layout.tensors()) {
    const std::size_t here = optim::common({view.offset, view.offset + view.count}, elements).count();
    if (here == 0 || view.role != tensor::Role::parameter) continue;
    const auto matrix = compression::matrix_of(view.shape);
    const auto take = [&](std::size_t floats, double seconds) {
      all.floats -= here - floats * here / view.count;
      all.seconds += seconds * static_cast<double>(here);
    };
    if (makes_factors && compression::is_worth_factors(matrix, rank))
      take(matrix.factors(rank), 6 * static_cast<double>(rank) / kFactorFlops);
    else if (parallel::is_coded(options, view))
      take(view.count * codec.bytes(compression::kMostElements) / (compression::kMostElements * sizeof(float)),
           seconds_of(codec.format));
  }
  return all;
}

}  // namespace distdl::forecast
