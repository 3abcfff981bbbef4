// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/train/parcel.hpp>

namespace distdl::train {

std::span<std::byte> Parcel::staging(std::size_t bytes) {
  if (staging_.bytes() < bytes) staging_ = backend_.allocate_staging(bytes);
  return {static_cast<std::byte*>(staging_.data()), bytes};
}

void Parcel::settle() {
  if (std::exchange(is_under_way_, false)) sent_.wait();
}

void Parcel::send(std::span<const std::byte> values, Rank to) {
  settle();
  if (!backend_.memory_is_host()) {
    const auto copy = staging(values.size());
    backend_.copy_to_host(copy.data(), values.data(), values.size());
    values = copy;
  }
  sent_ = communicator_.send(values, to, tag_);
  is_under_way_ = true;
}

void Parcel::receive(std::span<std::byte> values, Rank from) {
  if (backend_.memory_is_host()) return communicator_.receive(values, from, tag_).wait();
  const auto copy = staging(values.size());
  communicator_.receive(copy, from, tag_).wait();
  backend_.copy_from_host(values.data(), copy.data(), copy.size());
}

}  // namespace distdl::train
