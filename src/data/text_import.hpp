// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <distdl/data/data_set.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {

/// Any file, plain or gzip, as a set of tokens: each byte is one, the vocabulary is 256. Throws ConfigError if the file
/// is empty, StorageError if it is missing or damaged or if the output cannot be written.
Description import_text(const std::filesystem::path& text, const std::filesystem::path& output, Overwrite overwrite);

}  // namespace distdl::data
