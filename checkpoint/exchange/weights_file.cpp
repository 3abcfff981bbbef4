// SPDX-License-Identifier: Apache-2.0
#include <distdl/checkpoint/exchange/weights_file.hpp>

namespace distdl::checkpoint {

WeightsFile::WeightsFile(const Path& file) : file_(real_file_system(), file, OpenFile::Mode::read) {
  if (PytorchFile::is_one(file_)) pytorch_.emplace(file);
  content_ = pytorch_ ? pytorch_->content() : read_safetensors(file_);
}

void WeightsFile::read(const SafetensorsTensor& tensor, std::span<std::byte> out) {
  if (pytorch_)
    pytorch_->read(tensor, out);
  else
    file_.read_at(out, tensor.offset);
}

}  // namespace distdl::checkpoint
