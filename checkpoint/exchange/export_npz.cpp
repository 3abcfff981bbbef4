// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/exchange/export.hpp>
#include <distdl/checkpoint/io/zip_archive.hpp>

namespace distdl::checkpoint {
namespace {
using tensor::DataType;

/// bf16 is written as f32.
const char* numpy_type(DataType dtype) {
  switch (dtype) {
    case DataType::float32:
    case DataType::bfloat16:
      return "<f4";
    case DataType::float64:
      return "<f8";
    case DataType::float16:
      return "<f2";
    case DataType::int32:
      return "<i4";
    case DataType::int64:
      return "<i8";
    case DataType::byte:
      return "|u1";
    case DataType::int8:
      return "|i1";
    case DataType::int16:
      return "<i2";
    case DataType::boolean:
      return "|b1";
    case DataType::complex64:
      return "<c8";
    case DataType::complex128:
      return "<c16";
  }
  throw InternalError("a data type without a numpy type");
}

/// NPY format 1.0 (numpy.lib.format): magic, length, a Python dictionary padded to a multiple of 64 bytes.
std::string npy_header(const TensorEntry& entry) {
  std::string shape;
  for (std::int64_t extent : entry.shape) shape += fmt::format("{},", extent);
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", numpy_type(entry.dtype), shape);
  constexpr std::size_t kBefore = 10;
  text.append(63 - (kBefore + text.size()) % 64, ' ');
  text += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(text.size() & 0xFF);
  head += static_cast<char>(text.size() >> 8);
  return head + text;
}

/// The upper halves of floats become floats.
std::vector<std::byte> widened(std::span<const std::byte> halves) {
  std::vector<std::byte> wide(2 * halves.size());
  for (std::size_t i = 0; i < halves.size(); i += 2) std::memcpy(&wide[2 * i + 2], &halves[i], 2);
  return wide;
}
}  // namespace

std::vector<TensorEntry> export_npz(const Summary& checkpoint, const std::filesystem::path& file,
                                    const std::vector<ExportedTensor>& tensors, Compression compression,
                                    Overwrite overwrite) {
  auto entries = entries_of(tensors);
  TensorReader reader(real_file_system(), checkpoint.folder);
  WholeFile out(real_file_system(), file, overwrite);
  ZipArchive archive(out);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorEntry& entry = entries[i];
    archive.add(entry.name + ".npy", compression == Compression::deflate, [&](const ZipArchive::Sink& sink) {
      std::string header = npy_header(entry);
      sink(std::as_bytes(std::span(header)));
      for_each_piece(reader, tensors[i], [&](std::span<std::byte> piece) {
        if (entry.dtype == DataType::bfloat16)
          sink(widened(piece));
        else
          sink(piece);
      });
    });
  }
  archive.finish();
  out.publish();
  return entries;
}

}  // namespace distdl::checkpoint
