// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file. Input: a byte of flags, the file. Flag 1: the input has no length of the header in
// front, it is put there: the header ends with the last '}'.
#include "memory_files.hpp"
#include "target.hpp"
#include <distdl/checkpoint/exchange/safetensors.hpp>

namespace {
using namespace distdl;
using namespace distdl::checkpoint;

std::string with_length(std::string_view input) {
  const std::uint64_t length = input.rfind('}') == input.npos ? 0 : input.rfind('}') + 1;
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  return file += input;
}

SafetensorsFile read(const std::string& bytes) {
  static fuzz::MemoryFiles files;
  files.put("fuzz", bytes);
  OpenFile file(files, "/fuzz", OpenFile::Mode::read);
  return read_safetensors(file);
}

void read_and_write(std::string_view input) {
  if (input.empty()) return;
  std::string bytes = input[0] & 1 ? with_length(input.substr(1)) : std::string(input.substr(1));
  const SafetensorsFile found = read(bytes);
  std::vector<TensorEntry> entries;
  std::uint64_t data = bytes.size();
  for (const SafetensorsTensor& tensor : found.tensors) {
    const auto size =
        static_cast<std::uint64_t>(tensor::element_count(tensor.entry.shape)) * tensor::size_of(tensor.entry.dtype);
    fuzz::demand(tensor.offset <= bytes.size() && size <= bytes.size() - tensor.offset, "a tensor lies in the file");
    data = std::min(data, tensor.offset);
    entries.push_back(tensor.entry);
  }
  const SafetensorsFile again = read(safetensors_header(entries, found.metadata) + bytes.substr(data));
  bool same = again.metadata == found.metadata && again.tensors.size() == found.tensors.size();
  for (std::size_t i = 0; same && i < again.tensors.size(); ++i) {
    const TensorEntry &one = again.tensors[i].entry, &other = found.tensors[i].entry;
    // Empty tensors at one place have no order of their own.
    same = tensor::element_count(one.shape) == 0 ||
           (one.name == other.name && one.dtype == other.dtype && one.shape == other.shape);
  }
  fuzz::demand(same, "a header can be written and read again");
}

const fuzz::Target target("safetensors", &read_and_write);
}  // namespace
