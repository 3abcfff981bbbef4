// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/data/augmentation.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/source.hpp>
#include <distdl/data/tokens.hpp>

namespace distdl::data {
namespace {
/// A part of a set: samples first .. first + count - 1.
struct Part {
  std::int64_t first = 0, count = 0;
};

class Images final : public Source {
 public:
  Images(const std::string& file, const Options& options, Part part, bool augmented, std::uint64_t seed)
      : set_(ImageSet::open(file, options.cache_mib)),
        name_(fmt::format("\"{}\"", file)),
        part_(part),
        crop_(augmented ? options.crop : 0),
        mirror_(augmented && options.mirror),
        seed_(seed) {}
  const std::string& name() const override { return name_; }
  const tensor::Shape& shape() const override { return set_.description().shape; }
  std::int64_t classes() const override { return set_.description().classes; }
  std::int64_t labels_per_sample() const override { return 1; }
  std::int64_t samples() const override { return part_.count; }
  const std::string& digest() const override { return set_.digest(); }

  void read(std::span<const Pick> picks, Batch& batch) override {
    const auto image = static_cast<std::size_t>(tensor::element_count(shape()));
    batch.values.resize(picks.size() * image);
    batch.labels.resize(picks.size());
    for (std::size_t i = 0; i < picks.size(); ++i) {
      const auto [epoch, index] = picks[i];
      const View view = crop_ > 0 || mirror_ ? view_of(seed_, epoch, index, crop_, mirror_) : View{};
      render(set_.pixels(part_.first + index), shape(), view, set_.normalized(), batch.values.data() + i * image);
      batch.labels[i] = set_.labels()[static_cast<std::size_t>(part_.first + index)];
    }
  }

 private:
  ImageSet set_;
  std::string name_;
  Part part_;
  std::int64_t crop_;
  bool mirror_;
  std::uint64_t seed_;
};

/// How many windows of `context` tokens, and their labels, so many tokens hold wherever the first one begins.
std::int64_t windows_in(std::int64_t tokens, std::int64_t context, bool shifted) {
  return (tokens - (shifted ? context : 1)) / context;
}

class Tokens final : public Source {
 public:
  Tokens(const std::string& file, std::int64_t context, Part part, bool shifted, std::uint64_t seed)
      : set_(TokenSet::open(file)),
        name_(fmt::format("\"{}\"", file)),
        shape_{context},
        part_(part),
        shifted_(shifted),
        seed_(seed),
        window_(static_cast<std::size_t>(context) + 1) {}
  const std::string& name() const override { return name_; }
  const tensor::Shape& shape() const override { return shape_; }
  std::int64_t classes() const override { return set_.description().classes; }
  std::int64_t labels_per_sample() const override { return shape_[0]; }
  std::int64_t samples() const override { return windows_in(part_.count, shape_[0], shifted_); }
  const std::string& digest() const override { return set_.digest(); }

  void read(std::span<const Pick> picks, Batch& batch) override {
    batch.tokens.clear();
    batch.labels.clear();
    for (const auto& [epoch, index] : picks) {
      set_.read(part_.first + start_of(epoch) + index * shape_[0], window_);
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
  Part part_;
  bool shifted_;
  std::uint64_t seed_;
  std::vector<std::int32_t> window_;
};

void check_use(const Options& options, std::int64_t context) {
  require(!options.train.empty(),
          "data.train names no data set; make one with \"distdl data make shapes shapes.h5\" and set data.train to it");
  require(context >= 1 && context <= 1 << 20, "model.context is {}, but must be between 1 and 1048576 tokens", context);
  check(options);
}
}  // namespace

void check(const Options& options) {
  require(options.crop >= 0 && options.crop < 1 << 16, "data.crop is {}, but must be between 0 and 65535 pixels",
          options.crop);
  require(options.holdout >= 0, "data.holdout is {}, but must not be negative", options.holdout);
  cache_bytes(options.cache_mib);
}

Sources open_sources(const Options& options, std::int64_t context, std::uint64_t seed) {
  check_use(options, context);
  const auto open = [&](const std::string& file, Part part, bool training) -> std::unique_ptr<Source> {
    if (describe_file(file).kind == kTokens) return std::make_unique<Tokens>(file, context, part, training, seed);
    return std::make_unique<Images>(file, options, part, training, seed);
  };
  Sources sources;
  sources.files.emplace_back(options.train);
  if (!options.validation.empty()) sources.files.emplace_back(options.validation);
  const Description train = describe_file(options.train);
  if (options.validation.empty()) {
    require(options.holdout >= 0 && options.holdout < train.samples,
            "data.holdout is {}, but must be at least 0 and below the {} samples of \"{}\"", options.holdout,
            train.samples, options.train);
    const std::int64_t left = train.samples - options.holdout;
    sources.training = open(options.train, {0, left}, true);
    if (options.holdout > 0) sources.validation = open(options.train, {left, options.holdout}, false);
  } else {
    const Description validation = describe_file(options.validation);
    require(validation.kind == train.kind && validation.shape == train.shape && validation.classes == train.classes,
            "data.validation \"{}\" has {} {} of {} classes, data.train \"{}\" has {} {} of {}; both must agree",
            options.validation, validation.kind, tensor::to_string(validation.shape), validation.classes, options.train,
            train.kind, tensor::to_string(train.shape), train.classes);
    sources.training = open(options.train, {0, train.samples}, true);
    sources.validation = open(options.validation, {0, validation.samples}, false);
  }
  require(sources.training->samples() > 0,
          "\"{}\" has {} tokens to train on, too few for one sample of model.context = {}", options.train,
          train.samples - options.holdout, context);
  require(!sources.validation || sources.validation->samples() > 0,
          "{} has too few tokens to evaluate on for one sample of model.context = {}",
          sources.validation ? sources.validation->name() : "", context);
  sources.files.front().opened(sources.training->digest());
  if (sources.files.size() > 1) sources.files.back().opened(sources.validation->digest());
  return sources;
}

void Sources::require_unchanged() {
  for (auto& file : files) file.require_unchanged();
}

}  // namespace distdl::data
