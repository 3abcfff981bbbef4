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

/// The nodes that a forecast is for. Missing figures come from the calibration, or else from stated defaults.
struct Machine {
  int nodes = 1, ranks_per_node = 1;
  Fabric fabric;
  double rate = 0;                 ///< bytes of payload per second of a node's network; 0: as measured
  double latency = 0;              ///< seconds of a message between nodes; 0: as measured
  bool is_tuned = false;           ///< "distdl bench comm --tune" will have run on these nodes
  std::uint64_t memory_bytes = 0;  ///< memory of a node; 0: as measured, or else this machine's
  train::ProcessLimits limits;     ///< limits of a rank's process
  double node_mtbf_hours = 43800;  ///< hours between failures of one node: five years; 0: none fails
  int spares = 0, least_nodes = 1;
  bool relaunches = false;  ///< run.recovery = "relaunch"
  std::uint64_t seed = 1;
  std::optional<Calibration> calibration;
  /// Reason why the calibration is not of such nodes, if it is not: then it counts as assumed, not as measured.
  std::string not_of_these;
  /// Seconds in which a rank computed a microbatch of this model, as an earlier start of the run has measured; 0:
  /// unknown. A calibration that has this model counts instead.
  double microbatch_seconds = 0;
  /// Factors of forecasts, learned from earlier runs: learn(). Products stay in the same order.
  double step_factor = 1, memory_factor = 1;
};

struct ProductForecast {
  Product product;
  StageChoice stages = {};
  MemoryParts memory = {};      ///< memory of the rank that needs most
  MemoryParts first_rank = {};  ///< memory of rank 0
  int readers = 0;              ///< other ranks of its node with the same part of the model, whose gradients it reads
  double node_bytes = 0;        ///< total of the ranks on the node that needs most
  double address_bytes = 0;     ///< most addresses of a rank, with the memory that others share with it
  double data_bytes = 0;        ///< the part of these that it does not share
  double written_bytes = 0;     ///< bytes that the busiest writer writes of a checkpoint
  bool fits = true;
  StepTime step = {};
  std::size_t buckets = 1;
  std::string algorithm = {};  ///< algorithm of the largest bucket's sum; empty: one rank
  double efficiency = 1;       ///< time of one rank alone with the same global batch / all ranks' time together
  double sent_bytes = 0;       ///< bytes that a node sends to other nodes in a step
};

/// Costs and interval of saves, by checkpoint::daly_interval(), but not before the last save is on the disk.
struct SaveForecast {
  double stall_seconds = 0, durable_seconds = 0, interval_seconds = 0;
  std::int64_t interval_steps = 0;
};

struct Forecast {
  std::vector<ProductForecast> products;  ///< those that fit first, faster ones first
  std::size_t best = 0;                   ///< index of the simplest of those within 1% of the fastest
  /// Index of the product that the job file asks for, or that its ranks would choose instead; nothing: neither is
  /// possible.
  std::optional<std::size_t> own;
  std::string reason;               ///< reason why it is the best
  std::optional<Choice> automatic;  ///< choice of parallel.strategy = "auto"; nothing: none that it may choose fits
  std::int64_t steps = 0, global_batch = 0;
  double evaluation_seconds = 0;  ///< seconds of all evaluations
  SaveForecast save;
  Goodput goodput;
  double node_hours = 0;              ///< node hours of the run, with spares
  std::string limits;                 ///< reason why there are no more products
  std::vector<std::string> warnings;  ///< assumptions

  const ProductForecast& chosen() const { return products[best]; }
};

/// Called before each product of a forecast: `done` of `all` are done. Others may follow these.
using ForecastProgress = std::function<void(std::size_t done, std::size_t all, const Product& next)>;

/// Makes a forecast of the run, without any node. Deterministic by Machine::seed. Throws ConfigError if the job cannot
/// run so: too few microbatches for any product, or more memory than there is; the text names the nearest choice that
/// can.
Forecast forecast(const train::Recipe& recipe, const Workload& work, const Machine& machine,
                  const ForecastProgress& progress = {});

}  // namespace distdl::forecast
