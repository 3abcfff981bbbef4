// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/format/hdf5_attributes.hpp>
#include <distdl/data/format/hdf5_file.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/set_writer.hpp>
#include <distdl/data/shapes.hpp>
#include <distdl/data/text_import.hpp>

namespace distdl::data {
namespace {

using testing::HasSubstr;
constexpr std::int64_t kImage = 3 * 5 * 7;

template <class Action>
std::pair<ExitCode, std::string> failure(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.exit_code(), error.what()};
  }
  return {ExitCode::ok, "no error"};
}

TEST(ImageSet, ReturnsWhatWasWritten) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 2000);  // several chunks, the last one not full
  auto set = ImageSet::open(folder / "a.h5", 1);
  const Description& about = set.description();
  EXPECT_EQ(about.kind, "images");
  EXPECT_EQ(about.origin, "test");
  EXPECT_EQ(about.samples, 2000);
  EXPECT_EQ(about.shape, (tensor::Shape{3, 5, 7}));
  EXPECT_EQ(about.classes, 4);
  EXPECT_EQ(about.stored_bytes, std::filesystem::file_size(folder / "a.h5"));

  std::vector<std::int64_t> indices{1999, 0, 624, 623, 1248, 0, 1700};
  std::vector<float> images(indices.size() * kImage);
  std::vector<std::int32_t> labels(indices.size());
  set.read(indices, images.data(), labels.data());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    EXPECT_EQ(labels[i], indices[i] % 4);
    for (std::int64_t place = 0; place < kImage; ++place)
      ASSERT_EQ(images[i * kImage + static_cast<std::size_t>(place)],
                (static_cast<float>(small_pixel(indices[i], place)) / 255.0f - about.mean) / about.deviation);
  }
}

TEST(ImageSet, IsNormalizedToMeanZeroAndDeviationOne) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 700);
  auto set = ImageSet::open(folder / "a.h5", 1);
  std::vector<std::int64_t> indices(700);
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<float> images(indices.size() * kImage);
  std::vector<std::int32_t> labels(indices.size());
  set.read(indices, images.data(), labels.data());
  double sum = 0, squares = 0;
  for (float value : images) sum += value, squares += double(value) * value;
  EXPECT_NEAR(sum / double(images.size()), 0, 1e-5);
  EXPECT_NEAR(squares / double(images.size()), 1, 1e-5);
}

TEST(ImageSet, NormalizesASetOfOneColourWithoutDividingByZero) {
  ScratchFolder folder;
  SetWriter writer(folder / "a.h5", {.kind = "images", .samples = 1, .shape = {1, 2, 2}, .classes = 1},
                   Overwrite::refuse);
  std::vector<std::uint8_t> pixels(4, 128);
  std::int32_t label = 0;
  writer.append(pixels, {&label, 1});
  EXPECT_EQ(writer.commit().deviation, 1.0f);
  std::int64_t index = 0;
  std::vector<float> image(4);
  ImageSet::open(folder / "a.h5", 0).read({&index, 1}, image.data(), &label);
  EXPECT_NEAR(image[0], 0, 1e-6);
}

TEST(ImageSet, ReadsASetThatFitsTheCacheOnce) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 2000);  // 210,000 bytes: 4 chunks
  auto set = ImageSet::open(folder / "a.h5", 1);
  for (int round = 0; round < 3; ++round)
    for (std::int64_t i = 0; i < 2000; i += 7) set.pixels(i);
  EXPECT_EQ(set.chunk_reads(), 4);
}

TEST(ImageSet, WorksWithoutACache) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 2000);
  auto set = ImageSet::open(folder / "a.h5", 0);
  for (std::int64_t i : {0, 1999, 0, 1999}) EXPECT_EQ(set.pixels(i)[5], small_pixel(i, 5));
  EXPECT_EQ(set.chunk_reads(), 4);
}

TEST(ImageSet, RefusesAnIndexOutsideTheSet) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 10);
  auto set = ImageSet::open(folder / "a.h5", 1);
  EXPECT_THROW(set.pixels(10), ConfigError);
  EXPECT_THROW(set.pixels(-1), ConfigError);
}

TEST(ImageSet, NamesAMissingFile) {
  auto [code, message] = failure([] { ImageSet::open("/nowhere/at/all.h5", 1); });
  EXPECT_EQ(code, ExitCode::incomplete);
  EXPECT_THAT(message, HasSubstr("/nowhere/at/all.h5"));
  EXPECT_THAT(message, HasSubstr("No such file"));
}

TEST(ImageSet, RefusesWhatIsNotHdf5) {
  ScratchFolder folder;
  write_file(folder / "a.h5", "not at all HDF5");
  write_file(folder / "empty.h5", "");
  for (const auto& file : {folder / "a.h5", folder / "empty.h5", folder.path()}) {
    auto [code, message] = failure([&] { describe_file(file); });
    EXPECT_EQ(code, ExitCode::incompatible);
    EXPECT_THAT(message, HasSubstr(file.string()));
  }
}

