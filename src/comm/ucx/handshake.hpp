// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <distdl/base/ids.hpp>

namespace distdl::comm {

using Nonce = std::array<std::uint8_t, 16>;
using Mac = std::array<std::uint8_t, 32>;

/// "I am here; prove that you know the secret."
struct Hello {
  Rank from, to;
  std::uint32_t generation = 0;
  Nonce nonce{};
};

/// "I know it": a MAC over both ranks, in this order, the generation, the prover's nonce and the challenger's. Naming
/// the direction makes a reflected proof worthless, the challenger's nonce a recorded one.
struct Proof {
  Rank from, to;
  std::uint32_t generation = 0;
  Nonce nonce{};  ///< the prover's own
  Mac mac{};
};

using HandshakeMessage = std::variant<Hello, Proof>;
constexpr std::size_t kLongestHandshake = 128;
std::string encode(const HandshakeMessage& handshake_message);
/// Nothing if `bytes` were not made by encode().
std::optional<HandshakeMessage> decode_handshake(std::string_view bytes);

constexpr std::size_t kSecretBytes = 32;

/// How this rank and one peer convince each other that they know the job's secret, before anything else is sent to or
/// taken from the peer. Either may begin, or both at once. Knows nothing of UCX.
class Handshake {
 public:
  /// `secret` must outlive it.
  Handshake(const std::string& secret, Rank self, Rank peer, std::uint32_t generation);

  /// This rank's challenge.
  Hello hello() const;
  /// The proof that answers the peer's challenge. The first challenge that comes need not be the genuine one: all of
  /// them are answered, to the peer's own address, up to a limit; then nothing.
  std::optional<Proof> answer(const Hello& challenge);
  /// Is this the peer's proof? From then on, or since an earlier one, the peer is proved.
  bool accept(const Proof& proof);
  bool proved() const { return proved_; }

  /// Of a proved peer: bits that only the two know, others in each direction.
  std::uint64_t send_token() const { return send_token_; }
  std::uint64_t receive_token() const { return receive_token_; }
  /// Bytes with a MAC behind them, and back: nothing if they are not what the peer sealed.
  std::string seal(std::string bytes) const;
  std::optional<std::string_view> unseal(std::string_view sealed) const;

 private:
  Mac mac_of(const char* purpose, Rank from, Rank to, const Nonce& nonce_from, const Nonce& nonce_to) const;

  const std::string& secret_;
  Rank self_, peer_;
  std::uint32_t generation_;
  Nonce nonce_{};
  int answers_ = 0;
  bool proved_ = false;
  Mac send_key_{}, receive_key_{};  ///< of the seals
  std::uint64_t send_token_ = 0, receive_token_ = 0;
};

/// Bytes that seal() adds.
constexpr std::size_t kSealBytes = 16;

}  // namespace distdl::comm
