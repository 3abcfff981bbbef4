// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include <distdl/base/checksum.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

// The state `c` of the functions here is the complement of the checksum. Tests compare with plain division.
namespace distdl {
namespace {
constexpr std::uint32_t kPolynomial = 0x82F63B78u;  // Castagnoli's, lowest bit first

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? kPolynomial : 0);
    table[i] = c;
  }
  return table;
}

std::uint32_t crc32c_portable(const unsigned char* p, std::size_t n, std::uint32_t c) {
  static constexpr auto kTable = crc_table();
  while (n--) c = (c >> 8) ^ kTable[(c ^ *p++) & 0xFF];
  return c;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(const unsigned char* p, std::size_t n, std::uint32_t c) {
  std::uint64_t c64 = c;
  for (; n >= 8; p += 8, n -= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    c64 = __builtin_ia32_crc32di(c64, word);
  }
  c = static_cast<std::uint32_t>(c64);
  while (n--) c = __builtin_ia32_crc32qi(c, *p++);
  return c;
}

/// x to the power `n` modulo the polynomial, as a factor for a carry-less product of values with the lowest bit first.
constexpr long long power(int n) {
  std::uint32_t c = 0x80000000u;  // x^0
  for (int i = 0; i < n; ++i) c = (c >> 1) ^ ((c & 1) ? kPolynomial : 0);
  const std::uint64_t shifted = std::uint64_t{c} << 1;
  return static_cast<long long>(shifted);
}

constexpr std::size_t kAhead = 4096;  // the processor's own prefetching stops at the end of a page

#define DISTDL_FOLDS __attribute__((target("pclmul,sse4.2"), always_inline)) inline

/// Moves 128 bits forward by `bits`: returns the value that adds to the checksum there what `value` adds here. Gopal et
/// al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.
template <int bits>
DISTDL_FOLDS __m128i fold(__m128i value) {
  constexpr long long kLow = power(bits + 32), kHigh = power(bits - 32);
  const __m128i factors = _mm_set_epi64x(kHigh, kLow);
  return _mm_xor_si128(_mm_clmulepi64_si128(value, factors, 0x00), _mm_clmulepi64_si128(value, factors, 0x11));
}

enum class Copy { no, yes, past_the_caches };

template <Copy copy>
DISTDL_FOLDS __m128i take(unsigned char* to, const unsigned char* from, std::size_t at) {
  const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at));
  if constexpr (copy == Copy::yes) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at), value);
  if constexpr (copy == Copy::past_the_caches) _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), value);
  return value;
}

/// For at least 64 bytes; `to` is aligned to 16 bytes if it goes past the caches.
template <Copy copy>
__attribute__((target("pclmul,sse4.2"))) std::uint32_t crc32c_pclmul(unsigned char* to, const unsigned char* p,
                                                                     std::size_t n, std::uint32_t c) {
  __m128i sums[4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) sums[i] = take<copy>(to, p, 16 * i);
  sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128(static_cast<int>(c)));
  std::size_t done = 64;
  for (; n - done >= 64; done += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(p + done + kAhead), _MM_HINT_T0);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const std::size_t at = done + 16 * static_cast<std::size_t>(i);
      sums[i] = _mm_xor_si128(fold<512>(sums[i]), take<copy>(to, p, at));
    }
  }
  if constexpr (copy == Copy::past_the_caches) _mm_sfence();
#pragma GCC unroll 4
  for (int i = 1; i < 4; ++i) sums[i] = _mm_xor_si128(fold<128>(sums[i - 1]), sums[i]);
  unsigned char rest[16];
  std::memcpy(rest, &sums[3], sizeof rest);
  c = crc32c_sse42(rest, sizeof rest, 0);
  if constexpr (copy != Copy::no) std::memcpy(to + done, p + done, n - done);
  return crc32c_sse42(p + done, n - done, c);
}

#define DISTDL_FOLDS_WIDE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2"), always_inline)) inline

/// As fold(), of each 128 bits.
template <int bits>
DISTDL_FOLDS_WIDE __m512i fold_wide(__m512i value, __m512i next) {
  constexpr long long kLow = power(bits + 32), kHigh = power(bits - 32);
  const __m512i factors = _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(value, factors, 0x00),
                                   _mm512_clmulepi64_epi128(value, factors, 0x11), next, kXorOfThree);
}

