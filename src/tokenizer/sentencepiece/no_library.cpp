// SPDX-License-Identifier: Apache-2.0
// Instead of library.cpp, in a distdl without SentencePiece.
#include <distdl/base/errors.hpp>
#include <distdl/tokenizer/sentencepiece/library.hpp>

namespace distdl::tokenizer {

struct SentencePieceLibrary::Processor {};

SentencePieceLibrary::SentencePieceLibrary(std::string_view /*content*/, const std::string& name) {
  throw ConfigError(
      fmt::format("\"{}\" is a SentencePiece model, for which this distdl lacks the library; build it with "
                  "-DDISTDL_SENTENCEPIECE=ON, on Debian with libsentencepiece-dev",
                  name));
}

SentencePieceLibrary::SentencePieceLibrary(SentencePieceLibrary&&) noexcept = default;
SentencePieceLibrary::~SentencePieceLibrary() = default;

void SentencePieceLibrary::encode(std::string_view /*text*/, std::vector<Token>& /*tokens*/) const {}

}  // namespace distdl::tokenizer
