// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <vector>

#include <sys/stat.h>

#include <distdl/base/errors.hpp>
#include <distdl/data/hdf5_handles.hpp>

namespace distdl::data {
namespace {
constexpr std::size_t kLongestText = 64 << 10;

template <auto Close>
void close_quietly(hid_t id) noexcept {
  Close(id);
}
using PropertyList = UniqueHandle<hid_t, &close_quietly<&H5Pclose>, hid_t{-1}>;
using Dataspace = UniqueHandle<hid_t, &close_quietly<&H5Sclose>, hid_t{-1}>;
using Datatype = UniqueHandle<hid_t, &close_quietly<&H5Tclose>, hid_t{-1}>;
using Attribute = UniqueHandle<hid_t, &close_quietly<&H5Aclose>, hid_t{-1}>;

/// Keeps other threads out of HDF5 and HDF5 from printing. The error stack is per thread where HDF5 is thread-safe.
class Hdf5Lock {
 public:
  Hdf5Lock() : lock_(mutex()) { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex instance;
    return instance;
  }
  std::lock_guard<std::recursive_mutex> lock_;
};

herr_t note_first(unsigned depth, const H5E_error2_t* error, void* text) {
  if (depth == 0 && error->desc) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

/// The innermost, and so most specific, entry of HDF5's error stack.
std::string hdf5_reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, &note_first, &reason);
  H5Eclear2(H5E_DEFAULT);
  return reason.empty() ? "no reason given" : reason;
}

std::string file_of(hid_t object) {
  std::array<char, 4096> name{};
  return H5Fget_name(object, name.data(), name.size()) > 0 ? std::string(name.data()) : "a file";
}

std::string name_of(hid_t object) {
  std::array<char, 1024> name{};
  return H5Iget_name(object, name.data(), name.size()) > 0 ? std::string(name.data()) : "an object";
}

enum class Doing { reading, writing };

[[noreturn]] void fail(Doing doing, hid_t object, std::string_view what) {
  std::string reason = hdf5_reason();
  if (doing == Doing::writing)
    throw StorageError(fmt::format("cannot write {} of \"{}\" (HDF5: {}); is the file system full or read-only?", what,
                                   file_of(object), reason));
  throw StorageError(
      fmt::format("cannot read {} of \"{}\" (HDF5: {}); make or copy the file anew", what, file_of(object), reason),
      ExitCode::corrupt);
}

template <class Status>
Status check(Status status, Doing doing, hid_t object, std::string_view what) {
  if (status < 0) fail(doing, object, what);
  return status;
}

[[noreturn]] void reject(hid_t object, std::string_view what, std::string_view why) {
  throw StorageError(fmt::format("{} of \"{}\" {}; make or copy the file anew", what, file_of(object), why),
                     ExitCode::corrupt);
}

std::string attribute_label(const char* name) {
  return fmt::format("attribute \"{}\"", name);
}

void put_attribute(hid_t object, const char* name, hid_t type, hid_t space, const void* data) {
  std::string label = attribute_label(name);
  Attribute attribute(
      check(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), Doing::writing, object, label));
  check(H5Awrite(attribute.get(), type, data), Doing::writing, object, label);
}

void put_number(hid_t object, const char* name, hid_t type, const void* data) {
  Dataspace space(check(H5Screate(H5S_SCALAR), Doing::writing, object, attribute_label(name)));
  put_attribute(object, name, type, space.get(), data);
}

Attribute open_attribute(hid_t object, const char* name, H5T_class_t expected) {
  std::string label = attribute_label(name);
  Attribute attribute(check(H5Aopen(object, name, H5P_DEFAULT), Doing::reading, object, label));
  Datatype type(check(H5Aget_type(attribute.get()), Doing::reading, object, label));
  if (H5Tget_class(type.get()) != expected) reject(object, label, "has an unexpected type");
  return attribute;
}

hssize_t attribute_points(const Attribute& attribute, hid_t object, const char* name) {
  Dataspace space(check(H5Aget_space(attribute.get()), Doing::reading, object, attribute_label(name)));
  return check(H5Sget_simple_extent_npoints(space.get()), Doing::reading, object, attribute_label(name));
}

void get_number(hid_t object, const char* name, H5T_class_t expected, hid_t memory_type, void* data) {
  Attribute attribute = open_attribute(object, name, expected);
  if (attribute_points(attribute, object, name) != 1) reject(object, attribute_label(name), "is not one number");
  check(H5Aread(attribute.get(), memory_type, data), Doing::reading, object, attribute_label(name));
}

