// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/property/property_truth.hpp"

#include <cmath>
#include <cstring>

#include "tests/comm/property/oracle.hpp"

namespace distdl::comm::property {
namespace {

constexpr std::size_t kMostKnown = 24;  ///< no rank is that many operations ahead of another

/// A good mix of 64 bits (splitmix64).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

/// Magnitudes differ so that the order of additions shows in the bits; sums stay exact in int64.
double value_of(DataType type, std::uint64_t seed, int leaf, std::size_t index) {
  const std::uint64_t bits = mix(mix(seed * 1000003 + static_cast<std::uint64_t>(leaf)) + index);
  const auto whole = static_cast<double>(bits >> 12 & 0xFFFFFFFFFF);  // 40 bits
  const double sign = bits & 1 ? -1 : 1;
  const int spread = static_cast<int>(bits >> 4 & 0x1F) - 16;
  switch (type) {
    case DataType::byte:
      return static_cast<double>(bits & 0xFF);
    case DataType::int32:
      return sign * std::floor(whole / 0x1p14);
    case DataType::int64:
      return sign * whole * 256;
    case DataType::float16:
      return sign * oracle::rounded(type, std::ldexp(whole, -40 + (spread - 16) / 4 + 8));
    default:
      return sign * oracle::rounded(type, std::ldexp(whole, -40 + spread));
  }
}

std::uint64_t digest(std::span<const std::byte> bytes) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (std::byte one : bytes) value = (value ^ static_cast<std::uint64_t>(one)) * 0x100000001B3;
  return value | 1;
}

std::size_t total(const std::vector<std::size_t>& counts) {
  std::size_t sum = 0;
  for (std::size_t count : counts) sum += count;
  return sum;
}

bool moves_slices(Collective collective) {
  return collective == Collective::all_gather || collective == Collective::gather;
}

}  // namespace

Truth::Truth(const Case& one, const Shape& shape) : one_(one), shape_(shape) {
  make_inputs();
  make_result();
}

void Truth::make_inputs() {
  const auto vector = [&](std::size_t count, const std::function<double(std::size_t)>& value) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = value(i);
    return oracle::encoded(one_.type, values);
  };
  for (int r = 0; r < shape_.ranks; ++r) {
    auto& parts = inputs_.emplace_back();
    const auto leaf = [&](int l) { return [&, l](std::size_t i) { return value_of(one_.type, one_.seed, l, i); }; };
    std::size_t count =
        one_.reduces() || one_.collective == Collective::scatter ? one_.count + total(one_.counts) : one_.count;
    if (moves_slices(one_.collective)) count = one_.counts[static_cast<std::size_t>(r)];
    if (one_.collective == Collective::all_to_all) count = total(one_.matrix[static_cast<std::size_t>(r)]);
    if (one_.collective == Collective::scatter && r != one_.root) count = 0;
    if (!one_.leaves) {
      parts.push_back(vector(count, leaf(r)));
      continue;
    }
    for (TreeNode node : cover(one_.leaves->ranges[static_cast<std::size_t>(r)], one_.leaves->count))
      parts.push_back(vector(count, [&](std::size_t i) {
        return oracle::tree_value(one_.type, one_.reduction, node, one_.leaves->count,
                                  [&](int l) { return value_of(one_.type, one_.seed, l, i); });
      }));
  }
}

void Truth::make_result() {
  const auto root = static_cast<std::size_t>(one_.root);
  if (one_.reduces()) return reduce_all();
  if (one_.collective == Collective::broadcast || one_.collective == Collective::scatter) result_ = inputs_[root][0];
  if (moves_slices(one_.collective))
    for (const auto& parts : inputs_) result_.insert(result_.end(), parts[0].begin(), parts[0].end());
}

