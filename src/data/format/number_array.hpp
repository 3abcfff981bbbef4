// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <distdl/tensor/shape.hpp>

namespace distdl::data {

/// An array of numbers of another program, read from its first row to its last. A row has one first index.
class NumberArray {
 public:
  virtual ~NumberArray() = default;
  /// For messages: array "u" of "a.npz".
  virtual const std::string& name() const = 0;
  virtual const tensor::Shape& shape() const = 0;
  /// The next numbers, as float64, in the order of C: those of whole rows. Throws StorageError (corrupt) if they are
  /// damaged or missing.
  virtual void read(std::span<double> numbers) = 0;
};

/// Opens an array of an HDF5 file (a path of groups, such as "fields/u"), of NumPy's .npz, or a .npy, whose only array
/// has the name of the file without its suffix. Which one it is, the file tells. Throws StorageError; ConfigError,
/// which names all arrays, if there is none of the name, and if it does not hold numbers.
std::unique_ptr<NumberArray> open_array(const std::filesystem::path& file, const std::string& array);

/// The names of all arrays in such a file, in its order. Throws likewise.
std::vector<std::string> arrays_in(const std::filesystem::path& file);

}  // namespace distdl::data