hid_t file_type(ElementType type) {
  switch (type) {
    case ElementType::u8:
      return H5T_STD_U8LE;
    case ElementType::u16:
      return H5T_STD_U16LE;
    case ElementType::i32:
      return H5T_STD_I32LE;
    case ElementType::u32:
      break;
  }
  return H5T_STD_U32LE;
}
hid_t memory_type(ElementType type) {
  switch (type) {
    case ElementType::u8:
      return H5T_NATIVE_UINT8;
    case ElementType::u16:
      return H5T_NATIVE_UINT16;
    case ElementType::i32:
      return H5T_NATIVE_INT32;
    case ElementType::u32:
      break;
  }
  return H5T_NATIVE_UINT32;
}

std::vector<hsize_t> extents(const tensor::Shape& shape) {
  return {shape.begin(), shape.end()};
}

std::vector<hsize_t> extents_of(const Hdf5Dataset& dataset, Doing doing) {
  Dataspace space(check(H5Dget_space(dataset.get()), doing, dataset.get(), name_of(dataset.get())));
  int rank = check(H5Sget_simple_extent_ndims(space.get()), doing, dataset.get(), name_of(dataset.get()));
  std::vector<hsize_t> result(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space.get(), result.data(), nullptr), doing, dataset.get(), name_of(dataset.get()));
  return result;
}

struct RowSelection {
  Dataspace file;
  Dataspace memory;
};

RowSelection select_rows(const Hdf5Dataset& dataset, std::int64_t first, std::int64_t rows, Doing doing) {
  std::string label = name_of(dataset.get());
  auto count = extents_of(dataset, doing);
  std::vector<hsize_t> start(count.size(), 0);
  start[0] = static_cast<hsize_t>(first);
  count[0] = static_cast<hsize_t>(rows);
  RowSelection selection;
  selection.file.reset(check(H5Dget_space(dataset.get()), doing, dataset.get(), label));
  check(H5Sselect_hyperslab(selection.file.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), doing,
        dataset.get(), label);
  selection.memory.reset(
      check(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), doing, dataset.get(), label));
  return selection;
}

PropertyList file_access() {
  PropertyList access(check(H5Pcreate(H5P_FILE_ACCESS), Doing::writing, H5I_INVALID_HID, "a property list"));
#if H5_VERSION_GE(1, 10, 7)
  // Many cluster file systems have no locks, and HDF5 then refuses to open; nobody ever writes to a published file.
  check(H5Pset_file_locking(access.get(), false, true), Doing::writing, H5I_INVALID_HID, "a property list");
#endif
  return access;
}

/// Says in plain words what HDF5 would put in its own: the file is missing, not readable, or no HDF5 file at all.
void require_hdf5_signature(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw StorageError(fmt::format("cannot open data set \"{}\": {}", path.string(), errno_text(errno)),
                       errno == ENOENT || errno == ENOTDIR ? ExitCode::incomplete : ExitCode::storage);
  std::array<char, 8> head{}, signature{'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
  bool regular = S_ISREG(status.st_mode);
  if (regular) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) throw StorageError(fmt::format("cannot open data set \"{}\": {}", path.string(), errno_text(errno)));
    stream.read(head.data(), head.size());
  }
  if (head != signature)
    throw StorageError(fmt::format("\"{}\" is not an HDF5 file; make a data set with \"distdl data\"", path.string()),
                       ExitCode::incompatible);
}

/// Also that the file has every element: a dataset may announce any amount without a byte behind it.
void require_plain_storage(const Hdf5File& file, const Hdf5Dataset& dataset, ElementType type,
                           const tensor::Shape& shape, const std::string& label) {
  PropertyList creation(check(H5Dget_create_plist(dataset.get()), Doing::reading, dataset.get(), label));
  if (H5Pget_nfilters(creation.get()) != 0) reject(dataset.get(), label, "needs a filter, which distdl never writes");
  H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout != H5D_CHUNKED && layout != H5D_CONTIGUOUS) reject(dataset.get(), label, "has an unexpected layout");
  if (layout == H5D_CONTIGUOUS && H5Pget_external_count(creation.get()) != 0)
    reject(dataset.get(), label, "lies in another file, which distdl never writes");
  hsize_t file_bytes = 0;
  check(H5Fget_filesize(file.get(), &file_bytes), Doing::reading, dataset.get(), label);
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

void close_hdf5_file(hid_t id) noexcept {
  Hdf5Lock lock;
  H5Fclose(id);
}

void close_hdf5_dataset(hid_t id) noexcept {
  Hdf5Lock lock;
  H5Dclose(id);
}

std::size_t size_of(ElementType type) {
  return type == ElementType::u8 ? 1 : type == ElementType::u16 ? 2 : 4;
}

