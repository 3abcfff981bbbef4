// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <new>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/handles.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/data/format/decompressing_reader.hpp>

namespace distdl::data {

/// Decodes one member after the other.
class DecompressingReader::Decoder {
 public:
  Decoder() = default;
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Whether a member begins with these four bytes.
  virtual bool begins(std::span<const std::byte, 4> bytes) const = 0;
  virtual void begin() = 0;
  /// Decodes as much as there is of input, and room for output; both are shortened. Null, or why the input is damaged.
  virtual const char* decode(std::span<const std::byte>& input, std::span<std::byte>& output) = 0;
  virtual bool is_at_end() const = 0;  ///< whether the member has ended
};

namespace {
using Decoder = DecompressingReader::Decoder;
using Head = std::span<const std::byte, 4>;

constexpr std::size_t kReadAhead = 128 << 10;  ///< bytes read from the file at once

bool has(Head bytes, std::size_t place, unsigned value) {
  return bytes[place] == static_cast<std::byte>(value);
}

class Gzip final : public Decoder {
 public:
  Gzip() { check(::inflateInit2(&stream_, kGzipOnly)); }
  ~Gzip() override { ::inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  /// With the only method that there is, and no reserved flag: numbers, too, begin with any two bytes.
  static bool is_head(Head bytes) {
    return has(bytes, 0, 0x1f) && has(bytes, 1, 0x8b) && has(bytes, 2, Z_DEFLATED) &&
           (bytes[3] & std::byte{0xe0}) == std::byte{0};
  }
  bool begins(Head bytes) const override { return is_head(bytes); }
  void begin() override {
    check(::inflateReset(&stream_));
    at_end_ = false;
  }
  const char* decode(std::span<const std::byte>& input, std::span<std::byte>& output) override {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    // zlib's interface is not const.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));  // NOLINT(*-const-cast)
    stream_.avail_in = static_cast<uInt>(std::min(input.size(), kMost));
    stream_.next_out = reinterpret_cast<Bytef*>(output.data());
    const uInt room = stream_.avail_out = static_cast<uInt>(std::min(output.size(), kMost));
    const uInt given = stream_.avail_in;
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    input = input.subspan(given - stream_.avail_in);
    output = output.subspan(room - stream_.avail_out);
    at_end_ = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR) return nullptr;
    return stream_.msg ? stream_.msg : "it needs a dictionary";
  }
  bool is_at_end() const override { return at_end_; }

 private:
  static constexpr int kGzipOnly = 31;  ///< windowBits, as inflateInit2() wants it
  static void check(int result) {
    if (result != Z_OK) throw std::bad_alloc();
  }
  z_stream stream_{};
  bool at_end_ = false;
};

void close_zstd(ZSTD_DStream* stream) noexcept {
  ZSTD_freeDStream(stream);
}

class Zstd final : public Decoder {
 public:
  Zstd() {
    if (!stream_) throw std::bad_alloc();
  }
  static bool is_head(Head bytes) {
    return has(bytes, 0, 0x28) && has(bytes, 1, 0xb5) && has(bytes, 2, 0x2f) && has(bytes, 3, 0xfd);
  }
  /// Frames that a decoder is to skip may follow.
  bool begins(Head bytes) const override {
    const bool is_skipped = (bytes[0] & std::byte{0xf0}) == std::byte{0x50} && has(bytes, 1, 0x2a) &&
                            has(bytes, 2, 0x4d) && has(bytes, 3, 0x18);
    return is_head(bytes) || is_skipped;
  }
  void begin() override {
    ZSTD_DCtx_reset(stream_.get(), ZSTD_reset_session_only);
    at_end_ = false;
  }
  const char* decode(std::span<const std::byte>& input, std::span<std::byte>& output) override {
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer out{output.data(), output.size(), 0};
    const std::size_t result = ZSTD_decompressStream(stream_.get(), &out, &in);
    if (ZSTD_isError(result)) {
      if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      return ZSTD_getErrorName(result);
    }
    input = input.subspan(in.pos);
    output = output.subspan(out.pos);
    at_end_ = result == 0;
    return nullptr;
  }
  bool is_at_end() const override { return at_end_; }

