// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <distdl/base/file_descriptor.hpp>

namespace distdl::data {

/// Reads a file from beginning to end, and decompresses it if it is gzip (RFC 1952) or zstd (RFC 8878): each of its
/// members or frames, one after the other. Needs memory for a piece of the file, and for zstd at most 128 MiB more.
class DecompressingReader {
 public:
  class Decoder;

  /// Throws StorageError: incomplete (no such file) or storage.
  explicit DecompressingReader(std::filesystem::path path);
  ~DecompressingReader();
  DecompressingReader(const DecompressingReader&) = delete;
  DecompressingReader& operator=(const DecompressingReader&) = delete;

  /// Reads at most bytes.size() bytes; fewer only at the end. Throws StorageError (corrupt) if a compressed file is
  /// truncated, does not match a checksum, or has anything but zeros after its last member.
  std::size_t read(std::span<std::byte> bytes);
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  bool begin_member();
  bool fetch(std::size_t needed);
  [[noreturn]] void fail(const char* reason) const;

  std::filesystem::path path_;
  FileDescriptor file_;
  std::unique_ptr<Decoder> decoder_;  ///< null: the file is not compressed
  std::vector<std::byte> buffer_;
  std::span<const std::byte> ahead_;  ///< the part of `buffer_` that is not used yet
  std::uint64_t place_ = 0;           ///< bytes of the file that are read
  std::uint64_t member_at_ = 0;       ///< where the current member begins
  int members_ = 0;                   ///< that have begun
  bool inside_ = false;               ///< a member has begun and not ended
};

}  // namespace distdl::data
