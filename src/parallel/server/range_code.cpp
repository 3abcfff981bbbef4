// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include <distdl/parallel/server/range_code.hpp>

namespace distdl::parallel::server {
namespace {
/// Not std::ranges::copy, which copies byte by byte here.
void copy_bytes(const void* from, void* to, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
}  // namespace

RangeCode::RangeCode(const Options& options, const tensor::ArenaLayout& layout, const optim::Elements& range)
    : range_(range), codec_(parallel::codec_of(options.compression)) {
  if (codec_.format == &compression::kExact) return;
  for (const auto& view : layout.tensors())
    for (CodedUnit unit : units_of(options, view, range)) {
      bytes_ += codec_of(unit).bytes(unit.count);
      unit.first -= range.first;
      units_.push_back(unit);
    }
}

void RangeCode::encode(std::span<const float> values, std::byte* code) const {
  if (is_plain()) return copy_bytes(values.data(), code, values.size_bytes());
  std::array<float, compression::kMostElements> copy{};
  for (const CodedUnit& unit : units_) {
    std::ranges::copy(values.subspan(unit.first, unit.count), copy.begin());
    codec_of(unit).encode({copy.data(), unit.count}, code);
    code += codec_of(unit).bytes(unit.count);
  }
}

void RangeCode::encode(std::span<const float> values, std::span<float> residual, std::byte* code) const {
  for (const CodedUnit& unit : units_) {
    const auto left = residual.subspan(unit.first, unit.count);
    compression::add(left, values.subspan(unit.first, unit.count));
    codec_of(unit).encode(left, code);
    code += codec_of(unit).bytes(unit.count);
  }
}

/// The gaps between tensors are zero.
void RangeCode::decode(std::span<const std::byte> code, std::span<float> values) const {
  if (is_plain()) return copy_bytes(code.data(), values.data(), values.size_bytes());
  const std::byte* next = code.data();
  std::size_t end = 0;
  for (const CodedUnit& unit : units_) {
    std::ranges::fill(values.subspan(end, unit.first - end), 0.0F);
    codec_of(unit).decode(next, values.subspan(unit.first, unit.count));
    next += codec_of(unit).bytes(unit.count);
    end = unit.first + unit.count;
  }
  std::ranges::fill(values.subspan(end), 0.0F);
}

RangeCodes plain_codes(const std::vector<optim::Elements>& ranges) {
  RangeCodes codes;
  for (const auto& range : ranges) {
    codes.gradients.emplace_back(range);
    codes.parameters.emplace_back(range);
  }
  return codes;
}

RangeCodes codes_of(const Options& options, const tensor::ArenaLayout& layout,
                    const std::vector<optim::Elements>& ranges) {
  Options of_parameters = options;
  of_parameters.compression.encoding = encoding_of(options.compression.encoding).of_parameters;
  RangeCodes codes;
  for (const auto& range : ranges) {
    codes.gradients.emplace_back(options, layout, range);
    codes.parameters.emplace_back(of_parameters, layout, range);
  }
  return codes;
}

}  // namespace distdl::parallel::server