 private:
  UniqueHandle<ZSTD_DStream*, &close_zstd> stream_{ZSTD_createDStream()};
  bool at_end_ = false;
};

std::unique_ptr<Decoder> decoder_of(Head bytes) {
  if (Gzip::is_head(bytes)) return std::make_unique<Gzip>();
  if (Zstd::is_head(bytes)) return std::make_unique<Zstd>();
  return nullptr;
}

}  // namespace

DecompressingReader::DecompressingReader(std::filesystem::path path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)), buffer_(kReadAhead) {
  if (!file_)
    throw StorageError(fmt::format("cannot open \"{}\": {}", path_.string(), errno_text(errno)),
                       errno == ENOENT || errno == ENOTDIR ? ExitCode::incomplete : ExitCode::storage);
  if (fetch(Head::extent)) decoder_ = decoder_of(ahead_.first<Head::extent>());
}

DecompressingReader::~DecompressingReader() = default;

/// So that at least `needed` bytes are ahead. False if the file ends before that.
bool DecompressingReader::fetch(std::size_t needed) {
  if (ahead_.size() >= needed) return true;
  std::copy(ahead_.begin(), ahead_.end(), buffer_.begin());
  std::size_t there = ahead_.size();
  while (there < needed) {
    const ssize_t got = ::read(file_.get(), buffer_.data() + there, buffer_.size() - there);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw StorageError(fmt::format("cannot read \"{}\": {}", path_.string(), errno_text(errno)));
    if (got == 0) break;
    there += static_cast<std::size_t>(got);
    place_ += static_cast<std::uint64_t>(got);
    work_done(WorkUnit::bytes, static_cast<std::uint64_t>(got));
  }
  ahead_ = std::span(buffer_).first(there);
  return there >= needed;
}

/// False at the end of the file. Zeros may follow the last member, as on tapes.
bool DecompressingReader::begin_member() {
  bool zeros = false;
  while (fetch(1) && members_ > 0 && ahead_.front() == std::byte{0}) {
    const auto end = std::find_if(ahead_.begin(), ahead_.end(), [](std::byte byte) { return byte != std::byte{0}; });
    ahead_ = ahead_.subspan(static_cast<std::size_t>(end - ahead_.begin()));
    zeros = true;
  }
  if (!fetch(1)) return false;
  ++members_;
  member_at_ = place_ - ahead_.size();
  if (zeros || !fetch(Head::extent) || !decoder_->begins(ahead_.first<Head::extent>()))
    fail("what follows is no further part of it");
  decoder_->begin();
  return inside_ = true;
}

std::size_t DecompressingReader::read(std::span<std::byte> bytes) {
  auto rest = bytes;
  while (!rest.empty()) {
    if (!decoder_) {
      if (!fetch(1)) break;
      const std::size_t count = std::min(rest.size(), ahead_.size());
      std::copy_n(ahead_.begin(), count, rest.begin());
      ahead_ = ahead_.subspan(count);
      rest = rest.subspan(count);
      continue;
    }
    if (!inside_ && !begin_member()) break;
    const bool is_there = fetch(1);  // a decoder may still hold output at the end of the file
    const auto before = rest.size() + ahead_.size();
    if (const char* const reason = decoder_->decode(ahead_, rest)) fail(reason);
    if (decoder_->is_at_end())
      inside_ = false;
    else if (!is_there && rest.size() + ahead_.size() == before)
      fail("it ends too early");
  }
  return bytes.size() - rest.size();
}

void DecompressingReader::fail(const char* reason) const {
  const auto where = members_ > 1 ? fmt::format(" in part {}, which begins at byte {}", members_, member_at_) : "";
  throw StorageError(
      fmt::format("\"{}\" is damaged or truncated{}: {}; download it again", path_.string(), where, reason),
      ExitCode::corrupt);
}

}  // namespace distdl::data
