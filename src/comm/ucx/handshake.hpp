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

/// The challenge: the sender is a rank and asks the receiver to prove that it knows the secret.
struct Hello {
  Rank from, to;
  std::uint32_t generation = 0;
  Nonce nonce{};
};

/// The answer to a challenge: a MAC over both ranks in this order, the generation, the prover's nonce and the
/// challenger's nonce. The order makes a reflected proof invalid, and the challenger's nonce makes a recorded proof
/// invalid.
struct Proof {
  Rank from, to;
  std::uint32_t generation = 0;
  Nonce nonce{};  ///< nonce of the prover
  Mac mac{};
};

using HandshakeMessage = std::variant<Hello, Proof>;
constexpr std::size_t kLongestHandshake = 128;
std::string encode(const HandshakeMessage& handshake_message);
/// Returns nothing if encode() did not make `bytes`.
std::optional<HandshakeMessage> decode_handshake(std::string_view bytes);

constexpr std::size_t kSecretBytes = 32;

/// The handshake in which this rank and one peer prove to each other that they know the job's secret, before they
/// exchange anything else. Either side may begin, or both at once. It does not depend on UCX.
class Handshake {
 public:
  /// `secret` must outlive it.
  Handshake(const std::string& secret, Rank self, Rank peer, std::uint32_t generation);

  /// The challenge of this rank.
  Hello hello() const;
  /// The proof that answers the peer's challenge. The first challenge need not be the genuine one. All of them are
  /// answered, at the peer's own address, up to a limit; then nothing is returned.
  std::optional<Proof> answer(const Hello& challenge);
  /// Whether this is the peer's proof. The peer is then authenticated, as it also is after an earlier valid proof.
  bool accept(const Proof& proof);
  bool proved() const { return proved_; }

  /// For an authenticated peer: bits that only the two ranks know, different in each direction.
  std::uint64_t send_token() const { return send_token_; }
  std::uint64_t receive_token() const { return receive_token_; }
  /// Appends a MAC to bytes, and verifies and removes it. unseal() returns nothing if the peer did not seal the bytes.
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
  Mac send_key_{}, receive_key_{};  ///< keys of the seals
  std::uint64_t send_token_ = 0, receive_token_ = 0;
};

/// Bytes that seal() adds.
constexpr std::size_t kSealBytes = 16;

}  // namespace distdl::comm
