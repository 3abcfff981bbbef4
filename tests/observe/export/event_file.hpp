// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A reader of event files that shares no code with the writer. Whether TensorBoard reads them alike,
// tests/app/metrics_test.py asks TensorBoard.
namespace distdl::observe {

/// By number, the fields of a message of Protocol Buffers: each value as it lies there, of a varint as text.
std::multimap<int, std::string> wire_fields(std::string_view bytes);

/// What a reader of TensorBoard keeps of the event files of a folder, in the order of their names.
struct EventFolder {
  /// Throws std::runtime_error for a record with a wrong checksum. What is not whole at the end of a file is left out.
  explicit EventFolder(const std::filesystem::path& folder);

  std::map<std::string, std::vector<std::pair<std::int64_t, float>>> scalars;  ///< steps and values by tag
  std::vector<std::string> plugins;                                            ///< tags of texts and hparams
};

}  // namespace distdl::observe
