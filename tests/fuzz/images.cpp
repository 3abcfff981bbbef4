// SPDX-License-Identifier: Apache-2.0
// Any bytes as an encoded image, as a tar archive of images, and as a table of them.
#include "memory_files.hpp"
#include "target.hpp"
#include <distdl/data/codecs/framed_image.hpp>
#include <distdl/data/listing/image_files.hpp>
#include <distdl/data/transforms/transform.hpp>

namespace {
using namespace distdl;
using namespace distdl::data;

/// Input: a byte that chooses the crop, the image.
void decode(std::string_view input) {
  constexpr std::int64_t kMost = 1 << 20, kSize = 8;  // larger ones take time alone
  fuzz::Input rest(input);
  const auto choice = rest.number<std::uint8_t>();
  const auto bytes = std::as_bytes(std::span(rest.rest()));
  const ImageHead head = codec_of(bytes).head(bytes);
  fuzz::demand(head.width >= 1 && head.height >= 1 && head.width <= kMostPixels / head.height,
               "an image has an extent");
  fuzz::demand(head.orientation >= 1 && head.orientation <= 8, "an orientation is known");
  if (head.width * head.height > kMost) return;
  static DecodedPart memory;
  static ImageFramer framer;
  static std::array<std::uint64_t, 256> counts;

  try {
    check_image(bytes, memory, counts);
  } catch (const BrokenImage&) {  // a part may be intact where the whole is not
  }
  framer.decode(
      bytes,
      [&](std::int64_t width, std::int64_t height) {
        Draws draws(choice, 1, 2, 3);
        return choice % 2 == 0 ? centre_frame(width, height, kSize, kSize + choice % 4)
                               : random_crop(draws, 0.08, width, height, kSize);
      },
      kSize, choice % 4 < 2);
  std::array<std::uint8_t, 3 * kSize * kSize> window{};
  framer.write(3, window.data());
}

void list(const Listing& listing, std::string_view input) {
  static fuzz::MemoryFile file;
  file.put(input);
  const auto files = listing.list({file.path()});
  fuzz::demand(!files->images().empty() && files->classes() >= 1, "a list has images");
  for (const ListedImage& image : files->images())
    fuzz::demand(image.label >= 0 && image.label < files->classes(), "a label is a class");
  if (!files->is_stream()) return;
  for (std::size_t i = 0; i < files->images().size(); ++i)
    fuzz::demand(files->read(i).size() == files->images()[i].bytes, "an image is as long as it was listed");
}

const fuzz::Target image("image", &decode);
const fuzz::Target shard("webdataset", [](std::string_view input) { list(webdataset_shards(), input); });
const fuzz::Target table("csv", [](std::string_view input) { list(csv_tables(), input); });
const fuzz::Target cifar("cifar", [](std::string_view input) { list(cifar_files(), input); });
}  // namespace
