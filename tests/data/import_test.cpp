// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/data/format/chunk_reader.hpp>
#include <distdl/data/format/hdf5_file.hpp>
#include <distdl/data/idx_import.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/text_import.hpp>

namespace distdl::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string big_endian(std::uint32_t number) {
  return {static_cast<char>(number >> 24), static_cast<char>(number >> 16), static_cast<char>(number >> 8),
          static_cast<char>(number)};
}
std::string idx(std::vector<std::uint32_t> shape, const std::string& values) {
  std::string file = big_endian(0x800 + static_cast<std::uint32_t>(shape.size()));
  for (std::uint32_t extent : shape) file += big_endian(extent);
  return file + values;
}
std::string pixels(std::size_t count) {
  std::string values(count, '\0');
  std::iota(values.begin(), values.end(), '\0');
  return values;
}

void write_gzip(const std::filesystem::path& path, const std::string& content) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, content.data(), static_cast<unsigned>(content.size())), static_cast<int>(content.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

class ImportIdx : public testing::Test {
 protected:
  Description run(const std::string& images, const std::string& labels, std::int64_t classes = 0) {
    write_file(folder_ / "images", images);
    write_file(folder_ / "labels", labels);
    return import_idx({folder_ / "images", folder_ / "labels", folder_ / "out.h5", classes, Overwrite::replace});
  }
  /// The message, after checking the code and that nothing was left behind.
  std::string failure(const std::string& images, const std::string& labels, ExitCode code, std::int64_t classes = 0) {
    std::string message = "no error";
    try {
      run(images, labels, classes);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), code) << error.what();
      message = error.what();
    }
    EXPECT_EQ(folder_.entries(), 2u);
    return message;
  }
  ScratchFolder folder_;
  const std::string images_ = idx({3, 4, 5}, pixels(60)), labels_ = idx({3}, {1, 0, 4});
};

TEST_F(ImportIdx, KeepsPixelsAndLabels) {
  auto about = run(images_, labels_);
  EXPECT_EQ(about.shape, (tensor::Shape{1, 4, 5}));
  EXPECT_EQ(about.classes, 5);
  EXPECT_EQ(about.origin, "idx images labels");
  auto set = ImageSet::open(folder_ / "out.h5", 1);
  EXPECT_THAT(set.labels(), testing::ElementsAre(1, 0, 4));
  EXPECT_THAT(set.pixels(2),
              testing::ElementsAre(40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59));
}

TEST_F(ImportIdx, ReadsGzipToo) {
  write_gzip(folder_ / "images.gz", images_);
  write_gzip(folder_ / "labels.gz", labels_);
  import_idx({folder_ / "images.gz", folder_ / "labels.gz", folder_ / "out.h5"});
  EXPECT_EQ(ImageSet::open(folder_ / "out.h5", 1).pixels(1)[0], 20);
}

TEST_F(ImportIdx, TakesTheNumberOfClassesFromTheUser) {
  EXPECT_EQ(run(images_, labels_, 10).classes, 10);
}

TEST_F(ImportIdx, RefusesALabelOutsideTheClasses) {
  EXPECT_THAT(failure(images_, labels_, ExitCode::config, 4), HasSubstr("contains the label 4, but --classes 4"));
}

TEST_F(ImportIdx, NoticesThatImagesAndLabelsAreSwapped) {
  EXPECT_THAT(failure(labels_, images_, ExitCode::config), HasSubstr("were images and labels swapped?"));
}

TEST_F(ImportIdx, RefusesAnotherFormat) {
  EXPECT_THAT(failure("hello, world", labels_, ExitCode::config), HasSubstr("starts with 68 65 6c 6c"));
  EXPECT_THAT(failure("", labels_, ExitCode::config), HasSubstr("not an IDX file"));
  std::string floats = images_;
  floats[2] = 0x0d;
  EXPECT_THAT(failure(floats, labels_, ExitCode::config), AllOf(HasSubstr("00 00 0d 03"), HasSubstr("another type")));
  EXPECT_THAT(failure(idx({2, 3, 4, 5}, pixels(120)), labels_, ExitCode::config), HasSubstr("number of dimensions"));
  EXPECT_THAT(failure("PK\3\4", labels_, ExitCode::config), HasSubstr("zip archive"));
  for (const auto& message :
       {failure(floats, labels_, ExitCode::config), failure("hello, world", labels_, ExitCode::config)})
    EXPECT_THAT(message, testing::Not(HasSubstr("swapped")));
}

