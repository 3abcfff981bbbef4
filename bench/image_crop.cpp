// SPDX-License-Identifier: Apache-2.0
// usage: image_crop FOLDER SIZE ROUNDS. One processor decodes a random resized crop of each file in FOLDER, and
// normalizes it to floats, or with SIZE 0 only decodes the whole files; prints images per second of processor time,
// round by round. bench/image_decode and bench/image_import compare it.
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include <distdl/data/codecs/framed_image.hpp>
#include <distdl/data/listing/image_files.hpp>
#include <distdl/data/normalization.hpp>
#include <distdl/data/transforms/transform.hpp>

int main(int argc, char** argv) try {
  using namespace distdl::data;
  constexpr int kArguments = 4;
  if (argc != kArguments) return 64;
  const std::int64_t size = std::atoll(argv[2]);
  const int rounds = std::atoi(argv[3]);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<std::vector<std::byte>> images;
  for (const auto& file : files) images.push_back(read_image_file(file));
  const PixelTables tables = pixel_tables({.shape = {3, size, size}}, Normalization::imagenet);
  std::vector<float> out(static_cast<std::size_t>(3 * size * size));
  ImageFramer framer;
  DecodedPart whole;
  for (int round = 0; round < rounds; ++round) {
    const std::clock_t start = std::clock();
    for (std::size_t i = 0; i < images.size(); ++i) {
      if (size == 0) {
        const Codec& codec = codec_of(images[i]);
        const ImageHead head = codec.head(images[i]);
        codec.decode(images[i], {0, 0, head.width, head.height}, 1, whole);
        continue;
      }
      framer.decode(
          images[i],
          [&](std::int64_t width, std::int64_t height) {
            Draws draws(1, 2, round, static_cast<std::int64_t>(i));
            return random_crop(draws, 0.08, width, height, size);
          },
          size, false);
      framer.write(tables, out.data());
    }
    fmt::print("{:.1f}\n",
               static_cast<double>(images.size()) * CLOCKS_PER_SEC / static_cast<double>(std::clock() - start));
  }
} catch (const std::exception& error) {
  fmt::print(stderr, "image_crop: {}\n", error.what());
  return 1;
}
