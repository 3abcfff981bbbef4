// SPDX-License-Identifier: Apache-2.0
// Whatever happens to the bytes of a set: either the same content or an error, never other content.
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/data/example_images.hpp"
#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/encoded_images.hpp>
#include <distdl/data/format/chunk_reader.hpp>
#include <distdl/data/format/hdf5_attributes.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/set_writer.hpp>
#include <distdl/data/text_import.hpp>

namespace distdl::data {
namespace {

using testing::HasSubstr;

/// Everything a reader can get out of a file, in one string.
std::string content_of(const std::filesystem::path& path) {
  Description about = describe_file(path);
  std::string content = fmt::format("{} {} {} {} {} {} {}\n", about.kind, about.origin, about.samples,
                                    tensor::to_string(about.shape), about.classes, about.mean, about.deviation);
  auto file = open_hdf5_file(path);
  for (const auto& spec : datasets_of(about)) {
    ChunkReader chunks(file, path.string(), spec.name, spec.type, spec.shape, 0);
    for (std::int64_t number = 0; number < chunks.chunks(); ++number) {
      auto bytes = chunks.chunk(number);
      content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  return content;
}

constexpr int kEncoded = -1;

void write_encoded_images(const std::filesystem::path& file) {
  constexpr std::int64_t kImages = 40, kExtent = 30;
  const std::string image = ppm_of(example_rgb(kExtent, kExtent), kExtent, kExtent);
  SetWriter writer(file,
                   {.kind = kEncodedImages,
                    .origin = "test",
                    .samples = kImages,
                    .shape = {3, 8, 8},
                    .classes = 4,
                    .encoded_bytes = kImages * static_cast<std::int64_t>(image.size())},
                   Overwrite::refuse);
  for (std::int32_t i = 0; i < kImages; ++i) writer.append_encoded(std::as_bytes(std::span(image)), i % 4, {1, 2});
  writer.commit();
}

class Damage : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (GetParam() == 0) {
      write_file(folder_ / "text", std::string(150'000, 'x') + "the end");
      import_text(folder_ / "text", folder_ / "good.h5", Overwrite::refuse);
    } else if (GetParam() == kEncoded) {
      write_encoded_images(folder_ / "good.h5");
    } else {
      write_small_images(folder_ / "good.h5", GetParam());
    }
    good_ = read_file(folder_ / "good.h5");
    content_ = content_of(folder_ / "good.h5");
  }

  /// True if the damage was found; fails the test if it was not and the content is another one.
  bool found(const std::string& bytes, const std::string& what) {
    write_file(folder_ / "bad.h5", bytes);
    try {
      EXPECT_TRUE(content_of(folder_ / "bad.h5") == content_) << what << " was read as other content";
      return false;
    } catch (const StorageError& error) {
      EXPECT_TRUE(error.exit_code() == ExitCode::corrupt || error.exit_code() == ExitCode::incompatible)
          << error.what();
      EXPECT_THAT(error.what(), HasSubstr("bad.h5"));
      return true;
    }
  }

  std::size_t random(std::uint64_t stream, std::uint64_t number, std::size_t below) {
    return Philox::block(11, stream, number)[0] % below;
  }

  ScratchFolder folder_;
  std::string good_, content_;
};

TEST_P(Damage, AFlippedBitIsFoundOrHarmless) {
  int caught = 0;
  const int flips = 400;
  for (int i = 0; i < flips; ++i) {
    std::string bad = good_;
    std::size_t place = random(1, static_cast<std::uint64_t>(i), bad.size()), bit = random(2, i, 8);
    bad[place] = static_cast<char>(bad[place] ^ 1 << bit);
    caught += found(bad, fmt::format("bit {} of byte {}", bit, place));
  }
  EXPECT_GT(caught, flips / 3);  // the rest hit gaps and padding
}

// The small pieces between the payload: superblock, headers, attributes, checksum tables.
TEST_P(Damage, AFlippedBitInTheDescriptionIsFoundOrHarmless) {
  std::size_t step = GetParam() == 20 ? 1 : 5, limit = std::min<std::size_t>(good_.size(), 4096);
  for (std::size_t from : {std::size_t{0}, good_.size() - limit})
    for (std::size_t place = from; place < from + limit; place += step) {
      std::string bad = good_;
      bad[place] = static_cast<char>(bad[place] ^ 1 << place % 8);
      found(bad, fmt::format("byte {}", place));
    }
}

TEST_P(Damage, ATruncatedFileIsFound) {
  for (int i = 0; i < 200; ++i) {
    std::size_t length = i < 100 ? random(3, i, good_.size()) : good_.size() * (i - 100) / 100;
    EXPECT_TRUE(found(good_.substr(0, length), fmt::format("cut to {} bytes", length))) << length;
  }
}

TEST_P(Damage, ALostOrStrayBlockIsFoundOrHarmless) {
  for (int i = 0; i < 200; ++i) {
    std::string bad = good_;
    std::size_t length = std::min<std::size_t>(512, bad.size() / 4);
    std::size_t to = random(4, i, bad.size() - length), from = random(5, i, bad.size() - length);
    if (i % 2)
      std::memset(bad.data() + to, 0, length);
    else
      std::memcpy(bad.data() + to, good_.data() + from, length);
    found(bad, fmt::format("block at {}", to));
  }
}

TEST_P(Damage, EveryByteOfThePayloadCounts) {
  // The payload is where the file holds it in one piece, as docs/data-format.md says.
  auto payload = content_.substr(content_.find('\n') + 1);
  auto start = good_.find(payload.substr(0, 2000));
  ASSERT_NE(start, std::string::npos);
  for (int i = 0; i < 200; ++i) {
    std::string bad = good_;
    std::size_t place = start + random(6, i, 2000);
    bad[place] = static_cast<char>(bad[place] ^ 1 << random(7, i, 8));
    EXPECT_TRUE(found(bad, fmt::format("byte {}", place)));
  }
}

// 0 stands for tokens, else a number of images: all in one chunk, in several chunks.
INSTANTIATE_TEST_SUITE_P(Sets, Damage, testing::Values(0, 20, 1300, kEncoded));

struct Edited {
  explicit Edited(const std::filesystem::path& path) : file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)) {}
  hdf5::File file;
};

/// What `action` throws.
template <class Action>
std::string damage_message(Action&& action) {
  try {
    action();
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::corrupt);
    return error.what();
  }
  return "no error";
}

// A program that edits the file leaves HDF5's own checksums in order: ours are another matter.
TEST(EditedSet, NamesTheChunkWithAnotherPixel) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 1300);
  {
    Edited edited(folder / "a.h5");
    hdf5::Dataset images(H5Dopen2(edited.file.get(), "images", H5P_DEFAULT));
    std::vector<std::uint8_t> image(3 * 5 * 7, 1);
    write_rows(images, StoredNumber::u8, 700, 1, image.data());
  }
  auto set = ImageSet::open(folder / "a.h5", 1);
  EXPECT_EQ(set.pixels(0)[0], small_pixel(0, 0));
  auto message = damage_message([&] { set.pixels(701); });
  EXPECT_THAT(message, HasSubstr((folder / "a.h5").string()));
  EXPECT_THAT(message, HasSubstr("chunk 1 of /images"));
  EXPECT_THAT(message, HasSubstr("samples 624 to 1247"));
  auto result = verify_file(folder / "a.h5");
  EXPECT_EQ(result.chunks, 3 + 1);
  ASSERT_EQ(result.damage.size(), 1u);
  EXPECT_THAT(result.damage[0], HasSubstr("chunk 1 of /images"));
}

