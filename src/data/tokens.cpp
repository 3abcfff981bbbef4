// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>

#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/source.hpp>
#include <distdl/data/tokens.hpp>

namespace distdl::data {

struct TokenSet::Impl {
  std::string file;
  Description description;
  StoredNumber type;
  ChunkReader tokens;
  std::optional<ChunkReader> tokenizer;
  std::string digest;
};

TokenSet::TokenSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TokenSet::TokenSet(TokenSet&&) noexcept = default;
TokenSet& TokenSet::operator=(TokenSet&&) noexcept = default;
TokenSet::~TokenSet() = default;

TokenSet TokenSet::open(const std::filesystem::path& file) {
  constexpr std::size_t kCache = 16 << 20;
  OpenSet set = open_set(file);
  require(set.description.kind == kTokens,
          "\"{}\" contains {}, but tokens are expected; make a set of them with \"distdl data import text\"",
          file.string(), set.description.kind);
  const auto specs = datasets_of(set.description);
  auto chunks = open_chunks(set, file, specs[0], kCache);
  std::optional<ChunkReader> tokenizer;
  if (specs.size() > 1) tokenizer.emplace(open_chunks(set, file, specs[1], 0));
  auto digest = digest_of(set.description, std::array<const ChunkReader*, 1>{&chunks});
  return TokenSet(std::make_unique<Impl>(Impl{file.string(), std::move(set.description), specs[0].type,
                                              std::move(chunks), std::move(tokenizer), std::move(digest)}));
}

std::string TokenSet::tokenizer() const {
  std::string json;
  for (std::int64_t number = 0; impl_->tokenizer && number < impl_->tokenizer->chunks(); ++number) {
    const auto bytes = impl_->tokenizer->chunk(number);
    json.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return json;
}

const std::string& TokenSet::digest() const noexcept {
  return impl_->digest;
}

const Description& TokenSet::description() const noexcept {
  return impl_->description;
}

void TokenSet::read(std::int64_t first, std::span<std::int32_t> tokens) {
  auto& chunks = impl_->tokens;
  const auto count = static_cast<std::int64_t>(tokens.size());
  require(first >= 0 && count <= chunks.rows() && first <= chunks.rows() - count,
          "tokens {} to {} are outside the data set of {}", first, first + count - 1, chunks.rows());
  const auto classes = static_cast<std::int32_t>(impl_->description.classes);
  const auto widen = [&](auto stored) {
    std::copy(stored.begin(), stored.end(), tokens.begin());
    tokens = tokens.subspan(stored.size());
  };
  for (std::int64_t at = first; at < first + count;) {
    const auto bytes = chunks.chunk(at / chunks.rows_per_chunk());
    const auto skip = static_cast<std::size_t>(at % chunks.rows_per_chunk());
    const auto taken = std::min(bytes.size() / chunks.row_bytes() - skip, tokens.size());
    if (impl_->type == StoredNumber::u8)
      widen(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()) + skip, taken));
    else if (impl_->type == StoredNumber::u16)
      widen(std::span(reinterpret_cast<const std::uint16_t*>(bytes.data()) + skip, taken));
    else
      widen(std::span(reinterpret_cast<const std::uint32_t*>(bytes.data()) + skip, taken));
    auto* const got = tokens.data() - taken;
    const auto* wrong =
        std::find_if(got, tokens.data(), [&](std::int32_t token) { return token < 0 || token >= classes; });
    if (wrong != tokens.data())
      throw StorageError(
          fmt::format("\"{}\" is damaged: token {} is {}, outside the vocabulary 0 to {}; create the file "
                      "again",
                      impl_->file, at + (wrong - got), *wrong, classes - 1),
          ExitCode::corrupt);
    at += static_cast<std::int64_t>(taken);
  }
}

namespace {
/// How many windows of `context` tokens, and their labels, so many tokens hold wherever the first one begins.
std::int64_t windows_in(std::int64_t tokens, std::int64_t context, bool shifted) {
  return (tokens - (shifted ? context : 1)) / context;
}

class Tokens final : public Source {
 public:
  explicit Tokens(const SetUse& use)
      : set_(TokenSet::open(use.file)),
        name_(fmt::format("\"{}\"", use.file)),
        shape_{use.context},
        first_(use.first),
        count_(use.count),
        shifted_(use.trains),
        seed_(use.seed),
        window_(static_cast<std::size_t>(use.context) + 1) {}
  const std::string& name() const override { return name_; }
  const tensor::Shape& shape() const override { return shape_; }
  std::int64_t classes() const override { return set_.description().classes; }
  std::int64_t labels_per_sample() const override { return shape_[0]; }
  std::int64_t samples() const override { return windows_in(count_, shape_[0], shifted_); }
  const std::string& digest() const override { return set_.digest(); }
  std::string tokenizer() const override { return set_.tokenizer(); }

  void read(std::span<const Pick> picks, Batch& batch) override {
    batch.tokens.clear();
    batch.labels.clear();
    for (const auto& [epoch, index] : picks) {
      set_.read(first_ + start_of(epoch) + index * shape_[0], window_);
      batch.tokens.insert(batch.tokens.end(), window_.begin(), window_.end() - 1);
      batch.labels.insert(batch.labels.end(), window_.begin() + 1, window_.end());
    }
  }

 private:
  std::int64_t start_of(std::int64_t epoch) const {
    constexpr std::uint64_t kWindowStream = 0x77696e646f7773;  // apart from the sampler's numbers
    if (!shifted_) return 0;
    const auto bits = Philox::block(seed_ ^ kWindowStream, 0, static_cast<std::uint64_t>(epoch))[0];
    return static_cast<std::int64_t>(bits * static_cast<std::uint64_t>(shape_[0]) >> 32);
  }

  TokenSet set_;
  std::string name_;
  tensor::Shape shape_;
  std::int64_t first_, count_;
  bool shifted_;
  std::uint64_t seed_;
  std::vector<std::int32_t> window_;
};

std::vector<DatasetSpec> token_datasets(const Description& description) {
  require(description.shape.empty(), "tokens have no shape, but {} is given", tensor::to_string(description.shape));
  require(description.classes <= kLargestVocabulary, "tokens have a vocabulary of at most {}, not {}",
          kLargestVocabulary, description.classes);
  const auto type = description.classes <= 1 << 8    ? StoredNumber::u8
                    : description.classes <= 1 << 16 ? StoredNumber::u16
                                                     : StoredNumber::u32;
  std::vector<DatasetSpec> specs{{kTokens, type, {description.samples}}};
  if (description.tokenizer_bytes > 0)
    specs.push_back({kTokenizer, StoredNumber::u8, {description.tokenizer_bytes}, false});
  return specs;
}

/// The samples shown are passages of up to 400 tokens, one after the other.
void show_passages(const std::filesystem::path& file, std::int64_t count,
                   const std::function<void(const ShownSample&)>& look) {
  constexpr std::int64_t kLength = 400;
  auto set = TokenSet::open(file);
  const Description& about = set.description();
  for (std::int64_t i = 0, first = 0; i < count && first < about.samples; ++i, first += kLength) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min(kLength, about.samples - first)));
    set.read(first, tokens);
    look(Passage{tokens, about.classes});
  }
}
}  // namespace

Kind tokens_kind() {
  return {.name = kTokens,
          .is_sequence = true,
          .is_normalized = false,
          .datasets = &token_datasets,
          .open = [](const SetUse& use) -> std::unique_ptr<Source> { return std::make_unique<Tokens>(use); },
          .labels = nullptr,
          .show = &show_passages};
}

}  // namespace distdl::data
