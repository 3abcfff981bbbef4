// SPDX-License-Identifier: Apache-2.0
// Arrays of NumPy: .npy, and .npz, which is a zip archive of these.
#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/ranges.h>

#include <distdl/base/checked.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/data/format/array_files.hpp>
#include <distdl/data/format/decompressing_reader.hpp>
#include <distdl/data/format/npy_header.hpp>
#include <distdl/files/archive_reader.hpp>
#include <distdl/tensor/half.hpp>

namespace distdl::data {
namespace {
constexpr std::string_view kNpySuffix = ".npy";
constexpr std::size_t kMostArrays = 1 << 16;  // of one .npz
constexpr std::size_t kNumbersAtOnce = 8192;

struct NpyNumber {
  std::string_view name;  ///< as NumPy calls the type
  std::size_t size;       ///< bytes
  void (*widen)(const std::byte* bytes, std::span<double> numbers);
};

template <class T>
void widen_npy(const std::byte* bytes, std::span<double> numbers) {
  for (double& number : numbers) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    number = static_cast<double>(value);
    bytes += sizeof value;
  }
}

template <class T>
constexpr NpyNumber npy_row(std::string_view name) {
  return {name, sizeof(T), &widen_npy<T>};
}

constexpr std::array kNpyNumbers{
    npy_row<float>("<f4"),         npy_row<double>("<f8"),        npy_row<tensor::Float16>("<f2"),
    npy_row<std::uint8_t>("|b1"),  npy_row<std::uint8_t>("|u1"),  npy_row<std::int8_t>("|i1"),
    npy_row<std::uint16_t>("<u2"), npy_row<std::int16_t>("<i2"),  npy_row<std::uint32_t>("<u4"),
    npy_row<std::int32_t>("<i4"),  npy_row<std::uint64_t>("<u8"), npy_row<std::int64_t>("<i8")};

/// An array whose bytes come from `Bytes`, which has read(span) like a file.
template <class Bytes>
class NpyArray final : public NumberArray {
 public:
  NpyArray(std::string name, Bytes bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {
    std::vector<std::byte> begin;
    const auto header = read_npy_header(name_, [&](std::size_t wanted) {
      const std::size_t before = begin.size();
      if (before < wanted) {
        begin.resize(wanted);
        begin.resize(before + bytes_->read(std::span(begin).subspan(before)));
      }
      return std::span<const std::byte>(begin);
    });
    require(header.has_value(), "{} is no array of NumPy", name_);
    const auto* const known = std::ranges::find(kNpyNumbers, header->type, &NpyNumber::name);
    require(known != kNpyNumbers.end() && !header->shape.empty(),
            "{} does not hold numbers that can be read: floats or whole numbers, little-endian, of at least one "
            "dimension are expected; its header says {}",
            name_, header->text);
    require(!header->is_fortran || header->shape.size() == 1,
            "{} is stored in the order of Fortran; save it again as numpy.ascontiguousarray(...)", name_);
    number_ = known;
    shape_ = header->shape;
    for (const std::int64_t extent : shape_)
      require(extent >= 0 && !__builtin_mul_overflow(left_, extent, &left_), "{} has an impossible shape {}", name_,
              tensor::to_string(shape_));
    ahead_.assign(begin.begin() + static_cast<std::ptrdiff_t>(header->bytes), begin.end());
  }
  const std::string& name() const override { return name_; }
  const tensor::Shape& shape() const override { return shape_; }

  void read(std::span<double> numbers) override {
    while (!numbers.empty()) {
      const auto piece = numbers.first(std::min(numbers.size(), kNumbersAtOnce));
      const std::size_t before = std::min(ahead_.size(), piece.size() * number_->size);
      stored_.resize(piece.size() * number_->size);
      std::copy_n(ahead_.begin(), before, stored_.begin());
      ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(before));
      const std::size_t got = before + bytes_->read(std::span(stored_).subspan(before));
      if (got < stored_.size())
        throw StorageError(
            fmt::format("{} is truncated: its header announces {} numbers, and {} or more are missing", name_,
                        tensor::to_string(shape_), left_ - static_cast<std::int64_t>(got / number_->size)),
            ExitCode::corrupt);
      number_->widen(stored_.data(), piece);
      left_ -= static_cast<std::int64_t>(piece.size());
      numbers = numbers.subspan(piece.size());
    }
  }

