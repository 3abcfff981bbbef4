// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/data/example_images.hpp"
#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/data/encoded_images.hpp>
#include <distdl/data/image_import.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/source.hpp>

namespace distdl::data {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kSize = 6;

/// An image of one colour, from which it is known again.
std::string flat(std::uint8_t value, std::int64_t width = 9, std::int64_t height = 7) {
  const std::vector<std::uint8_t> rgb(static_cast<std::size_t>(3 * width * height), value);
  return value % 2 == 0 ? ppm_of(rgb, width, height) : webp_of(rgb, width, height);
}

class Import : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_file(folder_ / name, content);
  }
  ImportedImages run(ImageImport import) {
    for (auto& source : import.sources) source = folder_.path() / source;
    import.output = folder_ / "out.h5";
    import.size = import.size > 0 ? import.size : kSize;
    import.overwrite = Overwrite::replace;
    return ImageImporter(std::move(import)).write();
  }
  std::string failure(ImageImport import) {
    try {
      run(std::move(import));
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists(folder_ / "out.h5"));
      return error.what();
    }
    return "no error";
  }
  /// "label:value" of each image.
  std::vector<std::string> contents() {
    auto set = ImageSet::open(folder_ / "out.h5", 1);
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < set.description().samples; ++i) {
      EXPECT_THAT(set.pixels(i), testing::Each(set.pixels(i)[0]));
      all.push_back(fmt::format("{}:{}", set.labels()[static_cast<std::size_t>(i)], set.pixels(i)[0]));
    }
    return all;
  }
  ScratchFolder folder_;
};

TEST_F(Import, TakesClassFoldersInTheOrderOfImageFolder) {
  put("top/b/1.JPG", flat(10));
  put("top/b/z-/3.ppm", flat(12));
  put("top/b/z/k/2.PNG", flat(14));
  put("top/b/notes.txt", "no image");
  put("top/B/x.webp", flat(16));
  put("top/\xc3\xa4/x.jpeg", flat(18));
  put("top/file.jpg", flat(20));
  const auto about = run({.sources = {"top"}}).description;
  EXPECT_EQ(about.classes, 3);
  EXPECT_EQ(about.shape, (tensor::Shape{3, kSize, kSize}));
  EXPECT_EQ(about.origin, "images top");
  EXPECT_THAT(contents(), ElementsAre("0:16", "1:10", "1:12", "1:14", "2:18"));
  EXPECT_EQ(run({.sources = {"top"}, .channels = 1, .classes = 9}).description.shape, (tensor::Shape{1, kSize, kSize}));
  put("top/empty/readme", "");
  std::filesystem::remove(folder_ / "out.h5");
  EXPECT_THAT(failure({.sources = {"top"}}), HasSubstr("the class \"empty\" has no images"));
  std::filesystem::create_directory_symlink("..", folder_ / "top/b/up");
  EXPECT_THAT(failure({.sources = {"top"}}), HasSubstr("is a link to a folder above it"));
}

TEST_F(Import, NamesBrokenImagesOrPassesOverThem) {
  for (int i = 0; i < 60; ++i) put(fmt::format("top/a/{:02}.png", i), flat(static_cast<std::uint8_t>(i)));
  put("top/a/07.png", "");
  put("top/a/55.png", flat(55).substr(0, 30));
  EXPECT_THAT(failure({.sources = {"top"}}),
              AllOf(HasSubstr("top/a/07.png\" is broken: it is empty"), HasSubstr("--skip-broken")));
  EXPECT_THAT(failure({.sources = {"top"}, .is_encoded = true}), HasSubstr("07.png"));
  for (const bool is_encoded : {false, true}) {
    const auto imported = run({.sources = {"top"}, .is_encoded = is_encoded, .skips_broken = true, .threads = 2});
    EXPECT_EQ(imported.description.samples, 58);
    EXPECT_THAT(imported.broken, ElementsAre(HasSubstr("07.png\": it is empty"), HasSubstr("55.png\": damaged WebP")));
  }
  EXPECT_EQ(run({.sources = {"top"}, .skips_broken = true}).broken.size(), 2u);
  EXPECT_EQ(contents()[7], "0:8");
  for (const auto& file : std::filesystem::directory_iterator(folder_ / "top/a")) write_file(file.path(), "none");
  std::filesystem::remove(folder_ / "out.h5");
  EXPECT_THAT(failure({.sources = {"top"}, .skips_broken = true}), HasSubstr("all 60 images are broken"));
}