Hdf5File create_hdf5_file(const std::filesystem::path& path) {
  Hdf5Lock lock;
  auto configured = [](herr_t status) { check(status, Doing::writing, H5I_INVALID_HID, "a property list"); };
  PropertyList creation(check(H5Pcreate(H5P_FILE_CREATE), Doing::writing, H5I_INVALID_HID, "a property list"));
  configured(H5Pset_obj_track_times(creation.get(), false));
  configured(H5Pset_attr_phase_change(creation.get(), 64, 0));  // all attributes in the checksummed object header
  PropertyList access = file_access();
  configured(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110));
  Hdf5File file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()));
  if (!file) throw StorageError(fmt::format("cannot create \"{}\" (HDF5: {})", path.string(), hdf5_reason()));
  return file;
}

Hdf5File open_hdf5_file(const std::filesystem::path& path, Metadata metadata) {
  Hdf5Lock lock;
  require_hdf5_signature(path);
  PropertyList access = file_access();
  // Files of different drivers are never one file to HDF5.
  if (metadata == Metadata::read_anew)
    check(H5Pset_fapl_stdio(access.get()), Doing::reading, H5I_INVALID_HID, "a property list");
  Hdf5File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file)
    throw StorageError(
        fmt::format("cannot open data set \"{}\" (HDF5: {}); make or copy the file anew", path.string(), hdf5_reason()),
        ExitCode::corrupt);
  return file;
}

void close_and_check(Hdf5File file) {
  Hdf5Lock lock;
  std::string path = file_of(file.get());
  if (H5Fclose(file.release()) < 0)
    throw StorageError(
        fmt::format("cannot write \"{}\" (HDF5: {}); is the file system full or read-only?", path, hdf5_reason()));
}

void write_attribute(hid_t object, const char* name, std::string_view text) {
  Hdf5Lock lock;
  std::string padded(text);
  if (padded.empty()) padded.push_back('\0');  // HDF5 has no strings of length 0
  Datatype type(check(H5Tcopy(H5T_C_S1), Doing::writing, object, attribute_label(name)));
  check(H5Tset_size(type.get(), padded.size()), Doing::writing, object, attribute_label(name));
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), Doing::writing, object, attribute_label(name));
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), Doing::writing, object, attribute_label(name));
  put_number(object, name, type.get(), padded.data());
}

void write_attribute(hid_t object, const char* name, std::int64_t number) {
  Hdf5Lock lock;
  put_number(object, name, H5T_STD_I64LE, &number);
}

void write_attribute(hid_t object, const char* name, float number) {
  Hdf5Lock lock;
  put_number(object, name, H5T_IEEE_F32LE, &number);
}

void write_attribute(hid_t object, const char* name, const tensor::Shape& shape) {
  Hdf5Lock lock;
  hsize_t count = shape.size();
  Dataspace space(check(H5Screate_simple(1, &count, nullptr), Doing::writing, object, attribute_label(name)));
  put_attribute(object, name, H5T_STD_I64LE, space.get(), shape.data());
}

bool has_attribute(hid_t object, const char* name) {
  Hdf5Lock lock;
  return check(H5Aexists(object, name), Doing::reading, object, attribute_label(name)) > 0;
}