void Truth::reduce_all() {
  const std::size_t count = one_.count + total(one_.counts);
  const int terms = one_.terms(shape_);
  std::vector<double> result(count);
  std::vector<double> values(static_cast<std::size_t>(terms));
  for (std::size_t i = 0; i < count; ++i) {
    double magnitude = 0;
    for (int l = 0; l < terms; ++l) {
      values[static_cast<std::size_t>(l)] = value_of(one_.type, one_.seed, l, i);
      magnitude += std::abs(values[static_cast<std::size_t>(l)]);
    }
    const auto leaf = [&](int l) { return values[static_cast<std::size_t>(l)]; };
    result[i] = oracle::tree_value(one_.type, one_.reduction, {root_level(terms), 0}, terms, leaf);
    if (one_.reduction == Reduction::average) result[i] = oracle::averaged(one_.type, result[i], terms);
    if (!one_.fixed_order())
      slack_.push_back(one_.reduction == Reduction::maximum || one_.reduction == Reduction::minimum
                           ? 0
                           : 2 * oracle::tolerance(one_.type, magnitude, terms));
  }
  result_ = oracle::encoded(one_.type, result);
}

std::size_t Truth::output_count(int rank) const {
  switch (one_.collective) {
    case Collective::barrier:
      return 0;
    case Collective::reduce:
      return rank == one_.root ? one_.count : 0;
    case Collective::broadcast:
    case Collective::all_reduce:
      return one_.count;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return one_.counts[static_cast<std::size_t>(rank)];
    case Collective::all_gather:
      return total(one_.counts);
    case Collective::gather:
      return rank == one_.root ? total(one_.counts) : 0;
    case Collective::all_to_all:
      break;
  }
  return total(problem_of(one_, shape_, rank).receive_counts);
}

std::vector<std::byte> Truth::expected(int rank) const {
  const std::size_t element = size_of(one_.type);
  if (one_.collective == Collective::all_to_all) {
    std::vector<std::byte> all;
    for (std::size_t from = 0; from < inputs_.size(); ++from) {
      const auto& row = one_.matrix[from];
      std::size_t first = 0;
      for (int r = 0; r < rank; ++r) first += row[static_cast<std::size_t>(r)];
      const auto begin = inputs_[from][0].begin() + static_cast<std::ptrdiff_t>(first * element);
      all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(row[static_cast<std::size_t>(rank)] * element));
    }
    return all;
  }
  const bool slices = one_.collective == Collective::reduce_scatter || one_.collective == Collective::scatter;
  const auto begin = result_.begin() + static_cast<std::ptrdiff_t>((slices ? one_.first(rank) : 0) * element);
  return {begin, begin + static_cast<std::ptrdiff_t>(output_count(rank) * element)};
}

std::string Truth::judge(int rank, std::span<const std::byte> output) const {
  if (output_count(rank) == 0) return "";
  const bool all_alike = one_.collective == Collective::all_reduce;
  std::uint64_t none = 0;
  const std::uint64_t own = all_alike ? digest(output) : 0;
  if (all_alike && !agreed_.compare_exchange_strong(none, own) && none != own)
    return "the ranks did not get the same bytes";
  if (one_.reduces() && !one_.fixed_order()) return judge_roughly(rank, output);
  const auto wanted = expected(rank);
  const std::size_t element = size_of(one_.type);
  for (std::size_t i = 0; i < output.size() / element; ++i)
    if (std::memcmp(output.data() + i * element, wanted.data() + i * element, element) != 0)
      return fmt::format("element {} is {} but must be {}", i, oracle::read(one_.type, output.data() + i * element),
                         oracle::read(one_.type, wanted.data() + i * element));
  return "";
}

std::string Truth::judge_roughly(int rank, std::span<const std::byte> output) const {
  const auto wanted = expected(rank);
  const std::size_t element = size_of(one_.type);
  const std::size_t first = one_.collective == Collective::reduce_scatter ? one_.first(rank) : 0;
  for (std::size_t i = 0; i < output.size() / element; ++i) {
    const double is = oracle::read(one_.type, output.data() + i * element);
    const double should = oracle::read(one_.type, wanted.data() + i * element);
    if (!(std::abs(is - should) <= slack_[first + i]))
      return fmt::format("element {} is {} but must be {} give or take {}", i, is, should, slack_[first + i]);
  }
  return "";
}

std::shared_ptr<const Truth> Truths::of(const Case& one, const Shape& shape) {
  const std::lock_guard lock(mutex_);
  for (const auto& [seed, truth] : known_)
    if (seed == one.seed) return truth;
  const auto truth = std::make_shared<Truth>(one, shape);
  known_.emplace_back(one.seed, truth);
  if (known_.size() > kMostKnown) known_.pop_front();
  return truth;
}

}  // namespace distdl::comm::property
