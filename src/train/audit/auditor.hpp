// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/description.hpp>
#include <distdl/parallel/buckets.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/audit/audit_rules.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// An audit found wrong bits. Thrown on all ranks alike, before the step changes the state.
class AuditFailed : public Error {
 public:
  AuditFailed(Step step, AuditVerdict verdict)
      : Error(ExitCode::corruption, verdict.reason), step_(step), verdict_(std::move(verdict)) {}
  Step step() const noexcept { return step_; }  ///< the step whose state was audited
  const AuditVerdict& verdict() const noexcept { return verdict_; }

 private:
  Step step_;
  AuditVerdict verdict_;
};

/// A rank's part of the audits of a run.
class Auditor {
 public:
  /// Not collective. `every`: train.audit_every. `communicator`: of all ranks. `parts`: see audited_parts(). The
  /// references must outlive this object.
  Auditor(std::int64_t every, kernels::Backend& backend, comm::Communicator& communicator, std::vector<int> parts,
          const parallel::MicrobatchPlan& plan, const tensor::ArenaLayout& layout, std::size_t gradient_count);
  /// Ends the audits, for ranks that round differently.
  void disable() { every_ = 0; }
  bool is_enabled() const { return every_ > 0; }
  std::int64_t every() const { return every_; }
  bool is_due(Step step) const { return audit_is_due(every_, step); }
  /// The microbatch of this rank that is audited in the step after `step`, if any.
  std::optional<int> audited_after(Step step) const;

  /// Takes the checksum of this rank's audited microbatch, before it is summed up.
  void note(const float* gradients) { own_ = checksum(gradients, Arena::gradients); }
  /// Keeps a piece of the audited microbatch's gradients, if they are computed in pieces. Call it for each piece before
  /// it is summed up, and note(kept()) after the last one.
  void keep(const float* gradients, const std::vector<parallel::Bucket>& piece);
  float* kept();
  /// Computes the gradients of a microbatch of the step again.
  using Recompute = std::function<void(int microbatch, float* gradients)>;
  /// Collective, after note(). Throws AuditFailed.
  void audit(const TrainingState& state, const Recompute& recompute);
  /// Collective. Audits only the state, after the last step. Throws AuditFailed.
  void audit_state(const TrainingState& state);
  /// Recomputes a microbatch for the audit under way; where this rank is the only one, while its samples are there.
  void recompute_now(int microbatch, const Recompute& recompute);

 private:
  enum class Arena { parameters, moments, gradients };
  std::uint32_t checksum(const float* arena, Arena kind);
  std::vector<std::uint32_t> checksums(const TrainingState& state);
  std::uint32_t recomputed(int microbatch, const Recompute& recompute);
  std::vector<AuditAnswer> exchange(const AuditAnswer& mine);
  void judge(const TrainingState& state, const AuditPairs& pairs, const AuditAnswer& mine, const Recompute& recompute);
  AuditPairs pairs_after(Step step, const parallel::MicrobatchPlan& plan) const {
    return audit_pairs(plan, step.value / every_, parts_);
  }

  std::int64_t every_;
  kernels::Backend& backend_;
  comm::Communicator& communicator_;
  std::vector<int> parts_;
  const parallel::MicrobatchPlan& plan_;  ///< plan of the step; it changes between two steps
  const tensor::ArenaLayout& layout_;
  std::size_t gradient_count_;
  tensor::Buffer scratch_;  ///< gradients that are kept, or computed again; allocated by the first audit
  tensor::Buffer staging_;  ///< a copy of an arena on a device
  std::uint32_t own_ = 0;
  std::optional<std::uint32_t> recomputed_;
};

}  // namespace distdl::train
