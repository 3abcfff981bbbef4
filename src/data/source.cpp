// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/data/mixture.hpp>
#include <distdl/data/own_source.hpp>
#include <distdl/data/source.hpp>

namespace distdl::data {
namespace {
void check_use(const Options& options, std::int64_t context) {
  require(!options.train.empty() || !options.sets.empty(),
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
  require(options.sets.size() == options.weights.size(),
          "data.sets names {} data sets, but data.weights has {} numbers; each set needs one", options.sets.size(),
          options.weights.size());
  require(options.holdout >= 0, "data.holdout is {}, but must not be negative", options.holdout);
  cache_bytes(options.cache_mib);
}

namespace {
/// Opens all or a part of data sets, and what must be watched.
class Opening {
 public:
  Opening(const Options& options, std::int64_t context, std::uint64_t seed)
      : options_(options), context_(context), seed_(seed) {}

  std::unique_ptr<Source> open(const std::string& file, std::int64_t first, std::int64_t count, bool trains) const {
    return find_kind(describe_file(file).kind).open({file, options_, context_, first, count, trains, seed_});
  }

  Sources of_sets() const {
    require(
        options_.train.empty() && options_.holdout == 0 && options_.source.empty(),
        "data.sets stands in place of data.train, and excludes data.holdout and data.source; name a set to evaluate "
        "on in data.validation");
    Sources sources;
    std::vector<std::unique_ptr<Source>> sets;
    for (const std::string& file : options_.sets) {
      sources.files.emplace_back(file);
      sets.push_back(open(file, 0, describe_file(file).samples, true));
      sources.files.back().opened(sets.back()->digest());
    }
    sources.training = mixture_of(std::move(sets), options_.weights, seed_);
    if (!options_.validation.empty()) add_validation(sources);
    return sources;
  }

  /// The samples of a shared object have no file to watch.
  Sources of_own_source() const {
    Sources sources;
    if (!options_.validation.empty()) {
      sources.training = open_own_source(options_.source, options_.train, 0, std::nullopt);
      sources.validation = open_own_source(options_.source, options_.validation, 0, std::nullopt);
      require_alike(sources);
      return sources;
    }
    const std::int64_t all = open_own_source(options_.source, options_.train, 0, std::nullopt)->samples();
    const std::int64_t left = samples_left(all);
    sources.training = open_own_source(options_.source, options_.train, 0, left);
    if (options_.holdout > 0)
      sources.validation = open_own_source(options_.source, options_.train, left, options_.holdout);
    return sources;
  }

  Sources of_files() const {
    Sources sources;
    sources.files.emplace_back(options_.train);
    const Description train = describe_file(options_.train);
    if (options_.validation.empty()) {
      const std::int64_t left = samples_left(train.samples);
      sources.training = open(options_.train, 0, left, true);
      if (options_.holdout > 0) sources.validation = open(options_.train, left, options_.holdout, false);
    } else {
      const Description validation = describe_file(options_.validation);
      require(validation.kind == train.kind && validation.shape == train.shape && validation.classes == train.classes &&
                  validation.targets == train.targets,
              "data.validation \"{}\" has {} {} of {} classes, data.train \"{}\" has {} {} of {}; both must agree",
              options_.validation, validation.kind, tensor::to_string(validation.shape), validation.classes,
              options_.train, train.kind, tensor::to_string(train.shape), train.classes);
      sources.training = open(options_.train, 0, train.samples, true);
    }
    sources.files.front().opened(sources.training->digest());
    require(sources.training->samples() > 0,
            "\"{}\" has {} {} to train on, too few for one sample of model.context = {}", options_.train,
            train.samples - options_.holdout, train.kind, context_);
    if (!options_.validation.empty()) add_validation(sources);
    return sources;
  }

 private:
  std::int64_t samples_left(std::int64_t samples) const {
    require(options_.holdout < samples, "data.holdout is {}, but must be at least 0 and below the {} samples of \"{}\"",
            options_.holdout, samples, options_.train);
    return samples - options_.holdout;
  }

  void add_validation(Sources& sources) const {
    sources.files.emplace_back(options_.validation);
    sources.validation = open(options_.validation, 0, describe_file(options_.validation).samples, false);
    sources.files.back().opened(sources.validation->digest());
    require_alike(sources);
  }

  void require_alike(const Sources& sources) const {
    const Source &train = *sources.training, &validation = *sources.validation;
    require(validation.shape() == train.shape() && validation.classes() == train.classes() &&
                validation.targets() == train.targets(),
            "data.validation \"{}\" has {} of {} classes, {} has {} of {}; both must agree", options_.validation,
            tensor::to_string(validation.shape()), validation.classes(), train.name(), tensor::to_string(train.shape()),
            train.classes());
    require(validation.tokenizer() == train.tokenizer(),
            "data.validation \"{}\" was made with another tokenizer than data.train {}; import both with one",
            options_.validation, train.name());
    require(validation.units() == train.units(),
            "data.validation \"{}\" has other columns, classes, means or deviations than {}; import it again with "
            "--like and the set of the training",
            options_.validation, train.name());
  }

  const Options& options_;
  std::int64_t context_;
  std::uint64_t seed_;
};
}  // namespace

Sources open_sources(const Options& options, std::int64_t context, std::uint64_t seed) {
  check_use(options, context);
  const Opening opening(options, context, seed);
  Sources sources = !options.sets.empty()     ? opening.of_sets()
                    : !options.source.empty() ? opening.of_own_source()
                                              : opening.of_files();
  require(!sources.validation || sources.validation->samples() > 0,
          "{} has too few {} to evaluate on for one sample of model.context = {}",
          sources.validation ? sources.validation->name() : "",
          sources.training->shape().size() == 1 ? "tokens" : "samples", context);
  return sources;
}

void Sources::require_unchanged() {
  for (auto& file : files) file.require_unchanged();
}

}  // namespace distdl::data
