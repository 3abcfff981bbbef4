// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <sys/types.h>

#include <distdl/base/file_descriptor.hpp>

namespace distdl {

/// The kind of file for st_mode: "a regular file", "a folder", "a link", "a FIFO", "a socket" or "a device".
std::string_view kind_of(mode_t mode);

/// Action if a file to be written exists already.
enum class Overwrite { refuse, replace };

/// Opens a regular file to read it, and nothing else: a link is not followed, and a FIFO is not waited for. Throws
/// StorageError, incomplete if there is no such file.
FileDescriptor open_regular(const std::filesystem::path& file);

/// Opens a regular file to read it and to append to it, and creates it if there is none. No folder of its path may be a
/// link, see FileSystem. Throws StorageError.
FileDescriptor open_to_append(const std::filesystem::path& file);

/// The bytes of a regular file. Throws StorageError: incomplete if there is no such file, corrupt if it has more than
/// `most` bytes.
std::string read_regular(const std::filesystem::path& file, std::size_t most);

/// The bytes of a regular file that is open for reading; `file`: its name, for messages. Throws StorageError: corrupt
/// if it has more than `most` bytes.
std::string read_regular(const FileDescriptor& descriptor, const std::filesystem::path& file, std::size_t most);

/// The last `most` bytes of a regular file, or all of a shorter one. Throws StorageError: incomplete if there is no
/// such file.
std::string read_end_of_regular(const std::filesystem::path& file, std::size_t most);

}  // namespace distdl
