// SPDX-License-Identifier: Apache-2.0
#include <random>

#include <fmt/format.h>
#include <unistd.h>

#include <distdl/agent/rendezvous.hpp>

namespace distdl::agent {
namespace {
std::string random_hex() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}
}  // namespace

Rendezvous::Rendezvous()
    : launch_id_(random_hex()),
      folder_(std::filesystem::temp_directory_path() / fmt::format("distdl-{}-{}", ::getuid(), launch_id_)) {
  std::filesystem::create_directory(folder_);
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
}

Rendezvous::~Rendezvous() {
  std::error_code ignored;  // only litter under /tmp is at stake
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace distdl::agent
