// SPDX-License-Identifier: Apache-2.0
#include <sentencepiece_processor.h>

#include <distdl/base/errors.hpp>
#include <distdl/tokenizer/sentencepiece/library.hpp>

namespace distdl::tokenizer {

struct SentencePieceLibrary::Processor {
  sentencepiece::SentencePieceProcessor library;
};

SentencePieceLibrary::SentencePieceLibrary(std::string_view content, const std::string& name)
    : processor_(std::make_unique<Processor>()) {
  const auto status = processor_->library.LoadFromSerializedProto(content);
  require(status.ok(), "\"{}\" is no SentencePiece model, or is damaged: {}; get the file again", name,
          status.ToString());
}

SentencePieceLibrary::SentencePieceLibrary(SentencePieceLibrary&&) noexcept = default;
SentencePieceLibrary::~SentencePieceLibrary() = default;

void SentencePieceLibrary::encode(std::string_view text, std::vector<Token>& tokens) const {
  std::vector<int> ids;
  const auto status = processor_->library.Encode(text, &ids);
  require(status.ok(), "SentencePiece cannot encode a text of {} bytes: {}", text.size(), status.ToString());
  tokens.insert(tokens.end(), ids.begin(), ids.end());
}

}  // namespace distdl::tokenizer
