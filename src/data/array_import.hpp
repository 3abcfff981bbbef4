// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <distdl/data/data_set.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {

/// A table whose rows become samples: CSV and TSV with names in the first line, plain, gzip or zstd, or an .npz each of
/// whose arrays is a column, or, with two dimensions, several columns: "x[0]", "x[1]".
struct TableImport {
  std::filesystem::path table{};
  std::string label{};                 ///< the column of classes; empty: there are targets
  std::vector<std::string> targets{};  ///< columns of numbers to predict
  std::vector<std::string> columns{};  ///< columns to predict from, in this order; empty: all others but for `without`
  std::vector<std::string> without{};
  std::filesystem::path like{};  ///< a set whose columns, classes, means and deviations are taken; empty: its own
};

/// The values of a table must fit into memory, as float32. Classes are the different values of the label's column, in
/// the order of numbers if all are whole numbers, else of texts. Throws ConfigError for columns that are missing or
/// named twice, and for a value that is not a finite number, with its line and column; StorageError for files that are
/// missing or damaged or cannot be written.
Description import_table(const TableImport& import, const std::filesystem::path& output, Overwrite overwrite);

/// Arrays of an HDF5 file, an .npz or .npy: their first index counts the samples. An array of a sample has up to three
/// dimensions, before which may stand an index of channels.
struct FieldImport {
  std::filesystem::path file{};
  std::vector<std::string> inputs{};  ///< arrays, the channels of which follow each other
  std::vector<std::string> targets{};
  std::string label{};           ///< an array of classes (samples)
  std::int64_t dimensions = -1;  ///< indices of a sample beyond its channels, 0 to 3; -1: all of an array but two
  std::filesystem::path like{};
};

/// Reads a few samples at a time. Throws as import_table() does, also for arrays that do not fit together.
Description import_fields(const FieldImport& import, const std::filesystem::path& output, Overwrite overwrite);

/// The names in the order of labels, and each label's number. Throws ConfigError for numbers that are not whole.
struct Classes {
  std::vector<std::string> names;
  std::vector<std::int32_t> labels;
};
Classes classes_of(const std::vector<std::string>& values, const std::string& column);

}  // namespace distdl::data
