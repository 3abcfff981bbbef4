// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <gtest/gtest.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/data/format/chunk_reader.hpp>
#include <distdl/data/format/chunk_writer.hpp>
#include <distdl/data/format/hdf5_file.hpp>
#include <distdl/data/format/set_format.hpp>

namespace distdl::data {
namespace {

constexpr std::int64_t kTokenCount = 5 * kChunkBytes + 1000;

std::filesystem::path write_tokens(const ScratchFolder& folder) {
  auto file = create_hdf5_file(folder / "a.h5");
  ChunkWriter writer(file, "tokens", StoredNumber::u8, {kTokenCount});
  std::vector<std::byte> tokens(kTokenCount);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::byte>(i / 251);
  for (std::size_t i = 0; i < tokens.size(); i += 12345)  // pieces that are no chunks
    writer.append(std::span(tokens).subspan(i, std::min<std::size_t>(12345, tokens.size() - i)));
  writer.finish(file);
  close_and_check(std::move(file));
  return folder / "a.h5";
}

ChunkReader open_tokens(const std::filesystem::path& path, std::size_t cache_bytes) {
  return ChunkReader(open_hdf5_file(path), path.string(), "tokens", StoredNumber::u8, {kTokenCount}, cache_bytes);
}

TEST(ChunkReader, CutsRowsIntoChunksTheLastOfWhichMayBeShort) {
  ScratchFolder folder;
  auto reader = open_tokens(write_tokens(folder), 0);
  ASSERT_EQ(reader.chunks(), 6);
  std::size_t place = 0;
  for (std::int64_t number = 0; number < 6; ++number) {
    auto chunk = reader.chunk(number);
    EXPECT_EQ(chunk.size(), number < 5 ? std::size_t{kChunkBytes} : 1000u);
    for (std::byte token : chunk) ASSERT_EQ(token, static_cast<std::byte>(place++ / 251));
  }
}

TEST(ChunkReader, ForgetsTheChunkUnusedForLongest) {
  ScratchFolder folder;
  auto reader = open_tokens(write_tokens(folder), 2 * kChunkBytes);
  auto reads_for = [&](std::int64_t number) {
    std::int64_t before = reader.reads();
    reader.chunk(number);
    return reader.reads() - before;
  };
  EXPECT_EQ(reads_for(0), 1);
  EXPECT_EQ(reads_for(1), 1);
  EXPECT_EQ(reads_for(0), 0);
  EXPECT_EQ(reads_for(2), 1);  // pushes out 1, not 0
  EXPECT_EQ(reads_for(0), 0);
  EXPECT_EQ(reads_for(1), 1);
  EXPECT_EQ(reads_for(2), 1);
}

}  // namespace
}  // namespace distdl::data