TEST_F(ImportIdx, RefusesCountsThatDiffer) {
  EXPECT_THAT(failure(images_, idx({2}, {1, 0}), ExitCode::config), HasSubstr("has 3 images"));
}

TEST_F(ImportIdx, RefusesAnEmptySet) {
  EXPECT_THAT(failure(idx({0, 4, 5}, ""), idx({0}, ""), ExitCode::config), HasSubstr("contains no images"));
}

TEST_F(ImportIdx, RefusesImagesWithoutPixels) {
  EXPECT_THAT(failure(idx({3, 0, 5}, ""), labels_, ExitCode::config), HasSubstr("cannot have the shape (1, 0, 5)"));
}

TEST_F(ImportIdx, NoticesThatAFileIsCutOff) {
  for (std::size_t length : {8u, 15u, 16u, 40u, 75u})
    EXPECT_THAT(failure(images_.substr(0, length), labels_, ExitCode::corrupt), HasSubstr("truncated")) << length;
  EXPECT_THAT(failure(images_, labels_.substr(0, 10), ExitCode::corrupt), HasSubstr("truncated"));
}

TEST_F(ImportIdx, NoticesAFileLongerThanItSays) {
  EXPECT_THAT(failure(images_ + "x", labels_, ExitCode::config), HasSubstr("longer than its header says"));
  EXPECT_THAT(failure(images_, labels_ + "x", ExitCode::config), HasSubstr("longer than its header says"));
}

TEST_F(ImportIdx, SurvivesAHeaderThatAnnouncesAbsurdAmounts) {
  EXPECT_THAT(failure(idx({3, 65536, 65536}, "x"), labels_, ExitCode::config), HasSubstr("too large"));
  EXPECT_THAT(failure(idx({0xFFFFFFFF, 4, 5}, "x"), idx({0xFFFFFFFF}, "x"), ExitCode::corrupt), HasSubstr("truncated"));
}

TEST_F(ImportIdx, NoticesDamagedGzip) {
  write_gzip(folder_ / "good.gz", idx({3, 40, 50}, pixels(6000)));
  std::string good = read_file(folder_ / "good.gz");
  std::filesystem::remove(folder_ / "good.gz");
  EXPECT_THAT(failure(good.substr(0, good.size() - 30), labels_, ExitCode::corrupt), HasSubstr("damaged or truncated"));
  good[good.size() - 6] ^= 1;  // its checksum
  EXPECT_THAT(failure(good, labels_, ExitCode::corrupt), HasSubstr("damaged or truncated"));
}

TEST_F(ImportIdx, NamesAMissingFile) {
  try {
    import_idx({folder_ / "none", folder_ / "none2", folder_ / "out.h5"});
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::incomplete);
    EXPECT_THAT(error.what(), HasSubstr((folder_ / "none").string()));
  }
}

TEST(ImportMnist, HasTheKnownFigures) {
  auto source = test_data();
  if (!source) GTEST_SKIP() << "no MNIST: set DISTDL_TEST_DATA to the folder with t10k-images-idx3-ubyte.gz";
  ScratchFolder folder;
  auto about =
      import_idx({*source / "t10k-images-idx3-ubyte.gz", *source / "t10k-labels-idx1-ubyte.gz", folder / "m.h5"});
  EXPECT_EQ(about.samples, 10000);
  EXPECT_EQ(about.shape, (tensor::Shape{1, 28, 28}));
  EXPECT_EQ(about.classes, 10);
  EXPECT_NEAR(about.mean, 0.1325, 1e-4);
  EXPECT_NEAR(about.deviation, 0.3105, 1e-4);
  auto set = ImageSet::open(folder / "m.h5", 64);
  std::vector<std::int64_t> counts(10);
  for (std::int32_t label : set.labels()) ++counts[static_cast<std::size_t>(label)];
  EXPECT_THAT(counts, testing::ElementsAre(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009));
  EXPECT_THAT(set.labels().first(8), testing::ElementsAre(7, 2, 1, 0, 4, 1, 4, 9));
}

