// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <distdl/files/whole_file.hpp>

namespace distdl::checkpoint {

/// Writes a zip archive (PKWARE APPNOTE 6.3) member by member, with the 64-bit fields that large members need.
class ZipArchive {
 public:
  explicit ZipArchive(WholeFile& out) : out_(out) {}
  using Sink = std::function<void(std::span<const std::byte>)>;
  /// `write` passes the member's bytes to the sink in pieces.
  void add(const std::string& name, bool deflate, const std::function<void(const Sink&)>& write);
  /// Writes the directory at the end.
  void finish();

 private:
  struct Member {
    std::string name;
    std::uint16_t method = 0;
    std::uint32_t crc = 0;
    std::uint64_t stored = 0, bytes = 0, offset = 0;
  };
  static std::string local_header(const Member& member);

  WholeFile& out_;
  std::vector<Member> members_;
};

}  // namespace distdl::checkpoint
