// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <distdl/data/data_set.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {

struct ImageImport {
  std::vector<std::filesystem::path> sources{};  ///< all of one kind: a folder, or files (docs/data-images.md)
  std::filesystem::path output{};
  std::int64_t size = 0;      ///< height and width of images in the set; 0: 224, or that of CIFAR
  std::int64_t resize = 0;    ///< the shorter side before the centre is cropped; 0: `size`
  std::int64_t channels = 3;  ///< 3 or 1
  std::int64_t classes = 0;   ///< 0: those found
  bool is_encoded = false;    ///< keeps the images as they are encoded; they are decoded while training
  bool is_upright = false;    ///< turns images as their EXIF data say
  bool skips_broken = false;
  std::int64_t threads = 0;  ///< 0: as many as processors that may be used
  Overwrite overwrite = Overwrite::refuse;
};

struct ImportedImages {
  Description description;
  std::vector<std::string> broken;  ///< those passed over: name and cause
};

/// Converts labelled images to a set of them, of which the bytes do not depend on the number of threads.
class ImageImporter {
 public:
  /// Reads which images there are. Throws ConfigError and StorageError.
  explicit ImageImporter(ImageImport import);
  ~ImageImporter();
  /// How many there are; write() counts each as a sample of work_done().
  std::size_t images() const;
  /// Throws StorageError (corrupt), which names an image that cannot be decoded, unless broken ones are passed over;
  /// otherwise throws as import_idx() does.
  ImportedImages write();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distdl::data