TEST(ImageSet, RefusesAnotherHdf5File) {
  ScratchFolder folder;
  close_and_check(create_hdf5_file(folder / "a.h5"));
  auto [code, message] = failure([&] { describe_file(folder / "a.h5"); });
  EXPECT_EQ(code, ExitCode::incompatible);
  EXPECT_THAT(message, HasSubstr("not a distdl data set"));
}

TEST(ImageSet, RefusesALaterVersionOfTheFormat) {
  ScratchFolder folder;
  auto file = create_hdf5_file(folder / "a.h5");
  write_attribute(file.get(), "format", std::string_view("distdl-data"));
  write_attribute(file.get(), "version", std::int64_t{2});
  close_and_check(std::move(file));
  auto [code, message] = failure([&] { describe_file(folder / "a.h5"); });
  EXPECT_EQ(code, ExitCode::incompatible);
  EXPECT_THAT(message, HasSubstr("version 2"));
}

TEST(ImageSet, RefusesTokens) {
  ScratchFolder folder;
  write_file(folder / "a.txt", "to be or not to be");
  import_text(folder / "a.txt", folder / "a.h5", Overwrite::refuse);
  auto [code, message] = failure([&] { ImageSet::open(folder / "a.h5", 1); });
  EXPECT_EQ(code, ExitCode::config);
  EXPECT_THAT(message, HasSubstr("contains tokens, but images are expected"));
}

TEST(ImageSet, ServesRanksThatAreThreads) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 2000);
  std::vector<std::thread> ranks;
  std::vector<int> wrong(4);
  for (std::size_t rank = 0; rank < wrong.size(); ++rank)
    ranks.emplace_back([&, rank] {
      auto set = ImageSet::open(folder / "a.h5", 0);
      for (std::int64_t i = 0; i < 2000; i += 97) wrong[rank] += set.pixels(i)[1] != small_pixel(i, 1);
    });
  for (auto& rank : ranks) rank.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST(SetWriter, KeepsAnExistingFileUnlessForced) {
  ScratchFolder folder;
  write_file(folder / "a.h5", "precious");
  EXPECT_EQ(failure([&] { write_small_images(folder / "a.h5", 10); }).first, ExitCode::config);
  EXPECT_EQ(read_file(folder / "a.h5"), "precious");
  EXPECT_EQ(folder.entries(), 1u);
  SetWriter writer(folder / "a.h5", {.kind = "tokens", .samples = 3, .shape = {}, .classes = 256}, Overwrite::replace);
  writer.append(std::vector<std::uint8_t>{1, 2, 3});
  EXPECT_EQ(read_file(folder / "a.h5"), "precious");
  writer.commit();
  EXPECT_EQ(describe_file(folder / "a.h5").samples, 3);
}

TEST(SetWriter, DoesNotReplaceAFileThatAppearedMeanwhile) {
  ScratchFolder folder;
  SetWriter writer(folder / "a.h5", {.kind = "tokens", .samples = 1, .shape = {}, .classes = 256}, Overwrite::refuse);
  writer.append(std::vector<std::uint8_t>{1});
  write_file(folder / "a.h5", "precious");
  EXPECT_THROW(writer.commit(), ConfigError);
  EXPECT_EQ(read_file(folder / "a.h5"), "precious");
}

TEST(SetWriter, RefusesMoreOrFewerSamplesThanAnnounced) {
  ScratchFolder folder;
  Description description{.kind = "tokens", .samples = 3, .shape = {}, .classes = 256};
  {
    SetWriter writer(folder / "a.h5", description, Overwrite::refuse);
    EXPECT_THROW(writer.append(std::vector<std::uint8_t>(4)), ConfigError);
    writer.append(std::vector<std::uint8_t>(2));
    EXPECT_THROW(writer.commit(), ConfigError);
  }
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(SetWriter, RefusesALabelOutsideTheClasses) {
  ScratchFolder folder;
  SetWriter writer(folder / "a.h5", {.kind = "images", .samples = 1, .shape = {1, 1, 1}, .classes = 3},
                   Overwrite::refuse);
  std::uint8_t pixel = 1;
  for (std::int32_t label : {3, -1}) EXPECT_THROW(writer.append({&pixel, 1}, {&label, 1}), ConfigError);
}

TEST(SetWriter, RefusesWhatNoDiskHasRoomForAtOnce) {
  ScratchFolder folder;
  for (std::int64_t samples : {std::int64_t{1} << 50, std::int64_t{1} << 60}) try {
      make_shapes({.samples = samples, .size = 8}, folder / "large.h5", Overwrite::refuse);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  samples < std::int64_t{1} << 55 ? HasSubstr("MiB free") : HasSubstr("too many elements"));
    }
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(SetWriter, NamesAFolderThatDoesNotExist) {
  auto [code, message] = failure([] { write_small_images("/nowhere/at/all.h5", 1); });
  EXPECT_EQ(code, ExitCode::storage);
  EXPECT_THAT(message, HasSubstr("/nowhere/at"));
}

TEST(SetWriter, GivesTheSameBytesForTheSameContent) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 1000);
  write_small_images(folder / "b.h5", 1000);
  EXPECT_TRUE(read_file(folder / "a.h5") == read_file(folder / "b.h5"));
}

}  // namespace
}  // namespace distdl::data