std::string read_text(hid_t object, const char* name) {
  Hdf5Lock lock;
  std::string label = attribute_label(name);
  Attribute attribute = open_attribute(object, name, H5T_STRING);
  Datatype type(check(H5Aget_type(attribute.get()), Doing::reading, object, label));
  if (H5Tis_variable_str(type.get()) != 0 || attribute_points(attribute, object, name) != 1)
    reject(object, label, "is not one text of fixed length");
  const std::size_t bytes = H5Tget_size(type.get());
  if (bytes > kLongestText)
    reject(object, label, fmt::format("has {} bytes; at most {} are expected", bytes, kLongestText));
  std::string text(bytes, '\0');
  check(H5Aread(attribute.get(), type.get(), text.data()), Doing::reading, object, label);
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

std::int64_t read_integer(hid_t object, const char* name) {
  Hdf5Lock lock;
  std::int64_t number = 0;
  get_number(object, name, H5T_INTEGER, H5T_NATIVE_INT64, &number);
  return number;
}

float read_real(hid_t object, const char* name) {
  Hdf5Lock lock;
  float number = 0;
  get_number(object, name, H5T_FLOAT, H5T_NATIVE_FLOAT, &number);
  return number;
}

tensor::Shape read_shape(hid_t object, const char* name) {
  Hdf5Lock lock;
  Attribute attribute = open_attribute(object, name, H5T_INTEGER);
  hssize_t count = attribute_points(attribute, object, name);
  if (count > 8) reject(object, attribute_label(name), "has more than 8 extents");
  tensor::Shape shape(static_cast<std::size_t>(count));
  check(H5Aread(attribute.get(), H5T_NATIVE_INT64, shape.data()), Doing::reading, object, attribute_label(name));
  return shape;
}

Hdf5Dataset create_dataset(const Hdf5File& file, const char* name, ElementType type, const tensor::Shape& shape,
                           std::int64_t rows_per_chunk) {
  Hdf5Lock lock;
  auto checked = [&](auto status) { return check(status, Doing::writing, file.get(), name); };
  auto dimensions = extents(shape);
  Dataspace space(checked(H5Screate_simple(static_cast<int>(dimensions.size()), dimensions.data(), nullptr)));
  PropertyList creation(checked(H5Pcreate(H5P_DATASET_CREATE)));
  checked(H5Pset_obj_track_times(creation.get(), false));
  // Early allocation of a chunked dataset of fixed shape: chunks lie one after the other and need no index.
  checked(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY));
  checked(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER));
  if (rows_per_chunk > 0) {
    auto chunk = dimensions;
    chunk[0] = static_cast<hsize_t>(rows_per_chunk);
    checked(H5Pset_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data()));
  }
  PropertyList access(checked(H5Pcreate(H5P_DATASET_ACCESS)));
  checked(H5Pset_chunk_cache(access.get(), 1, 0, H5D_CHUNK_CACHE_W0_DEFAULT));  // rows come as whole chunks
  return Hdf5Dataset(
      checked(H5Dcreate2(file.get(), name, file_type(type), space.get(), H5P_DEFAULT, creation.get(), access.get())));
}

Hdf5Dataset open_dataset(const Hdf5File& file, const char* name, ElementType type, const tensor::Shape& shape) {
  Hdf5Lock lock;
  auto checked = [&](auto status) {
    return check(status, Doing::reading, file.get(), fmt::format("dataset /{}", name));
  };
  H5L_info_t link{};
  checked(H5Lget_info(file.get(), name, &link, H5P_DEFAULT));
  if (link.type != H5L_TYPE_HARD) reject(file.get(), name, "is a link, which distdl never writes");
  PropertyList access(checked(H5Pcreate(H5P_DATASET_ACCESS)));
  checked(H5Pset_chunk_cache(access.get(), 1, 0, H5D_CHUNK_CACHE_W0_DEFAULT));  // ChunkReader has a cache of its own
  Hdf5Dataset dataset(checked(H5Dopen2(file.get(), name, access.get())));
  std::string label = fmt::format("dataset /{}", name);
  Datatype stored(checked(H5Dget_type(dataset.get())));
  if (checked(H5Tequal(stored.get(), file_type(type))) == 0)
    reject(file.get(), label, "has an unexpected element type");
  if (extents_of(dataset, Doing::reading) != extents(shape))
    reject(file.get(), label,
           fmt::format("does not have the shape {} that the description implies", tensor::to_string(shape)));
  require_plain_storage(file, dataset, type, shape, label);
  return dataset;
}

std::int64_t rows_per_chunk(const Hdf5Dataset& dataset) {
  Hdf5Lock lock;
  std::string label = name_of(dataset.get());
  PropertyList creation(check(H5Dget_create_plist(dataset.get()), Doing::reading, dataset.get(), label));
  if (H5Pget_layout(creation.get()) != H5D_CHUNKED) return 0;
  auto expected = extents_of(dataset, Doing::reading);
  std::vector<hsize_t> chunk(expected.size());
  int rank = H5Pget_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data());
  if (rank != static_cast<int>(chunk.size()) || !std::equal(chunk.begin() + 1, chunk.end(), expected.begin() + 1))
    reject(dataset.get(), label, "has chunks that are not whole samples");
  return static_cast<std::int64_t>(chunk[0]);
}

void write_rows(const Hdf5Dataset& dataset, ElementType type, std::int64_t first, std::int64_t rows, const void* data) {
  Hdf5Lock lock;
  auto selection = select_rows(dataset, first, rows, Doing::writing);
  check(H5Dwrite(dataset.get(), memory_type(type), selection.memory.get(), selection.file.get(), H5P_DEFAULT, data),
        Doing::writing, dataset.get(), name_of(dataset.get()));
}

void read_rows(const Hdf5Dataset& dataset, ElementType type, std::int64_t first, std::int64_t rows, void* data) {
  Hdf5Lock lock;
  auto selection = select_rows(dataset, first, rows, Doing::reading);
  check(H5Dread(dataset.get(), memory_type(type), selection.memory.get(), selection.file.get(), H5P_DEFAULT, data),
        Doing::reading, dataset.get(), name_of(dataset.get()));
}

}  // namespace distdl::data
