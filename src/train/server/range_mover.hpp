// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/server/parameter_server.hpp>
#include <distdl/train/server/range_rule.hpp>
#include <distdl/train/setting.hpp>

namespace distdl::train {

/// Measures what the servers cost, exchanges it between two rounds, and moves parameters as RangeBalance decides. With
/// `synchronous` the bytes of a run stay the same. Each start of a run begins with equal ranges.
class RangeBalancing {
 public:
  /// Not collective. The references must outlive this object.
  RangeBalancing(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator,
                 records::Observer& observer, const tensor::ArenaLayout& layout, ParameterServer& server);

  /// Collective, after each round, which took so long. `is_disturbed`: this rank was suspended meanwhile.
  void round_done(TrainingState& state, std::int64_t steps, double seconds, bool is_disturbed);

 private:
  AnswerSeconds mine(Step step) const;
  /// Collective.
  std::vector<AnswerSeconds> of_all(Step step) const;
  void tell(Step step, bool moved);

  const Setting& setting_;
  comm::Communicator& communicator_;
  records::Observer& observer_;
  ParameterServer& server_;
  std::optional<RangeBalance> balance_;  ///< none: nothing moves
  bool is_measured_ = false;             ///< not the first round of a start, in which backends prepare their kernels
  bool is_told_ = false;                 ///< the observer knows what servers cost
  // Since the last exchange.
  std::int64_t steps_ = 0;
  double seconds_ = 0;
  bool is_disturbed_ = false;
  std::vector<double> answer_seconds_;
};

}  // namespace distdl::train
