// SPDX-License-Identifier: Apache-2.0
// Arrays in HDF5 files of other programs, such as the fields of a simulation.
#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/data/format/array_files.hpp>
#include <distdl/data/format/hdf5_failure.hpp>
#include <distdl/data/format/hdf5_file.hpp>

namespace distdl::data {
namespace {
constexpr std::size_t kMostNames = 1 << 16;

/// Called for each link in a file; a callback of C, which must not throw.
herr_t note_array(hid_t group, const char* name, const H5L_info_t* link, void* given) noexcept {
  auto& names = *static_cast<std::vector<std::string>*>(given);
  if (link->type != H5L_TYPE_HARD) return 0;
  try {
    const hdf5::Object object(H5Oopen(group, name, H5P_DEFAULT));
    if (object && H5Iget_type(object.get()) == H5I_DATASET) names.emplace_back(name);
    return names.size() < kMostNames ? 0 : 1;
  } catch (...) {
    return -1;
  }
}

class Hdf5Array final : public NumberArray {
 public:
  Hdf5Array(const std::filesystem::path& file, const std::string& array)
      : name_(fmt::format("array \"{}\" of \"{}\"", array, file.string())), file_(open_hdf5_file(file)) {
    const hdf5::Lock lock;
    dataset_ = open(file, array);
    const hdf5::Type type(checked(H5Dget_type(dataset_.get())));
    const auto kind = H5Tget_class(type.get());
    require(kind == H5T_FLOAT || kind == H5T_INTEGER, "{} does not hold numbers: floats or whole numbers are expected",
            name_);
    const hdf5::Properties creation(checked(H5Dget_create_plist(dataset_.get())));
    const auto layout = H5Pget_layout(creation.get());
    require(layout != H5D_VIRTUAL && (layout != H5D_CONTIGUOUS || H5Pget_external_count(creation.get()) == 0),
            "{} has its numbers in other files; copy it into one, for instance by \"h5repack\"", name_);
    const hdf5::Space space(checked(H5Dget_space(dataset_.get())));
    const int axes = checked(H5Sget_simple_extent_ndims(space.get()));
    require(axes >= 1, "{} is a single number", name_);
    std::vector<hsize_t> extents(static_cast<std::size_t>(axes));
    checked(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr));
    for (const hsize_t extent : extents) {
      require(extent <= hsize_t{1} << 40, "{} has an extent of {}, which is too large", name_, extent);
      shape_.push_back(static_cast<std::int64_t>(extent));
    }
    // HDF5 would give zeros, of any number, for what was never written.
    require(H5Sget_simple_extent_npoints(space.get()) <= 0 || H5Dget_storage_size(dataset_.get()) > 0,
            "{} was created, but no numbers were written to it", name_);
  }
  const std::string& name() const override { return name_; }
  const tensor::Shape& shape() const override { return shape_; }

  void read(std::span<double> numbers) override {
    const hdf5::Lock lock;
    std::vector<hsize_t> start(shape_.size(), 0), count(shape_.begin(), shape_.end());
    hsize_t row = 1;
    for (std::size_t i = 1; i < count.size(); ++i) row *= count[i];
    start[0] = static_cast<hsize_t>(next_);
    count[0] = numbers.size() / row;
    next_ += static_cast<std::int64_t>(count[0]);
    const hdf5::Space file(checked(H5Dget_space(dataset_.get())));
    checked(H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr));
    const hdf5::Space memory(checked(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr)));
    checked(H5Dread(dataset_.get(), H5T_NATIVE_DOUBLE, memory.get(), file.get(), H5P_DEFAULT, numbers.data()));
  }

 private:
  template <class Status>
  Status checked(Status status) const {
    return check(status, Access::reading, file_.get(), name_);
  }

  hdf5::Dataset open(const std::filesystem::path& file, const std::string& array) const {
    hdf5::Object object(H5Oopen(file_.get(), array.c_str(), H5P_DEFAULT));
    if (!object || H5Iget_type(object.get()) != H5I_DATASET) {
      object.reset();
      hdf5::failure_reason();  // which clears it
      throw ConfigError(fmt::format("\"{}\" has no array \"{}\"; it has {}", file.string(), array,
                                    fmt::join(arrays_of_hdf5(file), ", ")));
    }
    require(hdf5::file_of(object.get()) == hdf5::file_of(file_.get()),
            "{} is a link to another file; name that file instead", name_);
    return hdf5::Dataset(object.release());
  }

  std::string name_;
  hdf5::File file_;
  hdf5::Dataset dataset_;
  tensor::Shape shape_;
  std::int64_t next_ = 0;  ///< row
};
}  // namespace

std::vector<std::string> arrays_of_hdf5(const std::filesystem::path& file) {
  const hdf5::File opened = open_hdf5_file(file);
  const hdf5::Lock lock;
  std::vector<std::string> names;
  check(H5Lvisit(opened.get(), H5_INDEX_NAME, H5_ITER_INC, &note_array, &names), Access::reading, opened.get(),
        "its list of data sets");
  return names;
}

std::unique_ptr<NumberArray> open_hdf5_array(const std::filesystem::path& file, const std::string& array) {
  return std::make_unique<Hdf5Array>(file, array);
}

}  // namespace distdl::data
