// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <new>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/handles.hpp>

namespace distdl {
namespace {

void free_digest(EVP_MD_CTX* context) noexcept {
  EVP_MD_CTX_free(context);
}
}  // namespace

struct Sha256::State {
  UniqueHandle<EVP_MD_CTX*, &free_digest> context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  state_->context.reset(EVP_MD_CTX_new());
  if (!state_->context) throw std::bad_alloc();
  if (EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) != 1)
    throw InternalError("OpenSSL does not provide SHA-256");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  if (EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) != 1)
    throw InternalError("OpenSSL failed in SHA-256");
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  unsigned length = 0;
  if (EVP_DigestFinal_ex(state_->context.get(), digest.data(), &length) != 1 || length != digest.size())
    throw InternalError("OpenSSL failed in SHA-256");
  std::string text;
  for (unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  std::string mac(kMacBytes, '\0');
  unsigned length = kMacBytes;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), data, bytes.size(),
            reinterpret_cast<unsigned char*>(mac.data()), &length))
    throw InternalError("OpenSSL refuses HMAC-SHA256, by which processes of a job prove who they are");
  return mac;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace distdl
