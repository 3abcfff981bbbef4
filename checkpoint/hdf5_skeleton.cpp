// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include <distdl/checkpoint/hdf5_elements.hpp>
#include <distdl/checkpoint/hdf5_handles.hpp>
#include <distdl/checkpoint/hdf5_skeleton.hpp>

namespace distdl::checkpoint {
namespace {
using hdf5::Attribute;
using hdf5::check;
using hdf5::Dataset;
using hdf5::element_type;
using hdf5::fail;
using hdf5::File;
using hdf5::Properties;
using hdf5::QuietErrors;
using hdf5::Space;
using hdf5::space_of;
using hdf5::Type;

constexpr hsize_t kAlignment = hsize_t{1} << 20;  // datasets this long or longer start on such a boundary

void add_attribute(hid_t object, const char* name, const tensor::Shape& values) {
  auto count = static_cast<std::int64_t>(values.size());
  Space space = space_of({count});
  Attribute attribute(
      check(H5Acreate2(object, name, H5T_STD_I64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT), "add attribute", name));
  if (count > 0) check(H5Awrite(attribute.get(), H5T_NATIVE_INT64, values.data()), "write attribute", name);
}

File create_file(const std::filesystem::path& path) {
  Properties access(check(H5Pcreate(H5P_FILE_ACCESS), "prepare", path.string()));
  check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "prepare", path.string());
  check(H5Pset_alignment(access.get(), kAlignment, kAlignment), "prepare", path.string());
  return File(check(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.get()), "create", path.string()));
}

/// Creates datasets whose parent groups come by themselves, allocated at once and never filled.
class DatasetMaker {
 public:
  explicit DatasetMaker(hid_t file)
      : file_(file),
        link_(check(H5Pcreate(H5P_LINK_CREATE), "prepare", "links")),
        creation_(check(H5Pcreate(H5P_DATASET_CREATE), "prepare", "datasets")) {
    check(H5Pset_create_intermediate_group(link_.get(), 1), "prepare", "links");
    check(H5Pset_layout(creation_.get(), H5D_CONTIGUOUS), "prepare", "datasets");
    check(H5Pset_alloc_time(creation_.get(), H5D_ALLOC_TIME_EARLY), "prepare", "datasets");
    check(H5Pset_fill_time(creation_.get(), H5D_FILL_TIME_NEVER), "prepare", "datasets");
  }
  Dataset make(const std::string& path, tensor::DType dtype, const tensor::Shape& extent) const {
    Type type = element_type(dtype);
    Space space = space_of(extent);
    return Dataset(
        check(H5Dcreate2(file_, path.c_str(), type.get(), space.get(), link_.get(), creation_.get(), H5P_DEFAULT),
              "create dataset", path));
  }

 private:
  hid_t file_;
  Properties link_, creation_;
};

std::uint64_t plan_dataset(const DatasetMaker& maker, const PlannedDataset& planned) {
  Dataset dataset = maker.make(planned.path, planned.dtype, planned.box.extent);
  add_attribute(dataset.get(), "shape", planned.shape);
  add_attribute(dataset.get(), "offset", planned.box.offset);
  haddr_t offset = H5Dget_offset(dataset.get());
  if (offset == HADDR_UNDEF) fail("allocate dataset", planned.path);
  return offset;
}

void write_state(const DatasetMaker& maker, const std::string& key, const std::string& value) {
  std::string path = "/state/" + key;
  Dataset dataset = maker.make(path, tensor::DType::u8, {static_cast<std::int64_t>(value.size())});
  if (!value.empty())
    check(H5Dwrite(dataset.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, value.data()), "write", path);
}
}  // namespace

std::vector<std::uint64_t> create_skeleton(const std::filesystem::path& file, Step step,
                                           const std::vector<PlannedDataset>& datasets, const State& state) {
  // HDF5 is not always built thread-safe, and ranks may be threads.
  static std::mutex one_at_a_time;
  std::lock_guard lock(one_at_a_time);
  QuietErrors quiet;
  File h5 = create_file(file);
  add_attribute(h5.get(), "step", {step.value});
  DatasetMaker maker(h5.get());
  std::vector<std::uint64_t> offsets;
  offsets.reserve(datasets.size());
  for (const PlannedDataset& planned : datasets) offsets.push_back(plan_dataset(maker, planned));
  for (const auto& [key, value] : state) write_state(maker, key, value);
  check(H5Fclose(h5.release()), "write and close", file.string());
  return offsets;
}

}  // namespace distdl::checkpoint
