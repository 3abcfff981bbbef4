// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <distdl/base/clock.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::slurm {

/// The questions through libslurm, by a plug-in (plugin_interface.hpp). It runs on one thread of its own, since nothing
/// limits the time that libslurm takes: a question that is not answered within `limit` fails, and so do the next ones
/// as long as it takes.
class Libslurm final : public Queries {
 public:
  /// `otherwise` answers what the plug-in cannot, or cannot in time; may be nullptr.
  Libslurm(const std::filesystem::path& plugin, std::unique_ptr<Queries> otherwise,
           Milliseconds limit = std::chrono::seconds(10));
  ~Libslurm() override;

  std::string description() const override;
  std::optional<JobRecord> job(const std::string& id) override;
  std::optional<Partition> partition(const std::string& name) override;
  Settings settings() override;
  std::optional<std::string> batch_script(const std::string& id) override;

  /// Whether the plug-in was loaded, and fits the libslurm here; "22.05" is the release. Else nothing can be asked.
  const std::string& release() const { return release_; }

 private:
  class Thread;
  /// Nothing if Slurm knows no such thing. Throws SchedulerError.
  std::optional<std::string> answer(const std::string& kind, const std::string& name);

  std::string release_;
  std::shared_ptr<Thread> thread_;
  std::unique_ptr<Queries> otherwise_;
  Milliseconds limit_;
};

/// libslurm where its plug-in is installed and of the release of Slurm's commands here, else the commands alone. The
/// commands show first that the configuration can be read, and the controller asked: libslurm ends the process where it
/// does not like what it finds.
std::unique_ptr<Queries> best_queries();

}  // namespace distdl::slurm