TEST(EditedSet, NamesTheChunkWithAnotherLabel) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 20);
  {
    Edited edited(folder / "a.h5");
    hdf5::Dataset labels(H5Dopen2(edited.file.get(), "labels", H5P_DEFAULT));
    std::int32_t label = 2;
    write_rows(labels, StoredNumber::i32, 3, 1, &label);
  }
  EXPECT_THAT(damage_message([&] { ImageSet::open(folder / "a.h5", 1); }), HasSubstr("chunk 0 of /labels"));
}

TEST(EditedSet, NamesAChangedDescription) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 20);
  {
    Edited edited(folder / "a.h5");
    H5Adelete(edited.file.get(), "mean");
    write_attribute(edited.file.get(), "mean", 0.5f);
  }
  EXPECT_THAT(damage_message([&] { describe_file(folder / "a.h5"); }), HasSubstr("its description"));
}

TEST(EditedSet, NamesAMissingAttribute) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 20);
  { H5Adelete(Edited(folder / "a.h5").file.get(), "samples"); }
  EXPECT_THAT(damage_message([&] { describe_file(folder / "a.h5"); }), HasSubstr("attribute \"samples\""));
}

TEST(EditedSet, NamesAChangedChecksumTable) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 20);
  {
    Edited edited(folder / "a.h5");
    hdf5::Dataset table(H5Dopen2(edited.file.get(), "images_crc32c", H5P_DEFAULT));
    std::uint32_t value = 0;
    write_rows(table, StoredNumber::u32, 0, 1, &value);
  }
  EXPECT_THAT(damage_message([&] { ImageSet::open(folder / "a.h5", 1); }), HasSubstr("/images_crc32c"));
}

TEST(EditedSet, FollowsNoLinkToAnotherFile) {
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 20);
  write_small_images(folder / "b.h5", 20);
  {
    Edited edited(folder / "a.h5");
    H5Ldelete(edited.file.get(), "images", H5P_DEFAULT);
    H5Lcreate_external((folder / "b.h5").c_str(), "/images", edited.file.get(), "images", H5P_DEFAULT, H5P_DEFAULT);
  }
  EXPECT_THAT(damage_message([&] { ImageSet::open(folder / "a.h5", 1); }), HasSubstr("is a link"));
}

}  // namespace
}  // namespace distdl::data
