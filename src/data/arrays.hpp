// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <distdl/data/data_set.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {

inline constexpr const char* kArrays = "arrays";  ///< the name of this kind of data set

/// The meaning of the numbers in arrays. A channel is a column of a table, or a field of a simulation; it has all
/// elements with one first index.
struct ArrayNames {
  std::vector<std::string> inputs{};   ///< one for each channel of an array
  std::vector<std::string> targets{};  ///< likewise; none where there are classes
  std::vector<std::string> classes{};  ///< in the order of labels; none where there are targets
  bool operator==(const ArrayNames&) const = default;
};

/// Mean and standard deviation of each channel, of the inputs and then of the targets.
struct ArrayScale {
  std::vector<float> mean, deviation;
};

/// Arrays of numbers, such as the rows of a table or the fields of simulations, each with a label or with numbers to
/// predict, in one HDF5 file. Not thread-safe.
class ArraySet {
 public:
  /// Throws as ImageSet::open() does.
  static ArraySet open(const std::filesystem::path& file, std::int64_t cache_mib);
  ArraySet(ArraySet&&) noexcept;
  ArraySet& operator=(ArraySet&&) noexcept;
  ~ArraySet();

  const Description& description() const noexcept;
  const std::string& digest() const noexcept;             ///< see ImageSet
  std::span<const std::int32_t> labels() const noexcept;  ///< one per sample; none where there are targets
  const ArrayNames& names() const noexcept;
  const ArrayScale& scale() const noexcept;
  /// One array, valid until the next call. Throws as ImageSet::pixels() does.
  std::span<const float> inputs(std::int64_t index);
  std::span<const float> targets(std::int64_t index);  ///< likewise; empty where there are classes

 private:
  struct Impl;
  explicit ArraySet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Writes such a set from beginning to end, and finds its means and deviations.
class ArraySetWriter {
 public:
  /// `about`: origin, samples, shape, and targets or not. `like`: whose scale is taken; null: that of what is written.
  /// Throws as SetWriter does.
  ArraySetWriter(const std::filesystem::path& file, Description about, const ArrayNames& names, const ArrayScale* like,
                 Overwrite overwrite);
  ~ArraySetWriter();

  /// Append whole samples, in their order. All inputs may come before all targets. Values must be finite.
  void append_inputs(std::span<const float> values);
  void append_targets(std::span<const float> values);
  void append_labels(std::span<const std::int32_t> labels);
  /// As SetWriter::commit().
  Description commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The row of the table of kinds.
Kind arrays_kind();

}  // namespace distdl::data
