// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/exchange/pytorch_file.hpp>
#include <distdl/files/archive_reader.hpp>

namespace distdl::checkpoint {
namespace {
using tensor::DataType;

constexpr std::size_t kMostOfPickle = std::size_t{16} << 20, kMostOfOrder = 16;
constexpr std::string_view kPickle = "data.pkl";

struct StorageType {
  std::string_view name;
  DataType type;
};
constexpr StorageType kStorageTypes[] = {{"FloatStorage", DataType::float32},     {"DoubleStorage", DataType::float64},
                                         {"HalfStorage", DataType::float16},      {"IntStorage", DataType::int32},
                                         {"BFloat16Storage", DataType::bfloat16}, {"LongStorage", DataType::int64},
                                         {"ByteStorage", DataType::byte}};

[[noreturn]] void refuse(const Path& file, const std::string& why, ExitCode code = ExitCode::corrupt) {
  throw StorageError(code == ExitCode::corrupt ? fmt::format("\"{}\" is damaged: {}; copy it again", file.string(), why)
                                               : fmt::format("\"{}\" cannot be read: {}", file.string(), why),
                     code);
}

/// The archive at the first of its files whose name `fits`. Nothing if there is none.
template <class Fits>
std::optional<ArchiveReader> open_at(const Path& file, Fits&& fits) {
  ArchiveReader reader(file, ArchiveReader::Format::zip);
  while (reader.next())
    if (fits(reader.name())) return reader;
  return std::nullopt;
}

bool is_dense(const PickledTensor& tensor) {
  std::int64_t expected = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

/// Copies the first `count` elements, in row-major order.
void gather(const PickledTensor& tensor, const std::byte* storage, std::size_t element, std::size_t count,
            std::byte* out) {
  std::vector<std::int64_t> at(tensor.shape.size(), 0);
  std::int64_t place = tensor.offset;
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(out + i * element, storage + static_cast<std::size_t>(place) * element, element);
    for (std::size_t d = at.size(); d-- > 0;) {
      place += tensor.strides[d];
      if (++at[d] < tensor.shape[d]) break;
      place -= tensor.strides[d] * std::exchange(at[d], 0);
    }
  }
}
}  // namespace

bool PytorchFile::is_one(OpenFile& file) {
  constexpr std::string_view kZip("PK\x03\x04", 4), kOld("\x80\x02\x8A\x0Al\xFC\x9C", 7);
  std::array<char, 8> head{};
  const auto bytes = std::as_writable_bytes(std::span(head)).first(std::min<std::size_t>(head.size(), file.size()));
  file.read_at(bytes, 0);
  const std::string_view text(head.data(), bytes.size());
  if (text.starts_with(kOld))
    refuse(file.path(), "it is of the format before torch 1.6; load it there and save it again",
           ExitCode::incompatible);
  return text.starts_with(kZip);
}

PytorchFile::PytorchFile(const Path& file) : file_(file) {
  auto reader = open_at(file, [](std::string_view each) {
    return each == kPickle || (each.ends_with(kPickle) && each.find('/') == each.size() - kPickle.size() - 1);
  });
  if (!reader) refuse(file, "it is a zip archive without data.pkl, so not of torch.save()", ExitCode::incompatible);
  prefix_ = reader->name().substr(0, reader->name().size() - kPickle.size());
  const auto pickle = reader->read(kMostOfPickle);
  constexpr std::string_view kLittle = "little";
  if (auto order = open_at(file, [&](std::string_view each) { return each == prefix_ + "byteorder"; });
      order && !std::ranges::equal(order->read(kMostOfOrder), std::as_bytes(std::span(kLittle))))
    refuse(file, "its numbers are not little-endian", ExitCode::incompatible);
  try {
    tensors_ = tensors_in_pickle({reinterpret_cast<const char*>(pickle.data()), pickle.size()});
    for (const auto& tensor : tensors_) {
      const auto* const known = std::ranges::find(kStorageTypes, tensor.type, &StorageType::name);
      if (known == std::end(kStorageTypes)) {
        content_.others.emplace_back(tensor.name, tensor.type);
        continue;
      }
      (void)tensor::element_count(tensor.shape);  // throws if that is too large
      content_.tensors.push_back(
          {{tensor.name, known->type, tensor.shape}, static_cast<std::uint64_t>(&tensor - tensors_.data())});
    }
  } catch (const std::exception& error) {
    pass_on_shortage(error);
    refuse(file, error.what(), ExitCode::incompatible);
  }
}

void PytorchFile::read(const SafetensorsTensor& tensor, std::span<std::byte> out) const {
  const auto& pickled = tensors_.at(tensor.offset);
  const std::size_t element = tensor::size_of(tensor.entry.dtype), count = out.size() / element;
  const auto elements = static_cast<std::uint64_t>(pickled.elements);
  const auto name = prefix_ + "data/" + pickled.storage;
  auto reader = open_at(file_, [&](std::string_view each) { return each == name; });
  if (!reader) refuse(file_, fmt::format("\"{}\" is missing, which has the values of \"{}\"", name, pickled.name));
  if (reader->bytes() / element < elements)
    refuse(file_, fmt::format("\"{}\" has {} bytes, but {} values of {} bytes were expected", name, reader->bytes(),
                              elements, element));
  const auto storage = reader->read(reader->bytes());
  if (is_dense(pickled))
    std::memcpy(out.data(), storage.data() + static_cast<std::size_t>(pickled.offset) * element, out.size());
  else
    gather(pickled, storage.data(), element, count, out.data());
}

}  // namespace distdl::checkpoint
