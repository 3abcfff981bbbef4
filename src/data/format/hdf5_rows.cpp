// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <distdl/data/format/hdf5_failure.hpp>
#include <distdl/data/format/hdf5_rows.hpp>

namespace distdl::data {
namespace {
hid_t file_type(StoredNumber type) {
  switch (type) {
    case StoredNumber::u8:
      return H5T_STD_U8LE;
    case StoredNumber::u16:
      return H5T_STD_U16LE;
    case StoredNumber::i32:
      return H5T_STD_I32LE;
    case StoredNumber::f32:
      return H5T_IEEE_F32LE;
    case StoredNumber::u32:
      break;
  }
  return H5T_STD_U32LE;
}

hid_t memory_type(StoredNumber type) {
  switch (type) {
    case StoredNumber::u8:
      return H5T_NATIVE_UINT8;
    case StoredNumber::u16:
      return H5T_NATIVE_UINT16;
    case StoredNumber::i32:
      return H5T_NATIVE_INT32;
    case StoredNumber::f32:
      return H5T_NATIVE_FLOAT;
    case StoredNumber::u32:
      break;
  }
  return H5T_NATIVE_UINT32;
}

std::vector<hsize_t> extents(const tensor::Shape& shape) {
  return {shape.begin(), shape.end()};
}

std::vector<hsize_t> extents_of(const hdf5::Dataset& dataset, Access access) {
  hdf5::Space space(check(H5Dget_space(dataset.get()), access, dataset.get(), hdf5::name_of(dataset.get())));
  int rank = check(H5Sget_simple_extent_ndims(space.get()), access, dataset.get(), hdf5::name_of(dataset.get()));
  std::vector<hsize_t> result(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space.get(), result.data(), nullptr), access, dataset.get(),
        hdf5::name_of(dataset.get()));
  return result;
}

struct RowSelection {
  hdf5::Space file;
  hdf5::Space memory;
};

RowSelection select_rows(const hdf5::Dataset& dataset, std::int64_t first, std::int64_t rows, Access access) {
  std::string label = hdf5::name_of(dataset.get());
  auto count = extents_of(dataset, access);
  std::vector<hsize_t> start(count.size(), 0);
  start[0] = static_cast<hsize_t>(first);
  count[0] = static_cast<hsize_t>(rows);
  RowSelection selection;
  selection.file.reset(check(H5Dget_space(dataset.get()), access, dataset.get(), label));
  check(H5Sselect_hyperslab(selection.file.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), access,
        dataset.get(), label);
  selection.memory.reset(
      check(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), access, dataset.get(), label));
  return selection;
}

/// Also that the file has every element: a dataset may announce any amount without a byte behind it.
void require_plain_storage(const hdf5::File& file, const hdf5::Dataset& dataset, StoredNumber type,
                           const tensor::Shape& shape, const std::string& label) {
  hdf5::Properties creation(check(H5Dget_create_plist(dataset.get()), Access::reading, dataset.get(), label));
  if (H5Pget_nfilters(creation.get()) != 0) reject(dataset.get(), label, "has a filter, which distdl never writes");
  H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout != H5D_CHUNKED && layout != H5D_CONTIGUOUS) reject(dataset.get(), label, "has an unexpected layout");
  if (layout == H5D_CONTIGUOUS && H5Pget_external_count(creation.get()) != 0)
    reject(dataset.get(), label, "is in another file, which distdl never writes");
  hsize_t file_bytes = 0;
  check(H5Fget_filesize(file.get(), &file_bytes), Access::reading, dataset.get(), label);
  std::uint64_t bytes = size_of(type);
  bool countable = true;
  for (const std::int64_t extent : shape)
    countable = countable && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes);
  const hsize_t stored = H5Dget_storage_size(dataset.get());
  if (!countable || bytes > file_bytes || stored > file_bytes)
    reject(dataset.get(), label, "claims more bytes than the file has");
  if (stored < bytes) reject(dataset.get(), label, fmt::format("has {} of {} bytes", stored, bytes));
}

}  // namespace

std::size_t size_of(StoredNumber type) {
  return type == StoredNumber::u8 ? 1 : type == StoredNumber::u16 ? 2 : 4;
}

