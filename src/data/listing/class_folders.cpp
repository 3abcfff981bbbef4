// SPDX-License-Identifier: Apache-2.0
// A folder with a folder for each class, as torchvision's ImageFolder reads it: classes sorted by code points, and in
// each the images of all folders below, sorted by folder and then by name. Links are followed.
#include <algorithm>
#include <set>
#include <system_error>

#include <distdl/base/errors.hpp>
#include <distdl/data/listing/image_files.hpp>

namespace distdl::data {
namespace {
namespace fs = std::filesystem;

class ClassFolders final : public ImageFiles {
 public:
  explicit ClassFolders(const fs::path& top) {
    std::vector<std::string> names;
    for (const auto& entry : entries_of(top))
      if (entry.is_directory()) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);  // bytes of UTF-8 are in the order of their code points
    require(!names.empty(), "\"{}\" has no folders, but one for each class is expected", top.string());
    for (const std::string& name : names) {
      const std::size_t before = images_.size();
      std::vector<fs::path> folders;
      collect(top / name, folders);
      std::ranges::sort(folders, {}, &fs::path::native);
      for (const fs::path& folder : folders) add_images(folder, static_cast<std::int32_t>(classes_));
      require(images_.size() > before,
              "the class \"{}\" has no images: \"{}\" has no file that ends in .jpg, .png or "
              "another ending of an image; remove the folder",
              name, (top / name).string());
      ++classes_;
    }
  }
  std::vector<std::byte> read(std::size_t number) override { return read_image_file(images_[number].name); }

 private:
  static std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
    try {
      return {fs::directory_iterator(folder), fs::directory_iterator()};
    } catch (const fs::filesystem_error& error) {
      throw StorageError(fmt::format("cannot read the folder \"{}\": {}", folder.string(), error.code().message()));
    }
  }

  /// All folders below, this one too.
  void collect(const fs::path& folder, std::vector<fs::path>& folders) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    require(!error && open_.insert(real).second, "the folder \"{}\" is a link to a folder above it; remove the link",
            folder.string());
    folders.push_back(folder);
    for (const auto& entry : entries_of(folder))
      if (entry.is_directory(error)) collect(entry.path(), folders);
    open_.erase(real);
  }

  void add_images(const fs::path& folder, std::int32_t label) {
    std::vector<std::string> names;
    for (const auto& entry : entries_of(folder)) {
      std::error_code error;
      const std::string name = entry.path().filename().string();
      if (is_image_name(name) && !entry.is_directory(error)) names.push_back(name);
    }
    std::ranges::sort(names);
    for (const std::string& name : names) {
      std::error_code error;
      const std::uint64_t bytes = fs::file_size(folder / name, error);
      images_.push_back({(folder / name).string(), label, error ? 0 : bytes});  // reading it reports why
    }
  }

  std::set<fs::path> open_;  ///< those that lead to the present folder
};
}  // namespace

Listing class_folders() {
  return {.what = "a folder with a folder of images for each class",
          .is_of = [](const fs::path& source) { return fs::is_directory(source); },
          .list = [](const std::vector<fs::path>& sources) -> std::unique_ptr<ImageFiles> {
            require(sources.size() == 1, "\"{}\" and \"{}\" are two folders, but one with all classes is expected",
                    sources.front().string(), sources.back().string());
            return std::make_unique<ClassFolders>(sources.front());
          }};
}

}  // namespace distdl::data
