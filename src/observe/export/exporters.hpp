// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <distdl/observe/export/history.hpp>

// The history of a run as files that other programs read.
namespace distdl::observe {

/// A folder under another name, until all of its files are there. It is removed if it does not get its name.
class UnfinishedFolder {
 public:
  /// Throws StorageError if the folder exists, and `replace` is not set; or if none can be made there.
  UnfinishedFolder(const std::filesystem::path& folder, bool replace);
  ~UnfinishedFolder();
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  /// `name`: may begin with folders, which are made. Throws StorageError.
  void write(const std::filesystem::path& name, std::string_view bytes) const;
  /// Takes the place of what is there.
  void finish();

 private:
  std::filesystem::path folder_, unfinished_;
};

/// Each writes a folder of its own for the run below `place`, which is made, and returns it. An export of the same run
/// there is replaced with `replace`. Throw StorageError.

/// place/NAME-ID: an event file for TensorBoard.
std::filesystem::path export_tensorboard(const History& history, const std::filesystem::path& place, bool replace);
/// place/offline-run-TIME-ID: what `wandb sync` uploads (wandb/sdk/internal/datastore.py of wandb 0.16,
/// wandb/proto/wandb_internal.proto), as run ID of the project distdl.
std::filesystem::path export_wandb(const History& history, const std::filesystem::path& place, bool replace);
/// place/EXPERIMENT/ID: a run of the experiment distdl in MLflow's file store (mlflow/store/tracking/file_store.py of
/// MLflow 3).
std::filesystem::path export_mlflow(const History& history, const std::filesystem::path& place, bool replace);

}  // namespace distdl::observe
