// SPDX-License-Identifier: Apache-2.0
#include <distdl/train/local_sgd/local_sgd_engine.hpp>
#include <distdl/train/server/server_engine.hpp>
#include <distdl/train/sync/sync_engine.hpp>
#include <distdl/train/ways.hpp>

namespace distdl::train {

std::unique_ptr<Engine> make_engine(const EngineSetup& setup) {
  switch (setup.recipe.parallel.strategy) {
    case parallel::Strategy::local_sgd:
      return std::make_unique<LocalSgdEngine>(setup);
    case parallel::Strategy::parameter_server:
      return std::make_unique<ServerEngine>(setup);
    default:
      return std::make_unique<SyncEngine>(setup);
  }
}

}  // namespace distdl::train
