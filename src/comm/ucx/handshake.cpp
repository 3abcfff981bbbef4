// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <tuple>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/random.hpp>
#include <distdl/comm/ucx/handshake.hpp>

namespace distdl::comm {
namespace {

constexpr std::string_view kHandshakeMagic = "distdl";
constexpr int kMostAnswers = 64;

template <class Value>
void put(std::string& bytes, const Value& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class Value>
void take(std::string_view& bytes, Value& value) {
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
}

/// The fields that both kinds begin with.
template <class Kind>
std::string begin(char kind, const Kind& handshake_message) {
  std::string bytes(kHandshakeMagic);
  bytes += kind;
  put(bytes, handshake_message.from.value);
  put(bytes, handshake_message.to.value);
  put(bytes, handshake_message.generation);
  put(bytes, handshake_message.nonce);
  return bytes;
}

constexpr std::size_t kHelloBytes =
    kHandshakeMagic.size() + 1 + 2 * sizeof(int) + sizeof(std::uint32_t) + sizeof(Nonce);
constexpr std::size_t kProofBytes = kHelloBytes + sizeof(Mac);
static_assert(kProofBytes <= kLongestHandshake);

template <class Kind>
Kind read(std::string_view& bytes) {
  Kind handshake_message;
  bytes.remove_prefix(kHandshakeMagic.size() + 1);
  take(bytes, handshake_message.from.value);
  take(bytes, handshake_message.to.value);
  take(bytes, handshake_message.generation);
  take(bytes, handshake_message.nonce);
  return handshake_message;
}

Mac hmac(std::string_view key, std::string_view bytes) {
  Mac mac;
  static_assert(std::tuple_size_v<Mac> == kMacBytes);
  std::ranges::copy(hmac_sha256(key, bytes), mac.begin());
  return mac;
}

std::string_view text_of(const Mac& mac) {
  return {reinterpret_cast<const char*>(mac.data()), mac.size()};
}

std::uint64_t first_bytes(const Mac& mac) {
  std::uint64_t token;
  std::memcpy(&token, mac.data(), sizeof token);
  return token;
}

}  // namespace

std::string encode(const HandshakeMessage& handshake_message) {
  if (const auto* hello = std::get_if<Hello>(&handshake_message)) return begin('h', *hello);
  const auto& proof = std::get<Proof>(handshake_message);
  std::string bytes = begin('p', proof);
  put(bytes, proof.mac);
  return bytes;
}

std::optional<HandshakeMessage> decode_handshake(std::string_view bytes) {
  if (bytes.size() < kHelloBytes || !bytes.starts_with(kHandshakeMagic)) return std::nullopt;
  const char kind = bytes[kHandshakeMagic.size()];
  if (kind == 'h' && bytes.size() == kHelloBytes) return read<Hello>(bytes);
  if (kind != 'p' || bytes.size() != kProofBytes) return std::nullopt;
  auto proof = read<Proof>(bytes);
  take(bytes, proof.mac);
  return proof;
}

Handshake::Handshake(const std::string& secret, Rank self, Rank peer, std::uint32_t generation)
    : secret_(secret), self_(self), peer_(peer), generation_(generation) {
  const std::string random = random_bytes(nonce_.size());
  std::copy(random.begin(), random.end(), nonce_.begin());
}

Hello Handshake::hello() const {
  return {self_, peer_, generation_, nonce_};
}

std::optional<Proof> Handshake::answer(const Hello& challenge) {
  const bool meant = challenge.from == peer_ && challenge.to == self_ && challenge.generation == generation_;
  if (!meant || ++answers_ > kMostAnswers) return std::nullopt;
  return Proof{self_, peer_, generation_, nonce_, mac_of("proof", self_, peer_, nonce_, challenge.nonce)};
}

bool Handshake::accept(const Proof& proof) {
  if (proof.from != peer_ || proof.to != self_ || proof.generation != generation_) return false;
  const Mac expected = mac_of("proof", peer_, self_, proof.nonce, nonce_);
  if (!equal_in_constant_time(text_of(proof.mac), text_of(expected))) return false;
  if (!std::exchange(proved_, true)) {
    send_key_ = mac_of("seal", self_, peer_, nonce_, proof.nonce);
    receive_key_ = mac_of("seal", peer_, self_, proof.nonce, nonce_);
    send_token_ = first_bytes(mac_of("token", self_, peer_, nonce_, proof.nonce));
    receive_token_ = first_bytes(mac_of("token", peer_, self_, proof.nonce, nonce_));
  }
  return true;
}

Mac Handshake::mac_of(const char* purpose, Rank from, Rank to, const Nonce& nonce_from, const Nonce& nonce_to) const {
  std::string bytes = fmt::format("distdl {} {} {} {} ", purpose, from, to, generation_);
  put(bytes, nonce_from);
  put(bytes, nonce_to);
  return hmac(secret_, bytes);
}

std::string Handshake::seal(std::string bytes) const {
  const Mac mac = hmac(text_of(send_key_), bytes);
  bytes.append(reinterpret_cast<const char*>(mac.data()), kSealBytes);
  return bytes;
}

std::optional<std::string_view> Handshake::unseal(std::string_view sealed) const {
  if (!proved_ || sealed.size() < kSealBytes) return std::nullopt;
  const auto bytes = sealed.substr(0, sealed.size() - kSealBytes);
  const Mac mac = hmac(text_of(receive_key_), bytes);
  if (!equal_in_constant_time(text_of(mac).substr(0, kSealBytes), sealed.substr(bytes.size()))) return std::nullopt;
  return bytes;
}

}  // namespace distdl::comm
