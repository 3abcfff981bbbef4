// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/checkpoint/format/hdf5_elements.hpp>
#include <distdl/checkpoint/format/hdf5_filters.hpp>
#include <distdl/checkpoint/format/hdf5_skeleton.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/hdf5/objects/hdf5_error.hpp>

namespace distdl::checkpoint {
namespace {
using hdf5::Attribute;
using hdf5::check;
using hdf5::Dataset;
using hdf5::fail;
using hdf5::File;
using hdf5::Properties;
using hdf5::Space;
using hdf5::Type;

constexpr hsize_t kAlignedElements = hsize_t{1} << 20;  // datasets this long or longer start on a boundary

void add_attribute(hid_t object, const char* name, const tensor::Shape& values) {
  auto count = static_cast<std::int64_t>(values.size());
  Space space = space_of({count});
  Attribute attribute(
      check(H5Acreate2(object, name, H5T_STD_I64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT), "add attribute", name));
  if (count > 0) check(H5Awrite(attribute.get(), H5T_NATIVE_INT64, values.data()), "write attribute", name);
}

File create_file(const std::filesystem::path& path, hsize_t alignment, Step step) {
  hdf5::Lock lock;
  Properties access(check(H5Pcreate(H5P_FILE_ACCESS), "prepare", path.string()));
  check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "prepare", path.string());
  check(H5Pset_alignment(access.get(), kAlignedElements, alignment), "prepare", path.string());
  File file(check(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.get()), "create", path.string()));
  add_attribute(file.get(), "step", {step.value});
  return file;
}

/// Creates datasets whose parent groups come by themselves, allocated at once and never filled. Called under a Lock.
class DatasetMaker {
 public:
  explicit DatasetMaker(hid_t file) : file_(file) {
    hdf5::Lock lock;
    link_.reset(check(H5Pcreate(H5P_LINK_CREATE), "prepare", "links"));
    creation_.reset(check(H5Pcreate(H5P_DATASET_CREATE), "prepare", "datasets"));
    check(H5Pset_create_intermediate_group(link_.get(), 1), "prepare", "links");
    check(H5Pset_layout(creation_.get(), H5D_CONTIGUOUS), "prepare", "datasets");
    check(H5Pset_alloc_time(creation_.get(), H5D_ALLOC_TIME_EARLY), "prepare", "datasets");
    check(H5Pset_fill_time(creation_.get(), H5D_FILL_TIME_NEVER), "prepare", "datasets");
  }
  Dataset make(const std::string& path, tensor::DataType dtype, const tensor::Shape& extent) const {
    return make(path, dtype, extent, creation_);
  }
  /// One dimension of chunks.
  Dataset make_chunked(const PlannedDataset& planned, hsize_t chunk) const {
    Properties creation(check(H5Pcreate(H5P_DATASET_CREATE), "prepare", "datasets"));
    check(H5Pset_chunk(creation.get(), 1, &chunk), "prepare", "chunks");
    check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "prepare", "datasets");
    set_filters(creation.get(), planned.codec);
    return make(planned.path, planned.dtype, {tensor::element_count(planned.box.extent)}, creation);
  }

 private:
  Dataset make(const std::string& path, tensor::DataType dtype, const tensor::Shape& extent,
               const Properties& creation) const {
    Type type = element_type(dtype);
    Space space = space_of(extent);
    return Dataset(
        check(H5Dcreate2(file_, path.c_str(), type.get(), space.get(), link_.get(), creation.get(), H5P_DEFAULT),
              "create dataset", path));
  }

  hid_t file_;
  Properties link_, creation_;
};

/// Where in the file a chunk of these bytes now lies. One as long as a chunk may be has passed no filter.
std::uint64_t write_chunk(hid_t dataset, const PlannedDataset& planned, hsize_t first, std::span<const std::byte> bytes,
                          std::size_t whole) {
  hdf5::Lock lock;
  std::uint32_t skipped = bytes.size() == whole ? all_filters(planned.codec) : 0;
  check(H5Dwrite_chunk(dataset, H5P_DEFAULT, skipped, &first, bytes.size(), bytes.data()), "write", planned.path);
  haddr_t offset = HADDR_UNDEF;
  hsize_t stored = 0;
  check(H5Dget_chunk_info_by_coord(dataset, &first, &skipped, &offset, &stored), "find a chunk of", planned.path);
  if (offset == HADDR_UNDEF || stored != bytes.size()) fail("allocate a chunk of", planned.path);
  return offset;
}

Dataset make_chunked(const DatasetMaker& maker, const PlannedDataset& planned, hsize_t chunk) {
  hdf5::Lock lock;
  Dataset dataset = maker.make_chunked(planned, chunk);
  add_attribute(dataset.get(), "shape", planned.shape);
  add_attribute(dataset.get(), "offset", planned.box.offset);
  add_attribute(dataset.get(), "extent", planned.box.extent);
  return dataset;
}

std::vector<std::uint64_t> plan_chunks(const DatasetMaker& maker, const PlannedDataset& planned) {
  std::size_t element = tensor::size_of(planned.dtype);
  auto elements = static_cast<hsize_t>(tensor::element_count(planned.box.extent));
  hsize_t chunk = std::min<hsize_t>(elements, kBlockBytes / element);
  Dataset dataset = make_chunked(maker, planned, chunk);
  std::vector<std::uint64_t> offsets;
  for (std::span<const std::byte> bytes : planned.chunks)
    offsets.push_back(write_chunk(dataset.get(), planned, offsets.size() * chunk, bytes, chunk * element));
  return offsets;
}

std::vector<std::uint64_t> plan_dataset(const DatasetMaker& maker, const PlannedDataset& planned) {
  if (!planned.chunks.empty()) return plan_chunks(maker, planned);
  hdf5::Lock lock;
  Dataset dataset = maker.make(planned.path, planned.dtype, planned.box.extent);
  add_attribute(dataset.get(), "shape", planned.shape);
  add_attribute(dataset.get(), "offset", planned.box.offset);
  haddr_t offset = H5Dget_offset(dataset.get());
  if (offset == HADDR_UNDEF) fail("allocate dataset", planned.path);
  return {offset};
}

void write_state(const DatasetMaker& maker, const std::string& key, const std::string& value) {
  hdf5::Lock lock;
  std::string path = "/state/" + key;
  Dataset dataset = maker.make(path, tensor::DataType::byte, {static_cast<std::int64_t>(value.size())});
  if (!value.empty())
    check(H5Dwrite(dataset.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, value.data()), "write", path);
}
}  // namespace

std::vector<std::vector<std::uint64_t>> create_skeleton(const std::filesystem::path& file, Step step,
                                                        const std::vector<PlannedDataset>& datasets,
                                                        const State& state) {
  // Chunks are packed: if each long one began on a distant boundary, what compression saves would become gaps.
  bool packed =
      std::any_of(datasets.begin(), datasets.end(), [](const auto& planned) { return !planned.chunks.empty(); });
  File h5 = create_file(file, packed ? kDirectAlignment : kAlignedElements, step);
  DatasetMaker maker(h5.get());
  std::vector<std::vector<std::uint64_t>> offsets;
  offsets.reserve(datasets.size());
  for (const PlannedDataset& planned : datasets) offsets.push_back(plan_dataset(maker, planned));
  for (const auto& [key, value] : state) write_state(maker, key, value);
  hdf5::Lock lock;
  check(H5Fclose(h5.release()), "write and close", file.string());
  return offsets;
}

}  // namespace distdl::checkpoint