TEST_F(Import, LeavesTheSameBytesWithAnyNumberOfThreads) {
  for (std::uint32_t i = 0; i < 50; ++i)
    put(fmt::format("top/{}/{}.jpg", i % 3, i), jpeg_of(example_rgb(40 + i, 50, i), 40 + i, 50));
  for (const bool is_encoded : {false, true}) {
    run({.sources = {"top"}, .is_encoded = is_encoded, .threads = 1});
    const std::string one = read_file(folder_ / "out.h5");
    for (const std::int64_t threads : {2, 5}) {
      run({.sources = {"top"}, .is_encoded = is_encoded, .threads = threads});
      EXPECT_EQ(read_file(folder_ / "out.h5") == one, true) << threads;
    }
  }
}

TEST_F(Import, TakesTablesOfPathsAndLabels) {
  put("a.ppm", flat(2));
  put("images/b, c.ppm", flat(4));
  put("d.ppm", flat(6));
  put("table.csv",
      "\xef\xbb\xbf"
      "id,label,path\r\n1,dog,a.ppm\r\n2,cat,\"images/b, c.ppm\"\n\n3,dog,d.ppm\n");
  EXPECT_EQ(run({.sources = {"table.csv"}}).description.classes, 2);
  EXPECT_THAT(contents(), ElementsAre("1:2", "0:4", "1:6"));
  put("table.tsv", "a.ppm\t7\nd.ppm\t3\n");
  EXPECT_EQ(run({.sources = {"table.tsv"}}).description.classes, 8);
  EXPECT_THAT(contents(), ElementsAre("7:2", "3:6"));
  std::filesystem::remove(folder_ / "out.h5");
  EXPECT_THAT(failure({.sources = {"table.tsv"}, .classes = 5}),
              HasSubstr("has the label 7, but --classes 5 allows 0 to 4"));
  put("short.csv", "a.ppm\n");
  EXPECT_THAT(failure({.sources = {"short.csv"}}), HasSubstr("line 1"));
  put("missing.csv", "nowhere.ppm,1\n");
  EXPECT_THAT(failure({.sources = {"missing.csv"}}), AllOf(HasSubstr("nowhere.ppm"), HasSubstr("No such file")));
  for (const std::string label : {"-1", "9223372036854775808"}) {
    put("number.csv", "a.ppm,0\nb.ppm," + label + "\n");
    EXPECT_THAT(failure({.sources = {"number.csv"}}), HasSubstr("has the label " + label));
  }
  ASSERT_EQ(::mkfifo((folder_ / "pipe.csv").c_str(), 0600), 0);
  EXPECT_THAT(failure({.sources = {"pipe.csv"}}), HasSubstr("pipe.csv\" is a FIFO"));
  put("none.csv", "path,label\n");
  EXPECT_THAT(failure({.sources = {"none.csv"}}), HasSubstr("names no images"));
}

