// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <numeric>

#include <dlfcn.h>

#include <distdl/base/errors.hpp>
#include <distdl/data/distdl_source.h>
#include <distdl/data/own_source.hpp>

namespace distdl::data {
namespace {
constexpr std::size_t kErrorBytes = 512;
constexpr std::int64_t kMostOwnValues = 1 << 28;  // of a sample

const distdl_source_functions& functions_in(const std::string& library) {
  // As a path, even without a slash: never one of the system's libraries of this name.
  const auto path = std::filesystem::absolute(library);
  void* const opened = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: its threads may go on
  const char* const why = opened ? nullptr : ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps one per thread
  require(opened != nullptr, "data.source \"{}\" cannot be loaded: {}", library, why ? why : "the reason is unknown");
  void* const symbol = ::dlsym(opened, "distdl_source");
  require(symbol != nullptr,
          "data.source \"{}\" has no function distdl_source(); docs/data-arrays.md says what an object must have",
          library);
  const auto* const functions = reinterpret_cast<decltype(&distdl_source)>(symbol)();
  require(
      functions != nullptr && functions->abi == DISTDL_SOURCE_ABI,
      "data.source \"{}\" was built for version {} of its interface, but this distdl has version {}; build it again "
      "with this distdl's distdl_source.h",
      library, functions ? functions->abi : 0, DISTDL_SOURCE_ABI);
  require(functions->open && functions->read && functions->close, "data.source \"{}\" lacks open, read or close",
          library);
  return *functions;
}

tensor::Shape shape_of(const std::int64_t (&extents)[DISTDL_SOURCE_AXES]) {
  return {std::begin(extents), std::find(std::begin(extents), std::end(extents), 0)};
}

class OwnSource final : public Source {
 public:
  OwnSource(const std::string& library, const std::string& text, std::int64_t first, std::optional<std::int64_t> count)
      : functions_(functions_in(library)), name_(fmt::format("\"{}\" of \"{}\"", text, library)), first_(first) {
    distdl_source_description about{};
    void* opened = nullptr;
    const int code = functions_.open(text.c_str(), &opened, &about, error_.data(), error_.size());
    if (code == 0) source_.reset(opened, functions_.close);
    require(code == 0, "{} cannot be opened: {}", name_, reason());
    shape_ = shape_of(about.shape);
    targets_ = shape_of(about.targets);
    const auto is_possible = [](const tensor::Shape& shape, std::size_t least) {
      return shape.size() >= least && std::ranges::all_of(shape, [](auto extent) { return extent > 0; }) &&
             tensor::element_count(shape) <= kMostOwnValues;
    };
    constexpr std::size_t kLeastAxes = 3;
    require(about.samples >= 1 && is_possible(shape_, kLeastAxes),
            "{} describes {} samples of the shape {}, but at least one of three or four extents is expected", name_,
            about.samples, tensor::to_string(shape_));
    require(targets_.empty() ? about.classes >= 2 : about.classes == 0 && is_possible(targets_, 1),
            "{} describes {} classes and targets of the shape {}, but at least 2 classes or targets are expected",
            name_, about.classes, tensor::to_string(targets_));
    classes_ = targets_.empty() ? about.classes : tensor::element_count(targets_);
    digest_.assign(about.digest, std::find(std::begin(about.digest), std::end(about.digest) - 1, '\0'));
    require(!digest_.empty() && std::ranges::all_of(digest_, [](char c) { return c > ' ' && c < '\x7f'; }),
            "{} has no digest of printing characters", name_);
    require(first <= about.samples && count.value_or(0) <= about.samples - first,
            "{} has {} samples, but more are wanted", name_, about.samples);
    count_ = count.value_or(about.samples - first);
  }
  const std::string& name() const override { return name_; }
  const tensor::Shape& shape() const override { return shape_; }
  std::int64_t classes() const override { return classes_; }
  std::int64_t labels_per_sample() const override { return targets_.empty() ? 1 : classes_; }
  tensor::Shape targets() const override { return targets_; }
  std::int64_t samples() const override { return count_; }
  const std::string& digest() const override { return digest_; }

  void read(std::span<const Pick> picks, Batch& batch) override {
    epochs_.clear();
    indices_.clear();
    for (const auto& [epoch, index] : picks) {
      epochs_.push_back(epoch);
      indices_.push_back(first_ + index);
    }
    const bool has_labels = targets_.empty();
    batch.values.assign(picks.size() * static_cast<std::size_t>(tensor::element_count(shape_)), 0);
    batch.labels.assign(has_labels ? picks.size() : 0, 0);
    batch.targets.assign(has_labels ? 0 : picks.size() * static_cast<std::size_t>(classes_), 0);
    const distdl_source_batch wanted{static_cast<std::int64_t>(picks.size()),
                                     epochs_.data(),
                                     indices_.data(),
                                     batch.values.data(),
                                     has_labels ? batch.labels.data() : nullptr,
                                     has_labels ? nullptr : batch.targets.data()};
    const int code = functions_.read(source_.get(), &wanted, error_.data(), error_.size());
    require<StorageError>(code == 0, "{} cannot be read: {}", name_, reason());
    const auto wrong = std::ranges::find_if(batch.labels, [&](auto label) { return label < 0 || label >= classes_; });
    require<StorageError>(
        wrong == batch.labels.end(), "{} gave sample {} the label {}, outside the classes 0 to {}", name_,
        wrong == batch.labels.end() ? 0 : indices_[static_cast<std::size_t>(wrong - batch.labels.begin())],
        wrong == batch.labels.end() ? 0 : *wrong, classes_ - 1);
  }

 private:
  std::string reason() const {
    const std::string text(error_.begin(), std::find(error_.begin(), error_.end(), '\0'));
    return text.empty() ? "it does not say why" : text;
  }

  const distdl_source_functions& functions_;
  std::string name_, digest_;
  std::array<char, kErrorBytes> error_{};
  std::shared_ptr<void> source_;  ///< unlike a unique_ptr it closes null, too, which open() may give
  tensor::Shape shape_, targets_;
  std::int64_t first_, count_ = 0, classes_ = 0;
  std::vector<std::int64_t> epochs_, indices_;
};
}  // namespace

std::unique_ptr<Source> open_own_source(const std::string& library, const std::string& text, std::int64_t first,
                                        std::optional<std::int64_t> count) {
  return std::make_unique<OwnSource>(library, text, first, count);
}

}  // namespace distdl::data