 private:
  std::string name_;
  Bytes bytes_;
  const NpyNumber* number_ = nullptr;
  tensor::Shape shape_;
  std::int64_t left_ = 1;  ///< numbers that were not read yet
  std::vector<std::byte> ahead_, stored_;
};

/// "u" for "u.npy"; nothing for other files in an archive.
std::optional<std::string> array_of_entry(std::string_view entry) {
  if (!entry.ends_with(kNpySuffix)) return std::nullopt;
  return std::string(entry.substr(0, entry.size() - kNpySuffix.size()));
}

std::string label_of(const std::filesystem::path& file, const std::string& array) {
  return fmt::format("array \"{}\" of \"{}\"", array, file.string());
}
}  // namespace

std::vector<std::string> arrays_of_npz(const std::filesystem::path& file) {
  ArchiveReader archive(file, ArchiveReader::Format::zip);
  std::vector<std::string> names;
  while (archive.next()) {
    if (auto name = array_of_entry(archive.name())) names.push_back(std::move(*name));
    require(names.size() <= kMostArrays, "\"{}\" has more than {} arrays", file.string(), kMostArrays);
  }
  return names;
}

std::unique_ptr<NumberArray> open_npz(const std::filesystem::path& file, const std::string& array) {
  auto archive = std::make_unique<ArchiveReader>(file, ArchiveReader::Format::zip);
  while (archive->next())
    if (array_of_entry(archive->name()) == array)
      return std::make_unique<NpyArray<std::unique_ptr<ArchiveReader>>>(label_of(file, array), std::move(archive));
  throw ConfigError(
      fmt::format("\"{}\" has no array \"{}\"; it has {}", file.string(), array, fmt::join(arrays_of_npz(file), ", ")));
}

std::vector<std::string> arrays_of_npy(const std::filesystem::path& file) {
  return {file.stem().string()};
}

std::unique_ptr<NumberArray> open_npy(const std::filesystem::path& file, const std::string& array) {
  require(array == file.stem().string(), "\"{}\" has no array \"{}\"; its only one is called \"{}\" here",
          file.string(), array, file.stem().string());
  return std::make_unique<NpyArray<std::unique_ptr<DecompressingReader>>>(label_of(file, array),
                                                                          std::make_unique<DecompressingReader>(file));
}

namespace {
struct ArrayFormat {
  std::string_view signature;
  std::unique_ptr<NumberArray> (*open)(const std::filesystem::path& file, const std::string& array);
  std::vector<std::string> (*names)(const std::filesystem::path& file);
};
constexpr std::array<ArrayFormat, 3> kArrayFormats{{{"PK\x03\x04", &open_npz, &arrays_of_npz},
                                                    {"\x93NUMPY", &open_npy, &arrays_of_npy},
                                                    {"\x89HDF\r\n\x1a\n", &open_hdf5_array, &arrays_of_hdf5}}};

const ArrayFormat& format_of_arrays(const std::filesystem::path& file) {
  constexpr std::size_t kHead = 8;
  std::array<std::byte, kHead> head{};
  DecompressingReader reader(file);  // of gzip: a .npy
  const std::string_view begin(reinterpret_cast<const char*>(head.data()), reader.read(head));
  for (const ArrayFormat& format : kArrayFormats)
    if (begin.starts_with(format.signature)) return format;
  throw ConfigError(fmt::format(
      "\"{}\" is none of the files with arrays that can be read: .npz and .npy of NumPy, and HDF5", file.string()));
}
}  // namespace

std::unique_ptr<NumberArray> open_array(const std::filesystem::path& file, const std::string& array) {
  return format_of_arrays(file).open(file, array);
}

std::vector<std::string> arrays_in(const std::filesystem::path& file) {
  return format_of_arrays(file).names(file);
}

}  // namespace distdl::data