hdf5::Dataset create_dataset(const hdf5::File& file, const char* name, StoredNumber type, const tensor::Shape& shape,
                             std::int64_t rows_per_chunk) {
  hdf5::Lock lock;
  auto checked = [&](auto status) { return check(status, Access::writing, file.get(), name); };
  auto dimensions = extents(shape);
  hdf5::Space space(checked(H5Screate_simple(static_cast<int>(dimensions.size()), dimensions.data(), nullptr)));
  hdf5::Properties creation(checked(H5Pcreate(H5P_DATASET_CREATE)));
  checked(H5Pset_obj_track_times(creation.get(), false));
  // Early allocation of a chunked dataset of fixed shape: chunks lie one after the other and need no index.
  checked(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY));
  checked(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER));
  if (rows_per_chunk > 0) {
    auto chunk = dimensions;
    chunk[0] = static_cast<hsize_t>(rows_per_chunk);
    checked(H5Pset_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data()));
  }
  hdf5::Properties access(checked(H5Pcreate(H5P_DATASET_ACCESS)));
  checked(H5Pset_chunk_cache(access.get(), 1, 0, H5D_CHUNK_CACHE_W0_DEFAULT));  // rows come as whole chunks
  return hdf5::Dataset(
      checked(H5Dcreate2(file.get(), name, file_type(type), space.get(), H5P_DEFAULT, creation.get(), access.get())));
}

hdf5::Dataset open_dataset(const hdf5::File& file, const char* name, StoredNumber type, const tensor::Shape& shape) {
  hdf5::Lock lock;
  auto checked = [&](auto status) {
    return check(status, Access::reading, file.get(), fmt::format("dataset /{}", name));
  };
  H5L_info_t link{};
  checked(H5Lget_info(file.get(), name, &link, H5P_DEFAULT));
  if (link.type != H5L_TYPE_HARD) reject(file.get(), name, "is a link, which distdl never writes");
  hdf5::Properties access(checked(H5Pcreate(H5P_DATASET_ACCESS)));
  checked(H5Pset_chunk_cache(access.get(), 1, 0, H5D_CHUNK_CACHE_W0_DEFAULT));  // ChunkReader has a cache of its own
  hdf5::Dataset dataset(checked(H5Dopen2(file.get(), name, access.get())));
  std::string label = fmt::format("dataset /{}", name);
  hdf5::Type stored(checked(H5Dget_type(dataset.get())));
  if (checked(H5Tequal(stored.get(), file_type(type))) == 0)
    reject(file.get(), label, "has an unexpected element type");
  if (extents_of(dataset, Access::reading) != extents(shape))
    reject(file.get(), label,
           fmt::format("does not have the shape {} that the description implies", tensor::to_string(shape)));
  require_plain_storage(file, dataset, type, shape, label);
  return dataset;
}

std::int64_t rows_per_chunk(const hdf5::Dataset& dataset) {
  hdf5::Lock lock;
  std::string label = hdf5::name_of(dataset.get());
  hdf5::Properties creation(check(H5Dget_create_plist(dataset.get()), Access::reading, dataset.get(), label));
  if (H5Pget_layout(creation.get()) != H5D_CHUNKED) return 0;
  auto expected = extents_of(dataset, Access::reading);
  std::vector<hsize_t> chunk(expected.size());
  int rank = H5Pget_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data());
  if (rank != static_cast<int>(chunk.size()) || !std::equal(chunk.begin() + 1, chunk.end(), expected.begin() + 1))
    reject(dataset.get(), label, "has chunks that are not whole samples");
  return static_cast<std::int64_t>(chunk[0]);
}

void write_rows(const hdf5::Dataset& dataset, StoredNumber type, std::int64_t first, std::int64_t rows,
                const void* data) {
  hdf5::Lock lock;
  auto selection = select_rows(dataset, first, rows, Access::writing);
  check(H5Dwrite(dataset.get(), memory_type(type), selection.memory.get(), selection.file.get(), H5P_DEFAULT, data),
        Access::writing, dataset.get(), hdf5::name_of(dataset.get()));
}

void read_rows(const hdf5::Dataset& dataset, StoredNumber type, std::int64_t first, std::int64_t rows, void* data) {
  hdf5::Lock lock;
  auto selection = select_rows(dataset, first, rows, Access::reading);
  check(H5Dread(dataset.get(), memory_type(type), selection.memory.get(), selection.file.get(), H5P_DEFAULT, data),
        Access::reading, dataset.get(), hdf5::name_of(dataset.get()));
}

}  // namespace distdl::data
