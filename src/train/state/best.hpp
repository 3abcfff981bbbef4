// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <distdl/base/ids.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/train/options.hpp>

namespace distdl::train {

/// The best evaluation of a run so far, and what an early stop depends on. It is part of the training state and is
/// saved with it, so that it is the same on any number of ranks and after a resume.
struct BestEvaluation {
  Metric metric = Metric::loss;  ///< metric by which evaluations are compared
  double value = 0;              ///< loss of the best one in nats per label, or its accuracy, 0 .. 1
  Step step;                     ///< step of the best one
  Step last;                     ///< step of the evaluation that was counted last
  std::int64_t worse = 0;        ///< evaluations in a row, up to the last one, that were not better

  bool operator==(const BestEvaluation&) const = default;
};

/// The key of to_text() in the state of a checkpoint.
inline constexpr const char* kBestState = "best";

/// Whether the options ask for the comparison of evaluations.
bool compares_evaluations(const Options& options);

/// Counts an evaluation. The first one is the best; a later one is better if its loss is lower, or its accuracy is
/// higher, by more than Options::best_min_delta. An evaluation of the step that was counted last changes nothing, as a
/// resume repeats it. With another metric than before it begins anew.
void take_evaluation(std::optional<BestEvaluation>& best, const Options& options, const records::Evaluated& evaluation);

/// Whether the run ends: Options::stop_early_patience evaluations in a row were not better.
bool ends_early(const std::optional<BestEvaluation>& best, const Options& options);

/// For people: "5 evaluations in a row were not better than that of step 300 (loss 0.1234)".
std::string reason_of_early_end(const BestEvaluation& best);

/// For the state in checkpoints: "loss 0.1234 300 350 1", in as many digits as give the same number back.
std::string to_text(const BestEvaluation& best);
/// Throws StorageError (corrupt) if to_text() did not make the text.
BestEvaluation best_evaluation_from(const std::string& text);

}  // namespace distdl::train
