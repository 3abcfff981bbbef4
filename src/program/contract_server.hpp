// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include <poll.h>

#include <distdl/base/file_descriptor.hpp>
#include <distdl/files/private_folder.hpp>
#include <distdl/program/contract_lines.hpp>

namespace distdl::program {

/// A rank's side of the run contract: a socket in a folder that only this user may enter. The processes of the rank's
/// program connect to it. Never waits for them; one that does not read what it is told is disconnected.
class ContractServer {
 public:
  /// Throws StorageError.
  ContractServer();
  ~ContractServer();
  ContractServer(const ContractServer&) = delete;
  ContractServer& operator=(const ContractServer&) = delete;

  /// For the environment of the program.
  const std::filesystem::path& path() const { return path_; }
  /// The folder of the socket, which exists as long as this object.
  const PrivateFolder& folder() const { return *folder_; }
  /// Readable when poll() has something to do.
  void add_to(std::vector<pollfd>& polled) const;
  /// The lines that programs have sent since the last call.
  std::vector<FromProgram> poll();
  /// Tells all that are connected, and those that connect later.
  void tell_asked();
  void tell_stop_at(std::int64_t call);
  /// The last question that the program has asked without knowing of tell_asked(): its next one waits for
  /// tell_stop_at(). 0: it does not ask. Nothing: not known yet.
  std::optional<std::int64_t> last_question() const;
  /// Answers whoever has asked for the time that is left.
  void tell_left(std::optional<double> seconds);

 private:
  struct Client {
    FileDescriptor socket;
    LineBuffer lines;
    bool asks_left = false;
  };
  static bool send(const Client& client, const ToProgram& message);
  void tell_all(const ToProgram& message);
  void accept_new();

  std::optional<PrivateFolder> folder_;
  std::filesystem::path path_;
  FileDescriptor socket_;
  std::vector<std::unique_ptr<Client>> clients_;
  ToProgram told_;
  bool asks_ = false;       ///< some program does
  bool has_heard_ = false;  ///< all that was sent before tell_asked()
  std::optional<std::int64_t> question_;
};

}  // namespace distdl::program
