// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <fstream>

#include <sys/stat.h>

#include <distdl/base/errors.hpp>
#include <distdl/data/format/hdf5_failure.hpp>
#include <distdl/data/format/hdf5_file.hpp>

namespace distdl::data {
namespace {
hdf5::Properties file_access() {
  hdf5::Properties access(check(H5Pcreate(H5P_FILE_ACCESS), Access::writing, H5I_INVALID_HID, "a property list"));
#if H5_VERSION_GE(1, 10, 7)
  // Many cluster file systems have no locks, and HDF5 then refuses to open a file. Published files are never written
  // to.
  check(H5Pset_file_locking(access.get(), false, true), Access::writing, H5I_INVALID_HID, "a property list");
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

}  // namespace

hdf5::File create_hdf5_file(const std::filesystem::path& path) {
  hdf5::Lock lock;
  auto configured = [](herr_t status) { check(status, Access::writing, H5I_INVALID_HID, "a property list"); };
  hdf5::Properties creation(check(H5Pcreate(H5P_FILE_CREATE), Access::writing, H5I_INVALID_HID, "a property list"));
  configured(H5Pset_obj_track_times(creation.get(), false));
  configured(H5Pset_attr_phase_change(creation.get(), 64, 0));  // all attributes in the checksummed object header
  hdf5::Properties access = file_access();
  configured(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110));
  hdf5::File file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()));
  if (!file) throw StorageError(fmt::format("cannot create \"{}\" (HDF5: {})", path.string(), hdf5::failure_reason()));
  return file;
}

hdf5::File open_hdf5_file(const std::filesystem::path& path, Metadata metadata) {
  require_hdf5_signature(path);
  hdf5::Lock lock;
  hdf5::Properties access = file_access();
  // Files of different drivers are never one file to HDF5.
  if (metadata == Metadata::read_anew)
    check(H5Pset_fapl_stdio(access.get()), Access::reading, H5I_INVALID_HID, "a property list");
  hdf5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file)
    throw StorageError(fmt::format("cannot open data set \"{}\" (HDF5: {}); create or copy the file again",
                                   path.string(), hdf5::failure_reason()),
                       ExitCode::corrupt);
  return file;
}

void close_and_check(hdf5::File file) {
  hdf5::Lock lock;
  std::string path = hdf5::file_of(file.get());
  if (H5Fclose(file.release()) < 0)
    throw StorageError(fmt::format("cannot write \"{}\" (HDF5: {}); is the file system full or read-only?", path,
                                   hdf5::failure_reason()));
}

}  // namespace distdl::data
