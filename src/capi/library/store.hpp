// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>

#include <distdl/capi/library/communicator.hpp>
#include <distdl/checkpoint/saver.hpp>
#include <distdl/checkpoint/store.hpp>

namespace distdl::capi {

/// A folder of checkpoints that this start has taken. Its members are used while the family is locked.
class StoreObject {
 public:
  using Handle = distdl_store;
  static constexpr Kind kKind = Kind::store;

  /// Collective, while the family of the communicator is locked. `of` null: this process alone.
  StoreObject(const std::filesystem::path& folder, const checkpoint::Options& options,
              std::shared_ptr<CommunicatorObject> of);

  /// Collective. The Saver, which is made for these slices if there was no save before.
  checkpoint::Saver& saver_for(std::span<const checkpoint::Slice> slices);
  /// Empty if the options ask for no snapshots.
  std::optional<checkpoint::Levels::Setup> levels() const;
  /// Collective. Calls `body`, which saves or waits. After arrays that do not form whole ones the Saver refuses all
  /// saves, so it ends then, and the next save gets a new one.
  template <class Body>
  void saving(Body&& body) {
    try {
      body();
    } catch (const StorageError& error) {
      if (error.exit_code() == ExitCode::incompatible) {
        collect_outcomes();
        saver.reset();
      }
      throw;
    }
  }
  /// Takes over what the Saver has to tell.
  void collect_outcomes();
  /// The number of this rank among those that write what all have, the first of each host, or -1; and their number.
  std::pair<int, int> writer() const;

  const std::shared_ptr<CommunicatorObject> communicator;
  const std::shared_ptr<Family> family;
  Use use_of;
  checkpoint::Store store;
  std::unique_ptr<checkpoint::Group> group;
  std::optional<checkpoint::Saver> saver;
  std::deque<checkpoint::SaveOutcome> ended;
  std::atomic<int> parts = 0;  ///< saves and loads that are open; the last handle of one may be dropped by any thread
};

/// The folder of the caller, or that of the run.
std::filesystem::path checkpoint_folder(const char* folder);

}  // namespace distdl::capi
