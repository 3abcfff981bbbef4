// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/data/chunk_reader.hpp>
#include <distdl/data/set_format.hpp>
#include <distdl/data/token_set.hpp>

namespace distdl::data {

struct TokenSet::Impl {
  Description description;
  ChunkReader tokens;
};

TokenSet::TokenSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TokenSet::TokenSet(TokenSet&&) noexcept = default;
TokenSet& TokenSet::operator=(TokenSet&&) noexcept = default;
TokenSet::~TokenSet() = default;

TokenSet TokenSet::open(const std::filesystem::path& file, std::int64_t cache_mib) {
  OpenSet set = open_set(file);
  require(set.description.kind == kTokens,
          "\"{}\" holds {}, but tokens are expected; make a set of them with \"distdl data import text\"",
          file.string(), set.description.kind);
  const DatasetSpec spec = datasets_of(set.description).at(0);
  ChunkReader tokens(set.file, file.string(), spec.name, spec.type, spec.shape, cache_bytes(cache_mib));
  return TokenSet(std::make_unique<Impl>(Impl{std::move(set.description), std::move(tokens)}));
}

const Description& TokenSet::description() const noexcept {
  return impl_->description;
}

void TokenSet::read(std::int64_t first, std::int64_t count, std::int32_t* tokens) {
  ChunkReader& chunks = impl_->tokens;
  require(first >= 0 && count >= 0 && count <= chunks.rows() - first, "tokens {} to {} are outside the data set of {}",
          first, first + count - 1, chunks.rows());
  for (const std::int64_t end = first + count; first < end;) {
    const std::int64_t inside = first % chunks.rows_per_chunk();
    const auto bytes = chunks.chunk(first / chunks.rows_per_chunk()).subspan(static_cast<std::size_t>(inside));
    const std::int64_t some = std::min(end - first, static_cast<std::int64_t>(bytes.size()));
    tokens = std::transform(bytes.begin(), bytes.begin() + some, tokens,
                            [](std::byte token) { return std::to_integer<std::int32_t>(token); });
    first += some;
  }
}

}  // namespace distdl::data
