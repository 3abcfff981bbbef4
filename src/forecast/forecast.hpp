// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <distdl/forecast/calibration.hpp>
#include <distdl/forecast/cluster.hpp>
#include <distdl/forecast/goodput.hpp>
#include <distdl/forecast/memory.hpp>
#include <distdl/forecast/products.hpp>
#include <distdl/forecast/stages.hpp>
#include <distdl/train/memory.hpp>

namespace distdl::forecast {

/// The nodes that a forecast is for. What is not given comes from the calibration, or else from stated defaults.
struct Machine {
  int nodes = 1, ranks_per_node = 1;
  Fabric fabric;
  double rate = 0;                 ///< of a node's network, bytes per second of payload; 0: as measured
  double latency = 0;              ///< of a message between nodes, seconds; 0: as measured
  bool is_tuned = false;           ///< "distdl bench comm --tune" will have run on these nodes
  std::uint64_t memory_bytes = 0;  ///< of a node; 0: as measured, or else this machine's
  train::ProcessLimits limits;     ///< of a rank's process
  double node_mtbf_hours = 43800;  ///< between failures of one node: five years; 0: none fails
  int spares = 0, least_nodes = 1;
  bool relaunches = false;  ///< run.recovery = "relaunch"
  std::uint64_t seed = 1;
  std::optional<Calibration> calibration;
  /// Why the calibration is not of such nodes, if it is not: then it counts as assumed, not as measured.
  std::string not_of_these;
  /// Seconds in which a rank computed a microbatch of this model, as an earlier start of the run has measured; 0: none
  /// has. A calibration that has this model counts instead.
  double microbatch_seconds = 0;
  /// By which forecasts are multiplied, as earlier runs have taught: learn(). Products stay in the same order.
  double step_factor = 1, memory_factor = 1;
};

struct ProductForecast {
  Product product;
  StageChoice stages = {};
  MemoryParts memory = {};      ///< of the rank that needs most
  MemoryParts first_rank = {};  ///< of rank 0
  int readers = 0;           ///< other ranks of its node that have the same part of the model, whose gradients it reads
  double node_bytes = 0;     ///< of all ranks of the node that needs most
  double address_bytes = 0;  ///< addresses of a rank at most, with the memory that others share with it
  double data_bytes = 0;     ///< of these, what it does not share
  double written_bytes = 0;  ///< by the rank that writes most of a checkpoint
  bool fits = true;
  StepTime step = {};
  std::size_t buckets = 1;
  std::string algorithm = {};  ///< of the largest bucket's sum; empty: one rank
  double efficiency = 1;       ///< of the time of one rank alone with the same global batch, divided by all ranks' time
  double sent_bytes = 0;       ///< by a node in a step, to other nodes
};

/// When to save, by checkpoint::daly_interval(), but not before the last save is on the disk.
struct SaveForecast {
  double stall_seconds = 0, durable_seconds = 0, interval_seconds = 0;
  std::int64_t interval_steps = 0;
};

struct Forecast {
  std::vector<ProductForecast> products;  ///< those that fit first, then the faster ones first
  std::size_t best = 0;                   ///< of those within 1% of the fastest, the simplest
  /// What the job file asks for, or its ranks would do instead; nothing: neither is possible.
  std::optional<std::size_t> own;
  std::string reason;               ///< why it is the best
  std::optional<Choice> automatic;  ///< by parallel.strategy = "auto"; nothing: what it may choose does not fit
  std::int64_t steps = 0, global_batch = 0;
  double evaluation_seconds = 0;  ///< of all evaluations
  SaveForecast save;
  Goodput goodput;
  double node_hours = 0;              ///< with spares
  std::string limits;                 ///< why there are no more products
  std::vector<std::string> warnings;  ///< what was assumed

  const ProductForecast& chosen() const { return products[best]; }
};

/// Called before each product of a forecast, of which `done` are done, out of `all`. Others may follow these.
using ForecastProgress = std::function<void(std::size_t done, std::size_t all, const Product& next)>;

/// A forecast of the run, without any node. Deterministic by Machine::seed. Throws ConfigError if the job cannot run
/// so: too few microbatches for any product, or more memory than there is; the text names the nearest choice that can.
Forecast forecast(const train::Recipe& recipe, const Workload& work, const Machine& machine,
                  const ForecastProgress& progress = {});

}  // namespace distdl::forecast
