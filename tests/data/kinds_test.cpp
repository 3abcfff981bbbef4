// SPDX-License-Identifier: Apache-2.0
// Every row of the table of kinds keeps its promises. A new kind is tested by its row alone, unless its datasets differ
// from those that write_example() knows.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>

#include "tests/data/example_images.hpp"
#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/data/arrays.hpp>
#include <distdl/data/encoded_images.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/data/set_writer.hpp>
#include <distdl/data/source.hpp>

namespace distdl::data {
namespace {
using testing::HasSubstr;

constexpr std::int64_t kSamples = 900, kClasses = 5, kContext = 16, kHoldout = 100;

/// The n-th value of an example, below kClasses.
template <class Number>
std::vector<Number> example_values(std::int64_t count) {
  std::vector<Number> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<Number>(i * i % kClasses);
  return values;
}

template <class Number>
double mean_of(const std::vector<Number>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Images of 2 x 2 pixels in 3 channels.
Description write_encoded_example(Description about, const std::filesystem::path& file) {
  constexpr std::size_t kValues = 12;
  const auto values = example_values<std::uint8_t>(kSamples * std::int64_t{kValues});
  const auto labels = example_values<std::int32_t>(kSamples);
  std::vector<std::string> images;
  for (auto first = values.begin(); first != values.end(); first += kValues) {
    std::vector<std::uint8_t> rgb(kValues);
    for (std::size_t i = 0; i < kValues; ++i) rgb[i] = first[static_cast<std::ptrdiff_t>(i % 3 * 4 + i / 3)];
    images.push_back(ppm_of(rgb, 2, 2));
    about.encoded_bytes += static_cast<std::int64_t>(images.back().size());
  }
  about.shape = {3, 2, 2};
  SetWriter writer(file, about, Overwrite::refuse);
  for (std::size_t i = 0; i < images.size(); ++i) {
    PixelCounts counts{};
    for (std::size_t k = 0; k < kValues; ++k) ++counts[values[i * kValues + k]];
    writer.append_encoded(std::as_bytes(std::span(images[i])), labels[i], counts);
  }
  return writer.commit();
}

Description write_array_example(Description about, const std::filesystem::path& file) {
  const auto values = example_values<float>(kSamples * 12);
  ArraySetWriter writer(file, about, {{"x"}, {}, {"a", "b", "c", "d", "e"}}, nullptr, Overwrite::refuse);
  writer.append_inputs(values);
  writer.append_labels(example_values<std::int32_t>(kSamples));
  return writer.commit();
}

Description write_example(const Kind& kind, const std::filesystem::path& file) {
  Description about{.kind = std::string(kind.name), .origin = "example", .samples = kSamples, .classes = kClasses};
  if (!kind.is_sequence) about.shape = {1, 3, 4};
  if (kind.name == kArrays) return write_array_example(about, file);
  if (kind.name == kEncodedImages) return write_encoded_example(about, file);
  SetWriter writer(file, about, Overwrite::refuse);
  const auto datasets = datasets_of(about);
  const auto first = example_values<std::uint8_t>(tensor::element_count(datasets.front().shape));
  if (datasets.size() == 1)
    writer.append(first);
  else
    writer.append(first, example_values<std::int32_t>(kSamples));
  return writer.commit();
}

class EachKind : public testing::TestWithParam<std::size_t> {
 protected:
  const Kind& kind() const { return kinds()[GetParam()]; }
  Sources open() const {
    Options options;
    options.train = file_.string();
    options.holdout = kHoldout;
    return open_sources(options, kContext, 1);
  }

  ScratchFolder folder_;
  std::filesystem::path file_ = folder_ / "example.h5";
  Description written_ = write_example(kind(), file_);
};

TEST_P(EachKind, IsFoundByItsNameAlone) {
  EXPECT_EQ(&find_kind(kind().name), &kind()) << "two rows with one name";
  EXPECT_EQ(describe_file(file_).kind, kind().name);
  EXPECT_TRUE(verify_file(file_).damage.empty());
}

TEST_P(EachKind, OpensTheTwoPartsOfASet) {
  const auto sources = open();
  ASSERT_NE(sources.training, nullptr);
  ASSERT_NE(sources.validation, nullptr);
  const auto& shape = sources.training->shape();
  EXPECT_EQ(shape, kind().is_sequence ? tensor::Shape{kContext} : written_.shape);
  EXPECT_EQ(sources.training->classes(), kClasses);
  EXPECT_EQ(sources.training->digest(), digest_of_file(file_));
  const auto left = kSamples - kHoldout;
  EXPECT_EQ(sources.training->samples(), kind().is_sequence ? (left - kContext) / kContext : left);
  Batch batch;
  const std::vector<Source::Pick> picks{{0, 0}, {1, 1}, {0, 2}};
  sources.validation->read(picks, batch);
  const auto elements = picks.size() * static_cast<std::size_t>(tensor::element_count(shape));
  EXPECT_EQ(batch.values.size() + batch.tokens.size(), elements);
  EXPECT_EQ(batch.tokens.empty(), !kind().is_sequence);
  EXPECT_EQ(batch.labels.size(), picks.size() * static_cast<std::size_t>(sources.validation->labels_per_sample()));
}

TEST_P(EachKind, HasMeanAndDeviationOnlyIfItIsNormalized) {
  const auto values = example_values<std::uint8_t>(kSamples * 12);
  EXPECT_NEAR(written_.mean, kind().is_normalized ? mean_of(values) / 255 : 0, 1e-6);
  EXPECT_EQ(written_.deviation == 1, !kind().is_normalized);
  Batch batch;
  std::vector<Source::Pick> picks(10);  // all values are in it equally often
  for (std::size_t i = 0; i < picks.size(); ++i) picks[i].index = static_cast<std::int64_t>(i) % 5;
  open().validation->read(picks, batch);
  EXPECT_EQ(kind().is_sequence, batch.values.empty()) << "floats are normalized, tokens are not";
  EXPECT_NEAR(kind().is_sequence ? 0 : mean_of(batch.values), 0, 1e-5);
}

TEST_P(EachKind, TellsLabelsOnlyIfEachSampleHasOne) {
  EXPECT_EQ(kind().labels != nullptr, open().training->labels_per_sample() == 1);
  if (!kind().labels) return;
  EXPECT_EQ(kind().labels(file_), example_values<std::int32_t>(kSamples));
}

TEST_P(EachKind, ShowsSamplesButNoMoreThanThereAre) {
  const auto shown = [this](std::int64_t count) {
    std::int64_t seen = 0;
    kind().show(file_, count, [&](const ShownSample& sample) {
      ++seen;
      if (const auto* const picture = std::get_if<Picture>(&sample)) {
        EXPECT_EQ(picture->pixels.size(), static_cast<std::size_t>(tensor::element_count(picture->shape)));
        EXPECT_EQ(picture->pixels[2],
                  example_values<std::uint8_t>(kSamples * 12)[static_cast<std::size_t>(seen - 1) * 12 + 2]);
      } else if (const auto* const numbers = std::get_if<Numbers>(&sample)) {
        EXPECT_EQ(numbers->inputs[2],
                  example_values<float>(kSamples * 12)[static_cast<std::size_t>(seen - 1) * 12 + 2]);
        EXPECT_EQ(numbers->label, example_values<std::int32_t>(kSamples)[static_cast<std::size_t>(seen - 1)]);
      } else {
        const auto& passage = std::get<Passage>(sample);
        EXPECT_EQ(passage.vocabulary, kClasses);
        EXPECT_EQ(passage.tokens[2],
                  example_values<std::uint8_t>(kSamples)[static_cast<std::size_t>(seen - 1) * 400 + 2]);
      }
    });
    return seen;
  };
  EXPECT_EQ(shown(0), 0);
  EXPECT_EQ(shown(2), 2);
  EXPECT_LE(shown(2 * kSamples), kSamples);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EachKind, testing::Range(std::size_t{0}, kinds().size()), [](const auto& test) {
  std::string name(kinds()[test.param].name);
  std::ranges::replace(name, ' ', '_');
  return name;
});

TEST(Kinds, NamesAllKindsWhereThereIsNoSuchOne) {
  try {
    find_kind("videos");
    FAIL() << "there is no such kind";
  } catch (const ConfigError& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("\"videos\" is not a kind of data set; it must be images or encoded images or tokens or arrays"));
  }
}

}  // namespace
}  // namespace distdl::data
