// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/format/compression.hpp>
#include <distdl/checkpoint/options.hpp>

namespace distdl::checkpoint {
namespace {
/// `result`: of a function of zstd.
void require_memory(std::size_t result) {
  if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
}

std::optional<std::size_t> compress_zstd(std::span<const std::byte> from, std::span<std::byte> to, unsigned level) {
  const std::size_t bytes = ZSTD_compress(to.data(), to.size(), from.data(), from.size(), static_cast<int>(level));
  require_memory(bytes);
  return ZSTD_isError(bytes) ? std::nullopt : std::optional(bytes);
}

std::string decompress_zstd(std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t bytes = ZSTD_decompress(to.data(), to.size(), from.data(), from.size());
  require_memory(bytes);
  if (ZSTD_isError(bytes)) return fmt::format("zstd: {}", ZSTD_getErrorName(bytes));
  return bytes == to.size() ? "" : fmt::format("zstd: {} bytes were decompressed", bytes);
}

// Level 1 is the fastest: a save should not wait for the last percent. One block of 128 KiB takes 4 bytes at least.
constexpr Compressor kZstd{"zstd", 32015, 1, 32768, compress_zstd, decompress_zstd};

constexpr std::array kCodecs{
    CodecEntry{Codec::none, "none", "", false, nullptr},
    CodecEntry{Codec::zstd, "zstd", "", false, &kZstd},
    CodecEntry{Codec::shuffle_zstd, "shuffle+zstd", ", better for floats", true, &kZstd},
};

/// Byte b of element i goes to b * count + i, or back.
template <std::size_t kElement>
void shuffle(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t b = 0; b < kElement; ++b)
    for (std::size_t i = 0; i < count; ++i) to[b * count + i] = from[i * kElement + b];
}
/// Only the first `wanted` of `count` elements.
template <std::size_t kElement>
void unshuffle(const std::byte* from, std::byte* to, std::size_t count, std::size_t wanted) {
  for (std::size_t i = 0; i < wanted; ++i)
    for (std::size_t b = 0; b < kElement; ++b) to[i * kElement + b] = from[b * count + i];
}

/// Calls work with the size of an element as a constant.
template <class Work>
void with_element(std::size_t element, Work&& work) {
  switch (element) {
    case 2:
      return work(std::integral_constant<std::size_t, 2>());
    case 4:
      return work(std::integral_constant<std::size_t, 4>());
    case 8:
      return work(std::integral_constant<std::size_t, 8>());
    case 16:
      return work(std::integral_constant<std::size_t, 16>());
  }
  throw InternalError(fmt::format("elements of {} bytes cannot be shuffled", element));
}

bool is_shuffled(Codec codec, std::size_t element) {
  return entry_of(codec).shuffles && element > 1;
}

/// "a", "b" or "c", each followed by its purpose if that is asked for.
std::string list_of(std::span<const CodecEntry> entries, bool with_purposes) {
  std::string list;
  for (const CodecEntry& entry : entries)
    list += fmt::format(R"({}"{}"{})",
                        &entry == &entries.front()  ? ""
                        : &entry == &entries.back() ? " or "
                                                    : ", ",
                        entry.name, with_purposes ? entry.purpose : "");
  return list;
}
}  // namespace

/// Row i of the table is that of the value i.
constexpr bool rows_follow_the_enum() {
  for (std::size_t i = 0; i < std::size(kCodecs); ++i)
    if (kCodecs[i].codec != static_cast<Codec>(i)) return false;
  return true;
}
static_assert(rows_follow_the_enum());

const CodecEntry& entry_of(Codec codec) {
  return kCodecs.at(static_cast<std::size_t>(codec));
}

const char* name_of(Codec codec) {
  return entry_of(codec).name;
}

std::optional<Codec> codec_called(std::string_view name) {
  const auto* const entry = std::ranges::find(kCodecs, name, &CodecEntry::name);
  return entry == kCodecs.end() ? std::nullopt : std::optional(entry->codec);
}

std::string codec_names() {
  return list_of(kCodecs, false);
}

const char* compression_help() {
  static const std::string text = fmt::format(
      "\"{}\"; {}, compress the tensors that become smaller; suits slow or full disks, and costs processor time and "
      "memory",
      kCodecs.front().name, list_of(std::span(kCodecs).subspan(1), true));
  return text.c_str();
}

std::vector<std::byte> compress(Codec codec, std::span<const std::byte> bytes, std::size_t element, std::size_t chunk) {
  std::vector<std::byte> padded, shuffled;
  std::span<const std::byte> plain = bytes;
  if (bytes.size() < chunk) {
    padded.assign(bytes.begin(), bytes.end());
    padded.resize(chunk);
    plain = padded;
  }
  std::span<const std::byte> input = plain;
  if (is_shuffled(codec, element)) {
    shuffled.resize(chunk);
    with_element(element, [&](auto size) { shuffle<size()>(plain.data(), shuffled.data(), chunk / size()); });
    input = shuffled;
  }
  std::vector<std::byte> packed(chunk - std::max<std::size_t>(chunk / 32, 1));
  const Compressor& compressor = *entry_of(codec).compressor;
  const auto got = compressor.compress(input, packed, compressor.level);
  if (!got) return padded;
  packed.resize(*got);
  packed.shrink_to_fit();
  return packed;
}

std::string decompress(Codec codec, std::span<const std::byte> stored, std::size_t element, std::size_t chunk,
                       std::span<std::byte> out, std::vector<std::byte>& scratch) {
  if (stored.size() >= chunk) {
    std::copy_n(stored.begin(), out.size(), out.begin());
    return "";
  }
  bool shuffled = is_shuffled(codec, element), straight = !shuffled && out.size() == chunk;
  if (!straight) scratch.resize(chunk);
  std::byte* plain = straight ? out.data() : scratch.data();
  if (auto problem = entry_of(codec).compressor->decompress(stored, {plain, chunk}); !problem.empty()) return problem;
  if (shuffled)
    with_element(element,
                 [&](auto size) { unshuffle<size()>(plain, out.data(), chunk / size(), out.size() / size()); });
  else if (!straight)
    std::memcpy(out.data(), plain, out.size());
  return "";
}

}  // namespace distdl::checkpoint
