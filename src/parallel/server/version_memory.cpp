// SPDX-License-Identifier: Apache-2.0
#include <distdl/parallel/server/version_memory.hpp>
#include <distdl/tensor/page.hpp>

namespace distdl::parallel::server {
namespace {
std::size_t whole_pages(std::size_t bytes) {
  const std::size_t page = tensor::page_bytes();
  return (bytes + page - 1) / page * page;
}
}  // namespace

VersionMemory::VersionMemory(std::size_t places, std::size_t floats)
    : place_bytes_(whole_pages(floats * sizeof(float))),
      block_(std::make_shared<tensor::Buffer>(tensor::reserve_host(places * place_bytes_))),
      free_(std::make_shared<std::vector<std::byte*>>()) {
  for (std::size_t place = places; place > 0; --place) free_->push_back(all().data() + (place - 1) * place_bytes_);
}

std::shared_ptr<tensor::Buffer> VersionMemory::take(std::size_t bytes) const {
  if (!free_ || free_->empty() || bytes > place_bytes_)
    return std::make_shared<tensor::Buffer>(tensor::allocate_host(bytes));
  std::byte* const place = free_->back();
  free_->pop_back();
  return std::make_shared<tensor::Buffer>(
      place, bytes, [block = block_, free = free_](void* used) { free->push_back(static_cast<std::byte*>(used)); });
}

std::optional<std::size_t> VersionMemory::place_of(const std::byte* memory) const {
  const auto memory_of_all = all();
  if (memory < memory_of_all.data() || memory >= memory_of_all.data() + memory_of_all.size()) return std::nullopt;
  return static_cast<std::size_t>(memory - memory_of_all.data());
}

}  // namespace distdl::parallel::server
