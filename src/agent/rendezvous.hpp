// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace distdl::agent {

/// A folder for the ranks of one launch on this machine to meet in; removed at the end.
class Rendezvous {
 public:
  Rendezvous();
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& launch_id() const { return launch_id_; }  ///< random

 private:
  std::string launch_id_;
  std::filesystem::path folder_;
};

}  // namespace distdl::agent
