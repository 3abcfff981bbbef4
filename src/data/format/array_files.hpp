// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/data/format/number_array.hpp>

namespace distdl::data {

/// See open_array() and arrays_in(): the kinds of files, each in a file of its own. Of .npz, and of .npy.
std::unique_ptr<NumberArray> open_npz(const std::filesystem::path& file, const std::string& array);
std::vector<std::string> arrays_of_npz(const std::filesystem::path& file);
std::unique_ptr<NumberArray> open_npy(const std::filesystem::path& file, const std::string& array);
std::vector<std::string> arrays_of_npy(const std::filesystem::path& file);

/// HDF5: data sets of whole numbers or floats of any size, compressed by HDF5 or not; none in other files.
std::unique_ptr<NumberArray> open_hdf5_array(const std::filesystem::path& file, const std::string& array);
std::vector<std::string> arrays_of_hdf5(const std::filesystem::path& file);

}  // namespace distdl::data
