// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace distdl::data {

struct ListedImage {
  std::string name;  ///< for messages: a path, perhaps with the name in an archive
  std::int32_t label = 0;
  std::uint64_t bytes = 0;  ///< length of the encoded image
};

/// Labelled images as they are found, in an order that depends only on the files.
class ImageFiles {
 public:
  virtual ~ImageFiles() = default;
  const std::vector<ListedImage>& images() const { return images_; }
  /// Number of classes: the names found, or the highest label + 1.
  std::int64_t classes() const { return classes_; }
  /// Whether read() wants ascending numbers, from one thread. Otherwise any thread may call it in any order.
  virtual bool is_stream() const { return false; }
  /// The encoded image. A stream begins again at number 0. Throws StorageError.
  virtual std::vector<std::byte> read(std::size_t number) = 0;

 protected:
  std::vector<ListedImage> images_;
  std::int64_t classes_ = 0;
};

/// A way to store labelled images. Each is in a file of its own.
struct Listing {
  std::string_view what;  ///< "a folder with a folder of images for each class"
  bool (*is_of)(const std::filesystem::path& source);
  /// Throws ConfigError and StorageError.
  std::unique_ptr<ImageFiles> (*list)(const std::vector<std::filesystem::path>& sources);
  std::int64_t size = 0;  ///< height and width of all images, if that is fixed
};

Listing class_folders();
Listing cifar_files();
Listing csv_tables();
Listing webdataset_shards();

/// The way of which all sources are. Throws ConfigError, which names all ways, if there is none.
const Listing& listing_of(const std::vector<std::filesystem::path>& sources);

/// The bytes of a regular file, also by a link. Throws StorageError.
std::vector<std::byte> read_image_file(const std::filesystem::path& file);
/// Whether the name ends like an image that torchvision's ImageFolder takes, in small or capital letters.
bool is_image_name(std::string_view name);

}  // namespace distdl::data
