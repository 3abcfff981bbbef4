// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/options.hpp>
#include <distdl/train/memory.hpp>
#include <distdl/train/recipe.hpp>

namespace distdl::train {

class Engine;
struct EngineSetup;

/// A way of training, as parallel.strategy names it. What it forbids, takes and does is in the folder of its engine.
struct Way {
  parallel::Strategy strategy;
  /// Throws ConfigError if the recipe asks for something that this way of training cannot do.
  void (*check)(const Recipe& recipe);
  /// Returns the least memory for the arenas of a rank. Throws ConfigError if its bytes are no number.
  ArenaBytes (*memory)(const RankMemory& rank);
  /// Marks the keys of this way that change no number, with these options, as "none" in an identity: all of them, if it
  /// is another way that trains. Two ways whose results differ must not leave the same identity: one that shares all
  /// its keys with another sets "parallel.strategy" to its name if it trains, and else to "none".
  void (*leave_out)(const parallel::Options& options, std::map<std::string, std::string>& identity);
  /// Returns what an error without memory advises besides a smaller model: ", or ...".
  std::string (*smaller)(const parallel::Options& options, const parallel::Degrees& degrees);
  /// Not collective. Makes the engine that does the steps.
  std::unique_ptr<Engine> (*make)(const EngineSetup& setup);
  /// Why its times cannot be forecast, as a sentence without a full stop; empty: they can. "auto" chooses among those
  /// of which this is so and that give the same bytes.
  std::string_view no_forecast = {};
};

/// All ways of training, one for each strategy that ranks can have.
std::span<const Way> ways();
/// The way of a strategy; that of replicas for "auto", which may always choose them.
const Way& way_of(parallel::Strategy strategy);

}  // namespace distdl::train
