// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>

#define ZLIB_CONST  // its input is only read
#include <zlib.h>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/io/zip_archive.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::uint16_t kVersion = 45;  // the first with 64-bit fields
constexpr std::uint16_t kUtf8 = 1 << 11;
constexpr std::uint16_t kDate = (1 << 5) | 1;  // the first day that the format knows: the same bytes every time
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;
constexpr std::uint16_t kDeflated = 8;

/// Little-endian fields, one after the other.
class Fields {
 public:
  Fields& u16(std::uint64_t value) { return put(value, 2); }
  Fields& u32(std::uint64_t value) { return put(value, 4); }
  Fields& u64(std::uint64_t value) { return put(value, 8); }
  Fields& text(const std::string& value) { return text_ += value, *this; }
  const std::string& bytes() const { return text_; }

 private:
  Fields& put(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  std::string text_;
};

/// Compresses what it is given and passes it on.
class Deflater {
 public:
  explicit Deflater(WholeFile& out) : out_(out) {
    constexpr int kRaw = -15, kMemory = 8;
    if (::deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRaw, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
      throw InternalError("zlib cannot start");
  }
  ~Deflater() { ::deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  void add(std::span<const std::byte> bytes) {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(kMost, bytes.size()))) {
      auto piece = bytes.first(std::min(kMost, bytes.size()));
      stream_.next_in = reinterpret_cast<const Bytef*>(piece.data());
      stream_.avail_in = static_cast<uInt>(piece.size());
      drain(Z_NO_FLUSH);
    }
  }
  void finish() { drain(Z_FINISH); }

 private:
  void drain(int flush) {
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      if (::deflate(&stream_, flush) == Z_STREAM_ERROR) throw InternalError("zlib's state is inconsistent");
      out_.append(std::span(buffer_).first(buffer_.size() - stream_.avail_out));
    } while (stream_.avail_out == 0);
  }

  WholeFile& out_;
  z_stream stream_{};
  std::array<std::byte, 64 << 10> buffer_{};
};

std::uint32_t continue_crc(std::uint32_t crc, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}
}  // namespace

std::string ZipArchive::local_header(const Member& member) {
  Fields extra;
  extra.u16(1).u16(16).u64(member.bytes).u64(member.stored);
  Fields header;
  header.u32(0x04034b50).u16(kVersion).u16(kUtf8).u16(member.method).u16(0).u16(kDate).u32(member.crc);
  header.u32(kIn64).u32(kIn64).u16(member.name.size()).u16(extra.bytes().size()).text(member.name).text(extra.bytes());
  return header.bytes();
}

void ZipArchive::add(const std::string& name, bool deflate, const std::function<void(const Sink&)>& write) {
  Member member{name, deflate ? kDeflated : std::uint16_t{0}, 0, 0, 0, out_.size()};
  out_.append(local_header(member));  // its place; sums and sizes are known at the end
  std::uint64_t begin = out_.size();
  std::optional<Deflater> deflater;
  if (deflate) deflater.emplace(out_);
  write([&](std::span<const std::byte> bytes) {
    member.crc = continue_crc(member.crc, bytes);
    member.bytes += bytes.size();
    deflater ? deflater->add(bytes) : out_.append(bytes);
  });
  if (deflater) deflater->finish();
  member.stored = out_.size() - begin;
  out_.rewrite(local_header(member), member.offset);
  members_.push_back(std::move(member));
}

void ZipArchive::finish() {
  std::uint64_t begin = out_.size(), count = members_.size();
  for (const Member& member : members_) {
    Fields extra;
    extra.u16(1).u16(24).u64(member.bytes).u64(member.stored).u64(member.offset);
    Fields entry;
    entry.u32(0x02014b50).u16(kVersion).u16(kVersion).u16(kUtf8).u16(member.method).u16(0).u16(kDate).u32(member.crc);
    entry.u32(kIn64).u32(kIn64).u16(member.name.size()).u16(extra.bytes().size()).u16(0).u16(0).u16(0).u32(0);
    entry.u32(kIn64).text(member.name).text(extra.bytes());
    out_.append(entry.bytes());
  }
  std::uint64_t end = out_.size();
  Fields last;
  last.u32(0x06064b50).u64(44).u16(kVersion).u16(kVersion).u32(0).u32(0).u64(count).u64(count).u64(end - begin);
  last.u64(begin);
  last.u32(0x07064b50).u32(0).u64(end).u32(1);
  std::uint64_t short_count = std::min<std::uint64_t>(count, 0xFFFF);
  last.u32(0x06054b50).u16(0).u16(0).u16(short_count).u16(short_count).u32(std::min<std::uint64_t>(end - begin, kIn64));
  last.u32(std::min<std::uint64_t>(begin, kIn64)).u16(0);
  out_.append(last.bytes());
}

}  // namespace distdl::checkpoint