std::string tokens_of(const std::filesystem::path& path) {
  auto about = describe_file(path);
  ChunkReader chunks(open_hdf5_file(path), path.string(), "tokens", StoredNumber::u8, {about.samples}, 0);
  std::string text;
  for (std::int64_t number = 0; number < chunks.chunks(); ++number)
    for (std::byte token : chunks.chunk(number)) text += static_cast<char>(token);
  return text;
}

TEST(ImportText, KeepsEveryByte) {
  ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 2'500'000; ++i) text += static_cast<char>(i * 7 + i / 300);
  write_file(folder / "a.bin", text);
  auto about = import_text(folder / "a.bin", folder / "a.h5", Overwrite::refuse);
  EXPECT_EQ(about.kind, "tokens");
  EXPECT_EQ(about.samples, 2'500'000);
  EXPECT_EQ(about.classes, 256);
  EXPECT_TRUE(tokens_of(folder / "a.h5") == text);
  write_gzip(folder / "a.gz", text);
  import_text(folder / "a.gz", folder / "b.h5", Overwrite::refuse);
  EXPECT_TRUE(tokens_of(folder / "b.h5") == text);
}

std::string gzip(const std::string& content) {
  ScratchFolder folder;
  write_gzip(folder / "x", content);
  return read_file(folder / "x");
}

std::string zstd(const std::string& content) {
  std::string packed(ZSTD_compressBound(content.size()), ' ');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), content.data(), content.size(), 1));
  return packed;
}

TEST(ImportText, ReadsEachMemberOfCompressedFiles) {
  ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += static_cast<char>(i * 7 + i / 300);
  const std::string skipped("\x5e\x2a\x4d\x18\3\0\0\0abc", 11), zeros(1000, '\0');
  for (const auto& packed : {gzip(text) + gzip("") + gzip("end"), gzip(text) + gzip("end") + zeros,
                             zstd(text) + zstd("end"), zstd(text) + skipped + zstd("end") + skipped}) {
    write_file(folder / "a", packed);
    import_text(folder / "a", folder / "a.h5", Overwrite::replace);
    EXPECT_TRUE(tokens_of(folder / "a.h5") == text + "end");
  }
}

TEST(ImportText, NoticesDamageInAnyMember) {
  ScratchFolder folder;
  const auto refusal = [&](const std::string& bytes) -> std::string {
    write_file(folder / "a", bytes);
    try {
      import_text(folder / "a", folder / "a.h5", Overwrite::replace);
    } catch (const StorageError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::corrupt);
      return error.what();
    }
    return "no error";
  };
  const std::string text(3000, 'x');
  for (const auto& pack : {&gzip, &zstd}) {
    const std::string first = pack(text);
    for (std::size_t place = 0; place < 4; ++place) {
      std::string second = pack(text);
      second[place] ^= place == 3 ? '\xe0' : 1;
      EXPECT_THAT(refusal(first + second), HasSubstr(fmt::format("part 2, which begins at byte {}", first.size())))
          << place;
    }
    EXPECT_THAT(refusal(first + "x"), HasSubstr("part 2"));
    EXPECT_THAT(refusal(first + std::string(5, '\0') + first), HasSubstr("part 2"));
    EXPECT_THAT(refusal(first + first.substr(0, first.size() - 3)), HasSubstr("part 2"));
    EXPECT_THAT(refusal(first.substr(0, first.size() - 3)), HasSubstr("damaged or truncated"));
  }
}

TEST(ImportText, RefusesAnEmptyFile) {
  ScratchFolder folder;
  write_file(folder / "a.txt", "");
  EXPECT_THROW(import_text(folder / "a.txt", folder / "a.h5", Overwrite::refuse), ConfigError);
  EXPECT_THROW(import_text(folder / "none.txt", folder / "a.h5", Overwrite::refuse), StorageError);
}

TEST(ImportText, KeepsShakespeare) {
  auto source = test_data();
  if (!source) GTEST_SKIP() << "no text: set DISTDL_TEST_DATA to the folder with tinyshakespeare.txt";
  ScratchFolder folder;
  import_text(*source / "tinyshakespeare.txt", folder / "a.h5", Overwrite::refuse);
  EXPECT_TRUE(tokens_of(folder / "a.h5") == read_file(*source / "tinyshakespeare.txt"));
}

}  // namespace
}  // namespace distdl::data
