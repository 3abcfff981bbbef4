// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>

#include <distdl/base/known_formats.hpp>

namespace distdl {
namespace {
using namespace std::string_view_literals;

struct KnownFormat {
  std::string_view begin;  ///< markup in small letters
  std::string_view name;
};

/// Each begins with at least three bytes: numbers, too, begin with any two.
constexpr std::array kFormats{
    KnownFormat{"version https://git-lfs", "a Git LFS pointer; fetch the file it stands for by \"git lfs pull\""},
    KnownFormat{"<!doctype", "a web page, perhaps of an error; download the file again"},
    KnownFormat{"<html", "a web page, perhaps of an error; download the file again"},
    KnownFormat{"<?xml", "an XML document, perhaps of an error; download the file again"},
    KnownFormat{"PK\3\4"sv, "a zip archive, as PyTorch's .pt and .bin or NumPy's .npz"},
    KnownFormat{"\x80\2\x8a\x0a"sv, "an older .pt or .bin file of PyTorch"},
    KnownFormat{"\x80\4\x95"sv, "a pickle of Python"},
    KnownFormat{"\x80\5\x95"sv, "a pickle of Python"},
    KnownFormat{"GGUF", "a GGUF file of llama.cpp"},
    KnownFormat{"\x08\x08\x12\x06"
                "distdl"sv,
                "an ONNX model; take the weights that it was made from"},
    KnownFormat{"\x08\x08\x12\x07pytorch"sv, "an ONNX model; take the weights that it was made from"},
    KnownFormat{"\x08\x0a\x12\x07pytorch"sv, "an ONNX model; take the weights that it was made from"},
    KnownFormat{"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    KnownFormat{"\x93NUMPY"sv, "an array of NumPy (.npy)"},
    KnownFormat{"PAR1", "a Parquet file"},
    KnownFormat{"ARROW1", "an Arrow file"},
    KnownFormat{"\x1f\x8b\x08"sv, "compressed by gzip"},
    KnownFormat{"\x28\xb5\x2f\xfd"sv, "compressed by zstd"},
    KnownFormat{"BZh91AY", "compressed by bzip2"},
    KnownFormat{"\xfd"
                "7zXZ"sv,
                "compressed by xz"},
    KnownFormat{"\x89PNG"sv, "a PNG image"},
    KnownFormat{"\xff\xd8\xff\xe0"sv, "a JPEG image"},
    KnownFormat{"\xff\xd8\xff\xe1"sv, "a JPEG image"},
    KnownFormat{"RIFF", "a RIFF file, such as a WebP image"},
    KnownFormat{"%PDF", "a PDF document"},
    KnownFormat{"\x7f"
                "ELF"sv,
                "a program or library"},
};

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}
}  // namespace

std::string_view known_format(std::span<const std::byte> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), std::min(head.size(), kFormatHead));
  for (const KnownFormat& format : kFormats) {
    const std::string_view begin = format.begin;
    const bool is_markup = begin.starts_with('<');
    const std::string_view mine = text.substr(0, begin.size());
    if (mine == begin || (is_markup && std::ranges::equal(mine, begin, {}, lower))) return format.name;
  }
  return {};
}

}  // namespace distdl
