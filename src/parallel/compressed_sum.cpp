// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include <distdl/parallel/compressed_sum.hpp>

namespace distdl::parallel {
namespace {
bool is_factored(const Options& options, const tensor::TensorView& view) {
  return encoding_of(options.compression.encoding).makes_factors && view.role == tensor::Role::parameter &&
         compression::is_worth_factors(compression::matrix_of(view.shape),
                                       static_cast<std::size_t>(options.compression.rank));
}

/// True if a tensor has a residual, also if it is coded in the warm-up only.
bool has_residual(Options options, const tensor::TensorView& view) {
  if (is_factored(options, view)) return true;
  if (encoding_of(options.compression.encoding).makes_factors && options.compression.warmup_steps > 0)
    options.compression.encoding = kWarmup;
  return is_coded(options, view);
}

tensor::ArenaLayout factors_of(const Options& options, const tensor::ArenaLayout& layout) {
  tensor::ArenaLayout factors;
  for (const auto& view : layout.tensors()) {
    if (!is_factored(options, view)) continue;
    const auto columns = static_cast<std::int64_t>(compression::matrix_of(view.shape).columns);
    factors.add(view.name, {options.compression.rank, columns});
  }
  return factors;
}

/// Root of an element's second moment, its unit. An element without any gradient so far has a small unit.
float root_of(float second_moment) {
  return std::sqrt(std::max(second_moment, std::numeric_limits<float>::min()));
}

comm::ConstVector bytes_of(const std::byte* bytes, std::size_t count) {
  return {bytes, count, comm::DataType::byte};
}
}  // namespace

CompressionState make_compression_state(const Options& options, const tensor::ArenaLayout& layout) {
  CompressionState state;
  if (!options.compression.is_on()) return state;
  state.residual = tensor::allocate_host(layout.size() * sizeof(float));
  for (const auto& view : layout.tensors())
    if (has_residual(options, view)) state.tensors.push_back(view);
  state.factors = factors_of(options, layout);
  if (state.factors.size() == 0) return state;
  state.right = tensor::allocate_host(state.factors.size() * sizeof(float));
  return state;
}

CompressedSum::CompressedSum(comm::Communicator& communicator, Options options, const tensor::ArenaLayout& layout,
                             const tensor::ArenaLayout& whole, std::span<const Bucket> buckets)
    : communicator_(communicator),
      options_(std::move(options)),
      layout_(layout),
      whole_(whole),
      buckets_(buckets.begin(), buckets.end()),
      ranks_(static_cast<std::size_t>(communicator.size())),
      self_(static_cast<std::size_t>(communicator.rank().value)),
      sum_(compression::kMostElements),
      decoded_(compression::kMostElements) {
  if (options_.compression.encoding == Compression::automatic) options_.compression.encoding = Compression::none;
  divide();
}

void CompressedSum::use(Compression compression) {
  options_.compression.encoding = compression;
  has_residuals_ = true;
  divide();
}

void CompressedSum::divide() {
  codec_ = parallel::codec_of(options_.compression);
  const auto factors = factors_of(options_, layout_);
  parts_.assign(buckets_.size(), {});
  count_units();
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) parts_[bucket] = part_of(buckets_[bucket], factors);
  std::size_t codes = 0, received = 0, left = 0, right = 0;
  for (const Part& part : parts_) {
    codes = std::max(codes, part.codes());
    received = std::max(received, ranks_ * part.bytes[self_]);
    left = std::max(left, part.left);
    right = std::max(right, part.end - part.right);
  }
  sent_.resize(codes);
  codes_.resize(codes);
  received_.resize(received);
  left_.resize(left);
  right_.resize(right);
}

/// The units belong to the ranks in the order of the whole arena, however it is divided into parts and buckets.
void CompressedSum::count_units() {
  std::map<std::string_view, std::size_t> before;
  std::size_t units = 0;
  for (const auto& view : whole_.tensors()) {
    before.emplace(view.name, units);
    if (!is_factored(options_, view)) units += units_of(options_, view, {view.offset, view.offset + view.count}).size();
  }
  first_units_.clear();
  for (const auto& view : layout_.tensors()) first_units_.push_back(before.at(view.name));
}

