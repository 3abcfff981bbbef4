// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/data/source.hpp>

namespace distdl::data {
namespace {
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
  require(options.crop_area >= 0 && options.crop_area <= 1, "data.crop_area is {}, but must be between 0 and 1",
          options.crop_area);
  constexpr std::size_t kMostJitters = 4;
  require(options.color_jitter.size() <= kMostJitters,
          "data.color_jitter has {} strengths, but there are {}: of brightness, contrast, saturation and hue",
          options.color_jitter.size(), kMostJitters);
  for (std::size_t i = 0; i < options.color_jitter.size(); ++i) {
    const double most = i + 1 < kMostJitters ? 100 : 0.5;
    require(options.color_jitter[i] >= 0 && options.color_jitter[i] <= most,
            "data.color_jitter[{}] is {}, but must be between 0 and {}", i, options.color_jitter[i], most);
  }
  require(options.rand_augment >= 0 && options.rand_augment <= 100,
          "data.rand_augment is {}, but must be between 0 and 100 operations", options.rand_augment);
  require(options.rand_augment_magnitude >= 0 && options.rand_augment_magnitude <= 30,
          "data.rand_augment_magnitude is {}, but must be between 0 and 30", options.rand_augment_magnitude);
  require(options.random_erasing >= 0 && options.random_erasing <= 1,
          "data.random_erasing is {}, but a probability is between 0 and 1", options.random_erasing);
  for (const auto& [key, alpha] : {std::pair("data.mixup", options.mixup), {"data.cutmix", options.cutmix}})
    require(alpha >= 0 && alpha <= 1000, "{} is {}, but must be between 0 and 1000", key, alpha);
  require(options.resize >= 0, "data.resize is {}, but must not be negative", options.resize);
  require(options.decode_threads >= 0 && options.decode_threads <= 1024,
          "data.decode_threads is {}, but must be between 0 and 1024", options.decode_threads);
  require(options.holdout >= 0, "data.holdout is {}, but must not be negative", options.holdout);
  cache_bytes(options.cache_mib);
}

Sources open_sources(const Options& options, std::int64_t context, std::uint64_t seed) {
  check_use(options, context);
  const auto open = [&](const std::string& file, std::int64_t first, std::int64_t count, bool trains) {
    return find_kind(describe_file(file).kind).open({file, options, context, first, count, trains, seed});
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
    sources.training = open(options.train, 0, left, true);
    if (options.holdout > 0) sources.validation = open(options.train, left, options.holdout, false);
  } else {
    const Description validation = describe_file(options.validation);
    require(validation.kind == train.kind && validation.shape == train.shape && validation.classes == train.classes,
            "data.validation \"{}\" has {} {} of {} classes, data.train \"{}\" has {} {} of {}; both must agree",
            options.validation, validation.kind, tensor::to_string(validation.shape), validation.classes, options.train,
            train.kind, tensor::to_string(train.shape), train.classes);
    sources.training = open(options.train, 0, train.samples, true);
    sources.validation = open(options.validation, 0, validation.samples, false);
    require(sources.validation->tokenizer() == sources.training->tokenizer(),
            "data.validation \"{}\" was made with another tokenizer than data.train \"{}\"; import both with one",
            options.validation, options.train);
  }
  require(sources.training->samples() > 0, "\"{}\" has {} {} to train on, too few for one sample of model.context = {}",
          options.train, train.samples - options.holdout, train.kind, context);
  require(!sources.validation || sources.validation->samples() > 0,
          "{} has too few {} to evaluate on for one sample of model.context = {}",
          sources.validation ? sources.validation->name() : "", train.kind, context);
  sources.files.front().opened(sources.training->digest());
  if (sources.files.size() > 1) sources.files.back().opened(sources.validation->digest());
  return sources;
}

void Sources::require_unchanged() {
  for (auto& file : files) file.require_unchanged();
}

}  // namespace distdl::data