template <Copy copy>
DISTDL_FOLDS_WIDE __m512i take_wide(unsigned char* to, const unsigned char* from, std::size_t at) {
  const __m512i value = _mm512_loadu_si512(from + at);
  if constexpr (copy == Copy::yes) _mm512_storeu_si512(to + at, value);
  if constexpr (copy == Copy::past_the_caches) _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), value);
  return value;
}

/// For at least 256 bytes; `to` is aligned to 64 bytes if it goes past the caches.
template <Copy copy>
__attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2"))) std::uint32_t crc32c_wide(unsigned char* to,
                                                                                      const unsigned char* p,
                                                                                      std::size_t n, std::uint32_t c) {
  __m512i sums[4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) sums[i] = take_wide<copy>(to, p, 64 * i);
  sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(c))));
  std::size_t done = 256;
  for (; n - done >= 256; done += 256) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const std::size_t at = done + 64 * static_cast<std::size_t>(i);
      _mm_prefetch(reinterpret_cast<const char*>(p + at + kAhead), _MM_HINT_T0);
      sums[i] = fold_wide<2048>(sums[i], take_wide<copy>(to, p, at));
    }
  }
  if constexpr (copy == Copy::past_the_caches) _mm_sfence();
#pragma GCC unroll 4
  for (int i = 1; i < 4; ++i) sums[i] = fold_wide<512>(sums[i - 1], sums[i]);
  unsigned char rest[64];
  std::memcpy(rest, &sums[3], sizeof rest);
  c = crc32c_sse42(rest, sizeof rest, 0);
  if constexpr (copy != Copy::no) std::memcpy(to + done, p + done, n - done);
  return crc32c_sse42(p + done, n - done, c);
}

#undef DISTDL_FOLDS_WIDE
#undef DISTDL_FOLDS

const bool kFast = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
const bool kWide = kFast && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");

template <Copy copy>
std::uint32_t crc32c_x86(unsigned char* to, const unsigned char* p, std::size_t n, std::uint32_t c) {
  if (kWide && n >= 256) return crc32c_wide<copy>(to, p, n, c);
  if (n >= 64) return crc32c_pclmul<copy>(to, p, n, c);
  if constexpr (copy != Copy::no) std::memcpy(to, p, n);
  return crc32c_sse42(p, n, c);
}
#elif defined(__aarch64__)
/// By instructions of Armv8.1, which many processors of Armv8.0 have too.
std::uint32_t crc32c_arm(const unsigned char* p, std::size_t n, std::uint32_t c) {
  for (; n >= 8; p += 8, n -= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %1" : "+r"(c) : "r"(word));
  }
  for (; n > 0; ++p, --n) asm(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(c) : "r"(std::uint32_t{*p}));
  return c;
}

const bool kFast = (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#endif
}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) {
  if (bytes.empty()) return previous;
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
#if defined(__x86_64__)
  if (kFast) return ~crc32c_x86<Copy::no>(nullptr, p, bytes.size(), ~previous);
#elif defined(__aarch64__)
  if (kFast) return ~crc32c_arm(p, bytes.size(), ~previous);
#endif
  return ~crc32c_portable(p, bytes.size(), ~previous);
}

std::uint32_t copy_with_crc32c(std::byte* to, std::span<const std::byte> from, std::uint32_t previous) {
  if (from.empty()) return previous;
#if defined(__x86_64__)
  constexpr std::size_t kLarge = 16 << 10;
  const auto* p = reinterpret_cast<const unsigned char*>(from.data());
  auto* out = reinterpret_cast<unsigned char*>(to);
  const bool past = from.size() >= kLarge && reinterpret_cast<std::uintptr_t>(out) % 64 == 0;
  if (kFast && past) return ~crc32c_x86<Copy::past_the_caches>(out, p, from.size(), ~previous);
  if (kFast) return ~crc32c_x86<Copy::yes>(out, p, from.size(), ~previous);
#endif
  constexpr std::size_t kPiece = 16 << 10;  // stays in the first cache
  while (!from.empty()) {
    const std::size_t bytes = std::min(kPiece, from.size());
    std::memcpy(to, from.data(), bytes);
    previous = crc32c({to, bytes}, previous);
    to += bytes;
    from = from.subspan(bytes);
  }
  return previous;
}

}  // namespace distdl