TEST_F(Import, TakesCifarsFiles) {
  std::string ten, hundred;
  for (int i = 0; i < 4; ++i) {
    ten += static_cast<char>(i) + std::string(3072, static_cast<char>(10 + i));
    hundred +=
        std::string{static_cast<char>(1), static_cast<char>(90 + i)} + std::string(3072, static_cast<char>(20 + i));
  }
  put("data_batch_1.bin", ten);
  put("data_batch_2.bin", ten.substr(0, 3073));
  put("train.bin", hundred);
  ImageImport import{.sources = {folder_ / "data_batch_1.bin", folder_ / "data_batch_2.bin"},
                     .output = folder_ / "out.h5"};
  const auto about = ImageImporter(std::move(import)).write().description;
  EXPECT_EQ(about.shape, (tensor::Shape{3, 32, 32}));
  EXPECT_EQ(about.classes, 10);
  EXPECT_THAT(contents(), ElementsAre("0:10", "1:11", "2:12", "3:13", "0:10"));
  EXPECT_EQ(run({.sources = {"train.bin"}}).description.classes, 100);
  EXPECT_THAT(contents(), ElementsAre("90:20", "91:21", "92:22", "93:23"));
  std::filesystem::remove(folder_ / "out.h5");
  EXPECT_THAT(failure({.sources = {"data_batch_1.bin", "train.bin"}}), HasSubstr("import them apart"));
  put("cut.bin", ten.substr(0, 3000));
  EXPECT_THAT(failure({.sources = {"cut.bin"}}), HasSubstr("has 3000 bytes, but records of 3073"));
}

TEST_F(Import, TakesShardsOfWebDataset) {
  write_tar(folder_ / "0.tar",
            {{"a/x.cls", "3"}, {"a/x.jpg", flat(2)}, {"a/x.json", "{}"}, {"a/y.ppm", flat(4)}, {"a/y.cls", "1\n"}});
  write_tar(folder_ / "1.tar.gz",
            {{"._z.jpg", "of macOS"}, {"z.mask.png", flat(6)}, {"z.png", flat(8)}, {"z.cls", "0"}});
  for (const bool is_encoded : {true, false})
    EXPECT_EQ(run({.sources = {"0.tar", "1.tar.gz"}, .is_encoded = is_encoded}).description.classes, 4);
  EXPECT_THAT(contents(), ElementsAre("3:2", "1:4", "0:8"));
  std::filesystem::remove(folder_ / "out.h5");
  const auto refused = [this](const std::vector<std::pair<std::string, std::string>>& entries) {
    write_tar(folder_ / "bad.tar", entries);
    return failure({.sources = {"bad.tar"}});
  };
  EXPECT_THAT(refused({{"a.jpg", flat(2)}}), HasSubstr("\"a.cls\" is expected beside it"));
  EXPECT_THAT(refused({{"a.jpg", flat(2)}, {"a.cls", "cat"}}), HasSubstr("is \"cat\", but a number"));
  EXPECT_THAT(refused({{"a.jpg", flat(2)}, {"a.png", flat(2)}, {"a.cls", "1"}}), HasSubstr("has two images"));
  EXPECT_THAT(refused({{"a.jpg@", "/etc/passwd"}}), HasSubstr("is a link"));
  EXPECT_THAT(refused({{"../a.jpg", flat(2)}}), HasSubstr("leaves the folder"));
  EXPECT_THAT(refused({{"/a.jpg", flat(2)}}), HasSubstr("leaves the folder"));
  EXPECT_THAT(refused({{"a.cls", "1"}}), HasSubstr("has no images"));
  EXPECT_THAT(refused({{"a.jpg", "text"}, {"a.cls", "1"}}), HasSubstr("bad.tar: a.jpg\" is broken: it is no image"));
  put("text.tar", std::string(2000, 'x'));
  EXPECT_THAT(failure({.sources = {"text.tar"}}), HasSubstr("cannot read"));
  const std::string whole = read_file(folder_ / "0.tar");
  put("cut.tar", whole.substr(0, 700));
  EXPECT_THAT(failure({.sources = {"cut.tar"}}), HasSubstr("cut.tar"));
}

