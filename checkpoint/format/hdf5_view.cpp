// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/exchange/export.hpp>
#include <distdl/checkpoint/format/hdf5_elements.hpp>
#include <distdl/checkpoint/format/hyperslabs.hpp>
#include <distdl/checkpoint/format/tensor_pieces.hpp>
#include <distdl/files/whole_file.hpp>
#include <distdl/hdf5/objects/hdf5_error.hpp>

namespace distdl::checkpoint {
namespace {
using hdf5::Attribute;
using hdf5::check;
using hdf5::Dataset;
using hdf5::File;
using hdf5::Properties;
using hdf5::Space;
using hdf5::Type;

constexpr std::int64_t kViewElements = 1 << 20;

class ViewWriter {
 public:
  /// `sources`: the checkpoint's folder as the view's folder sees it.
  ViewWriter(const std::filesystem::path& file, std::filesystem::path sources) : sources_(std::move(sources)) {
    hdf5::Lock lock;
    link_.reset(check(H5Pcreate(H5P_LINK_CREATE), "prepare", "links"));
    check(H5Pset_create_intermediate_group(link_.get(), 1), "prepare", "links");
    Properties access(check(H5Pcreate(H5P_FILE_ACCESS), "prepare", file.string()));
    check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "prepare", file.string());
    file_ = File(check(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "create", file.string()));
  }

  void add_step(Step step) {
    hdf5::Lock lock;
    Space space = space_of({1});
    Attribute attribute(
        check(H5Acreate2(file_.get(), "step", H5T_STD_I64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT), "add", "step"));
    check(H5Awrite(attribute.get(), H5T_NATIVE_INT64, &step.value), "write", "step");
  }

  void add_copy(const std::string& path, tensor::DataType dtype, const tensor::Shape& shape, const void* bytes) {
    hdf5::Lock lock;
    Properties plain(check(H5Pcreate(H5P_DATASET_CREATE), "prepare", path));
    Dataset dataset = create(path, dtype, shape, plain);
    if (tensor::element_count(shape) > 0)
      check(H5Dwrite(dataset.get(), element_type(dtype).get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes), "write", path);
  }

  /// A dataset whose boxes lie in the checkpoint's files, the k-th of each file as /t/<name>/<k> there.
  void add_view(const StoredTensor& stored, const Manifest& manifest) {
    hdf5::Lock lock;
    std::string path = "/t/" + stored.entry.name;
    Properties boxes(check(H5Pcreate(H5P_DATASET_CREATE), "prepare", path));
    std::map<std::size_t, int> number;
    for (const StoredBox& box : stored.boxes) {
      Space target = space_of(stored.entry.shape), source = space_of(box.box.extent);
      select_box(target, box.box, path);
      std::string file = (sources_ / manifest.files[box.file].name).string();
      std::string part = fmt::format("{}/{}", path, number[box.file]++);
      check(H5Pset_virtual(boxes.get(), target.get(), file.c_str(), part.c_str(), source.get()), "map", path);
    }
    create(path, stored.entry.dtype, stored.entry.shape, boxes);
  }

  /// A dataset with bytes of its own, for a tensor that HDF5 could not read without a plug-in.
  void add_plain(TensorReader& reader, const StoredTensor& stored) {
    std::string path = "/t/" + stored.entry.name;
    Dataset dataset = create_plain(path, stored.entry);
    Type type = element_type(stored.entry.dtype);
    std::vector<std::byte> bytes;
    for_each_slab(stored.entry.shape, kViewElements, [&](const tensor::Box& box) {
      bytes.resize(static_cast<std::size_t>(tensor::element_count(box.extent)) * tensor::size_of(stored.entry.dtype));
      reader.read(stored, box, bytes.data());
      hdf5::Lock lock;
      Space target = space_of(stored.entry.shape), source = space_of(box.extent);
      select_box(target, box, path);
      check(H5Dwrite(dataset.get(), type.get(), source.get(), target.get(), H5P_DEFAULT, bytes.data()), "write", path);
    });
  }

  void close(const std::string& name) {
    hdf5::Lock lock;
    check(H5Fclose(file_.release()), "write and close", name);
  }

 private:
  static void select_box(const Space& space, const tensor::Box& box, const std::string& path) {
    std::vector<hsize_t> offset(box.offset.begin(), box.offset.end());
    std::vector<hsize_t> extent(box.extent.begin(), box.extent.end());
    check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, offset.data(), nullptr, extent.data(), nullptr), "select",
          path);
  }
  Dataset create_plain(const std::string& path, const TensorEntry& entry) {
    hdf5::Lock lock;
    Properties plain(check(H5Pcreate(H5P_DATASET_CREATE), "prepare", path));
    return create(path, entry.dtype, entry.shape, plain);
  }
  Dataset create(const std::string& path, tensor::DataType dtype, const tensor::Shape& shape,
                 const Properties& creation) {
    Type type = element_type(dtype);
    Space space = space_of(shape);
    return Dataset(
        check(H5Dcreate2(file_.get(), path.c_str(), type.get(), space.get(), link_.get(), creation.get(), H5P_DEFAULT),
              "create dataset", path));
  }

  std::filesystem::path sources_;
  Properties link_;
  File file_;
};

void add_tensor(ViewWriter& view, TensorReader& reader, const TensorEntry& entry) {
  const StoredTensor& stored = *reader.find(entry.name);
  if (!entry.shape.empty() && !stored.boxes.empty())
    return is_compressed(stored) ? view.add_plain(reader, stored) : view.add_view(stored, reader.manifest());
  std::vector<std::byte> bytes;  // a scalar, or nothing: HDF5 has no virtual ones
  for_each_piece(reader, entry, [&](std::span<std::byte> piece) { bytes.assign(piece.begin(), piece.end()); });
  view.add_copy("/t/" + entry.name, entry.dtype, entry.shape, bytes.data());
}
}  // namespace

std::vector<TensorEntry> export_view(const Summary& checkpoint, const std::filesystem::path& file,
                                     const Patterns& patterns, Overwrite overwrite) {
  auto selected = select(checkpoint, patterns);
  TensorReader reader(real_file_system(), checkpoint.folder);
  WholeFile out(real_file_system(), file, overwrite);
  auto here = std::filesystem::absolute(file).parent_path();
  ViewWriter view(out.unfinished(), std::filesystem::relative(checkpoint.folder, here));
  view.add_step(checkpoint.step);
  for (const TensorEntry& entry : selected) add_tensor(view, reader, entry);
  for (const auto& [key, value] : checkpoint.state)
    view.add_copy("/state/" + key, tensor::DataType::byte, {static_cast<std::int64_t>(value.size())}, value.data());
  view.close(file.string());
  out.publish();
  return selected;
}

}  // namespace distdl::checkpoint