CompressedSum::Part CompressedSum::part_of(const Bucket& bucket, const tensor::ArenaLayout& factors) {
  Part part;
  part.bytes.resize(ranks_);
  part.places.resize(ranks_);
  for (const auto& view : layout_.tensors()) {
    if (view.offset < bucket.first || view.offset >= bucket.end) continue;
    assert(view.offset + view.count <= bucket.end);
    if (!is_factored(options_, view)) {
      divide(view, part);
      continue;
    }
    const auto shape = compression::matrix_of(view.shape);
    const auto& right = *factors.find(view.name);
    if (part.matrices.empty()) part.right = right.offset;
    part.end = right.offset + right.count;
    part.matrices.push_back({view.offset, shape, part.left, right.offset, whole_.find(view.name)->offset});
    part.left += static_cast<std::size_t>(options_.compression.rank) * shape.rows;
  }
  std::exclusive_scan(part.bytes.begin(), part.bytes.end(), part.places.begin(), std::size_t{0});
  for (Unit& unit : part.units) unit.place += part.places[unit.owner];
  return part;
}

void CompressedSum::divide(const tensor::TensorView& view, Part& part) {
  std::size_t number = first_units_[static_cast<std::size_t>(&view - layout_.tensors().data())];
  for (const CodedUnit& each : units_of(options_, view, {view.offset, view.offset + view.count})) {
    Unit unit{each, number++ % ranks_, 0};
    unit.place = part.bytes[unit.owner];
    part.bytes[unit.owner] += codec_of(unit).bytes(unit.count);
    part.units.push_back(unit);
  }
}

std::size_t CompressedSum::bytes_per_step() const {
  if (ranks_ == 1) return 0;
  std::size_t bytes = 0;
  for (const Part& part : parts_) {
    bytes += part.codes() - part.bytes[self_] + (ranks_ - 1) * part.bytes[self_];
    bytes += 2 * (ranks_ - 1) * (part.left + part.end - part.right) / ranks_ * sizeof(float);
  }
  return bytes;
}

void CompressedSum::pass_on_residuals(std::size_t bucket, float* partial) {
  if (!has_residuals_) return;
  const auto residual = state_->residual.as<float>();
  for (const auto& view : layout_.tensors()) {
    if (view.offset < buckets_[bucket].first || view.offset >= buckets_[bucket].end) continue;
    const auto left = residual.subspan(view.offset, view.count);
    for (std::size_t i = 0; i < left.size(); ++i) partial[view.offset + i] += left[i] * scale_;
    std::ranges::fill(left, 0.0F);
  }
  has_residuals_ = bucket + 1 < buckets_.size();  // buckets come in their order
}

/// The residual of these elements becomes its sum with what this rank contributes.
std::span<float> CompressedSum::values_with_residual(std::size_t first, std::size_t count,
                                                     std::span<const float* const> partials) {
  const auto values = state_->residual.as<float>().subspan(first, count);
  for (const float* const partial : partials) {
    if (scale_ == 1)
      compression::add(values, {partial + first, count});
    else
      for (std::size_t i = 0; i < count; ++i) values[i] += partial[first + i] / scale_;
  }
  return values;
}

void CompressedSum::operator()(std::size_t bucket, std::span<const float* const> partials, float* result,
                               const std::stop_token& stop) {
  const Part& part = parts_[bucket];
  if (ranks_ == 1) {  // passes on the residuals of former ranks, if there were some
    for (const Unit& unit : part.units) {
      const auto values = values_with_residual(unit.first, unit.count, partials);
      std::ranges::copy(values, result + unit.first);
      std::ranges::fill(values, 0.0F);
    }
    for (const Matrix& matrix : part.matrices) {
      const auto values = values_with_residual(matrix.first, matrix.shape.count(), partials);
      std::ranges::copy(values, result + matrix.first);
      std::ranges::fill(values, 0.0F);
    }
    return apply_scale(part, result);
  }
  if (!part.units.empty() && !sum_units(part, partials, result, stop)) return;
  if (!part.matrices.empty()) sum_matrices(part, partials, result, stop);
  apply_scale(part, result);
  if (!options_.compression.is_on()) has_residuals_ = bucket + 1 < buckets_.size();
}

void CompressedSum::apply_scale(const Part& part, float* result) const {
  if (scale_ == 1) return;
  const auto multiply = [&](std::span<float> values) {
    for (float& value : values) value *= scale_;
  };
  for (const Unit& unit : part.units) multiply({result + unit.first, unit.count});
  for (const Matrix& matrix : part.matrices) multiply({result + matrix.first, matrix.shape.count()});
}