TEST_F(Import, RefusesWhatItDoesNotKnow) {
  put("a.zip", "PK");
  put("b.csv", "a.ppm,1\n");
  put("c.tar", "");
  EXPECT_THAT(failure({.sources = {"a.zip"}}),
              AllOf(HasSubstr("a.zip\" is not known to hold"), HasSubstr("CIFAR"), HasSubstr(".tar")));
  EXPECT_THAT(failure({.sources = {"b.csv", "c.tar"}}), HasSubstr("not of the same kind"));
  EXPECT_THAT(failure({.sources = {"nowhere"}}), HasSubstr("there is no"));
  put("top/x.jpg", flat(2));
  EXPECT_THAT(failure({.sources = {"top"}}), HasSubstr("has no folders"));
  put("top/a/x.jpg", flat(2));
  EXPECT_THAT(failure({.sources = {"top"}, .resize = 3}), HasSubstr("--resize is 3, but must be from --size, 6"));
  EXPECT_THAT(failure({.sources = {"top"}, .is_encoded = true, .is_upright = true}), HasSubstr("data.upright"));
}

class Encoded : public Import {
 protected:
  Encoded() {
    for (std::uint32_t i = 0; i < 30; ++i)
      put(fmt::format("top/{}/{:02}.jpg", i % 3, i), jpeg_of(example_rgb(60 + i, 80 - i, i), 60 + i, 80 - i));
    run({.sources = {"top"}, .size = 24, .is_encoded = true});
    options_.train = folder_ / "out.h5";
    options_.holdout = 5;
  }
  Batch read(bool trains, const std::vector<Source::Pick>& picks, std::uint64_t seed = 1) const {
    auto sources = open_sources(options_, 1, seed);
    Batch batch;
    (trains ? sources.training : sources.validation)->read(picks, batch);
    return batch;
  }
  Options options_;
};

TEST_F(Encoded, SamplesDependOnSeedEpochAndNumberAlone) {
  std::vector<Source::Pick> picks;
  for (std::int64_t i = 0; i < 25; ++i) picks.push_back({i % 2, i});
  options_.mirror = true;
  options_.decode_threads = 1;
  const Batch one = read(true, picks);
  options_.decode_threads = 4;
  EXPECT_EQ(read(true, picks).values, one.values);
  EXPECT_EQ(read(true, picks).labels, one.labels);
  const auto image = one.values.size() / picks.size();
  const std::vector<float> third(one.values.begin() + static_cast<std::ptrdiff_t>(3 * image),
                                 one.values.begin() + static_cast<std::ptrdiff_t>(4 * image));
  EXPECT_EQ(read(true, {picks[3]}).values, third) << "alone, as another rank reads it";
  EXPECT_NE(read(true, {{0, 3}}).values, third) << "another epoch";
  EXPECT_NE(read(true, {picks[3]}, 2).values, third) << "another seed";
  EXPECT_EQ(read(false, {{0, 3}}).values, read(false, {{7, 3}}).values) << "evaluation";
}

TEST_F(Encoded, AreNormalizedByChannelIfWanted) {
  const Batch plain = read(false, {{0, 2}});
  options_.normalize = Normalization::imagenet;
  const Batch imagenet = read(false, {{0, 2}});
  const auto about = describe_file(options_.train);
  const std::size_t plane = 24 * 24;
  for (const std::size_t at : {std::size_t{5}, plane + 5, 2 * plane + 5}) {
    constexpr std::array<float, 3> kMean{0.485f, 0.456f, 0.406f}, kDeviation{0.229f, 0.224f, 0.225f};
    const float pixel = plain.values[at] * about.deviation + about.mean;
    EXPECT_NEAR(imagenet.values[at], (pixel - kMean[at / plane]) / kDeviation[at / plane], 1e-4);
  }
}

TEST_F(Encoded, FramesByTheKeys) {
  const Batch random = read(true, {{0, 2}});
  options_.crop_area = 0;
  const Batch centre = read(true, {{0, 2}});
  EXPECT_NE(random.values, centre.values);
  options_.resize = 40;
  EXPECT_NE(read(true, {{0, 2}}).values, centre.values);
  options_.resize = 20;
  EXPECT_THROW(read(true, {{0, 2}}), ConfigError);
}

}  // namespace
}  // namespace distdl::data
