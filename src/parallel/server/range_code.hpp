// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <distdl/compression/codec.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/parallel/coded_units.hpp>

namespace distdl::parallel::server {

/// The bytes in which the floats of a range are sent: as they are, or tensor by tensor in units of a codec.
class RangeCode {
 public:
  /// Sends the floats as they are.
  explicit RangeCode(const optim::Elements& range) : range_(range) {}
  /// `layout`: layout of the arena of which the range is a part. With Compression::none floats are sent as they are.
  RangeCode(const Options& options, const tensor::ArenaLayout& layout, const optim::Elements& range);

  bool is_plain() const { return units_.empty(); }
  const compression::Codec& codec() const { return codec_; }
  std::size_t floats() const { return range_.count(); }
  std::size_t bytes() const { return is_plain() ? floats() * sizeof(float) : bytes_; }
  /// Writes bytes(), aligned to 4. `values`: the range.
  void encode(std::span<const float> values, std::byte* code) const;
  /// Encodes the values plus the residual of earlier codes. `residual`, also of the range, becomes what this code
  /// lacks.
  void encode(std::span<const float> values, std::span<float> residual, std::byte* code) const;
  void decode(std::span<const std::byte> code, std::span<float> values) const;

 private:
  const compression::Codec& codec_of(const CodedUnit& unit) const { return unit.is_exact ? exact_ : codec_; }

  optim::Elements range_;
  compression::Codec codec_, exact_;
  std::vector<CodedUnit> units_;  ///< from the begin of the range on; none: it is plain
  std::size_t bytes_ = 0;         ///< total size of the codes of the units
};

/// Codes of all ranges, as gradients and as parameters.
struct RangeCodes {
  std::vector<RangeCode> gradients, parameters;
};

/// Returns codes that send all floats as they are.
RangeCodes plain_codes(const std::vector<optim::Elements>& ranges);
/// Returns codes for gradients as the options say. Parameters have no error feedback: 16 bits each where gradients have
/// fewer.
RangeCodes codes_of(const Options& options, const tensor::ArenaLayout& layout,
                    const std::vector<optim::Elements>& ranges);

}  // namespace distdl::parallel::server