bool CompressedSum::sum_units(const Part& part, std::span<const float* const> partials, float* result,
                              const std::stop_token& stop) {
  for (const Unit& unit : part.units) {
    const auto values = values_with_residual(unit.first, unit.count, partials);
    if (moments_ && !unit.is_exact) to_moment(unit);
    if (unit.owner != self_) codec_of(unit).encode(values, sent_.data() + unit.place);
  }
  const std::vector<std::size_t> own(ranks_, part.bytes[self_]);
  const comm::Vector received(received_.data(), ranks_ * part.bytes[self_], comm::DataType::byte);
  communicator_.all_to_all(bytes_of(sent_.data(), part.codes()), received, part.bytes, own).wait(stop);
  if (stop.stop_requested()) return false;
  for (const Unit& unit : part.units)
    if (unit.owner == self_) sum_own(part, unit);
  const comm::Vector codes(codes_.data(), part.codes(), comm::DataType::byte);
  communicator_.all_gather(bytes_of(codes_.data() + part.places[self_], part.bytes[self_]), codes, part.bytes)
      .wait(stop);
  if (stop.stop_requested()) return false;
  for (const Unit& unit : part.units)
    codec_of(unit).decode(codes_.data() + unit.place, {result + unit.first, unit.count});
  for (const Unit& unit : part.units)
    if (moments_ && !unit.is_exact) from_moment(unit, result);
  return true;
}

/// Replaces this rank's part of the gradient by its part of the next first moment.
void CompressedSum::to_moment(const Unit& unit) {
  const auto values = state_->residual.as<float>().subspan(unit.first, unit.count);
  const float* const first = moments_->first + unit.first;
  const float* const second = moments_->second + unit.first;
  const float keeps = moments_->beta1 / static_cast<float>(ranks_), takes = 1 - moments_->beta1;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = (keeps * first[i] + takes * values[i]) / root_of(second[i]);
}

/// Residuals remain those of gradients.
void CompressedSum::from_moment(const Unit& unit, float* result) {
  const auto values = state_->residual.as<float>().subspan(unit.first, unit.count);
  const float* const first = moments_->first + unit.first;
  const float* const second = moments_->second + unit.first;
  float* const sum = result + unit.first;
  const float beta1 = moments_->beta1, takes = 1 - moments_->beta1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float root = root_of(second[i]);
    values[i] = values[i] * root / takes;
    sum[i] = (sum[i] * root - beta1 * first[i]) / takes;
  }
}

void CompressedSum::sum_own(const Part& part, const Unit& unit) {
  const auto own = state_->residual.as<float>().subspan(unit.first, unit.count);
  const auto sum = std::span(sum_).first(unit.count), decoded = std::span(decoded_).first(unit.count);
  std::ranges::fill(sum, 0.0F);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (rank != self_)
      codec_of(unit).decode(received_.data() + rank * part.bytes[self_] + unit.place - part.places[self_], decoded);
    compression::add(sum, rank == self_ ? own : decoded);
  }
  std::ranges::copy(sum, own.begin());
  codec_of(unit).encode(own, codes_.data() + unit.place);
}

void CompressedSum::sum_matrices(const Part& part, std::span<const float* const> partials, float* result,
                                 const std::stop_token& stop) {
  const auto rank = static_cast<std::size_t>(options_.compression.rank);
  constexpr int kKeyBits = 16;
  const auto factors = state_->right.as<float>();
  const auto right_of = [&](const Matrix& m) { return factors.subspan(m.right, rank * m.shape.columns); };
  const auto left_of = [&](const Matrix& m) { return std::span(left_).subspan(m.left, rank * m.shape.rows); };
  const auto new_of = [&](const Matrix& m) {
    return std::span(right_).subspan(m.right - part.right, rank * m.shape.columns);
  };
  for (const Matrix& matrix : part.matrices) {
    const auto values = values_with_residual(matrix.first, matrix.shape.count(), partials);
    compression::replace_zeros(right_of(matrix), rank, std::uint64_t{matrix.seed} << kKeyBits);
    compression::multiply(values, matrix.shape, right_of(matrix), left_of(matrix));
  }
  communicator_.all_reduce(comm::Vector(left_.data(), part.left, comm::DataType::float32)).wait(stop);
  if (stop.stop_requested()) return;
  for (const Matrix& matrix : part.matrices) {
    const auto values = state_->residual.as<float>().subspan(matrix.first, matrix.shape.count());
    compression::orthonormalize(left_of(matrix), rank);
    compression::multiply_transposed(values, matrix.shape, left_of(matrix), new_of(matrix));
    compression::add_product(values, matrix.shape, left_of(matrix), new_of(matrix), -1);
  }
  communicator_.all_reduce(comm::Vector(right_.data(), part.end - part.right, comm::DataType::float32)).wait(stop);
  if (stop.stop_requested()) return;
  for (const Matrix& matrix : part.matrices) {
    const std::span sum(result + matrix.first, matrix.shape.count());
    std::ranges::copy(new_of(matrix), right_of(matrix).begin());
    std::ranges::fill(sum, 0.0F);
    compression::add_product(sum, matrix.shape, left_of(matrix), right_of(matrix), 1);
  }
}

}  // namespace distdl::parallel
