// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <distdl/files/private_folder.hpp>

namespace distdl::program {

/// The exception of a program, as torch.distributed.elastic's @record writes it to the file that
/// TORCHELASTIC_ERROR_FILE names (torch/distributed/elastic/multiprocessing/errors/error_handler.py).
struct ProgramError {
  std::string message;     ///< "ValueError: wrong"
  std::string stack = {};  ///< the lines of Python's traceback
};

/// Nothing if the text is no such file. Lengths are limited: 1,000 bytes of message, 64 KiB of stack.
std::optional<ProgramError> error_from(std::string_view json);

inline constexpr const char* kErrorFile = "error.json";
/// The error in the file kErrorFile, which the program may have put there. Nothing if there is none that can be read;
/// the log says so at level debug. The file goes with its folder.
std::optional<ProgramError> read_error(const PrivateFolder& folder);

}  // namespace distdl::program
