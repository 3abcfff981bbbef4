// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <utility>

#include <distdl/base/checksum.hpp>
#include <distdl/train/audit/auditor.hpp>

namespace distdl::train {

Auditor::Auditor(std::int64_t every, kernels::Backend& backend, comm::Communicator& communicator,
                 std::vector<int> parts, const parallel::MicrobatchPlan& plan, const tensor::ArenaLayout& layout,
                 std::size_t gradient_count)
    : every_(every),
      backend_(backend),
      communicator_(communicator),
      parts_(std::move(parts)),
      plan_(plan),
      layout_(layout),
      gradient_count_(gradient_count) {}

std::optional<int> Auditor::audited_after(Step step) const {
  if (!is_due(step)) return std::nullopt;
  return pairs_after(step, plan_).microbatch.at(static_cast<std::size_t>(communicator_.rank().value));
}

/// The checksum of the tensors, and of the totals behind gradients. The gaps between tensors are left out: they are no
/// result.
std::uint32_t Auditor::checksum(const float* arena, Arena kind) {
  const std::size_t count = kind == Arena::gradients ? gradient_count_ : layout_.size();
  const auto* bytes = reinterpret_cast<const std::byte*>(arena);
  if (!backend_.memory_is_host()) {
    if (staging_.bytes() == 0) staging_ = backend_.allocate_staging(gradient_count_ * sizeof(float));
    backend_.copy_to_host(staging_.data(), arena, count * sizeof(float));
    bytes = static_cast<const std::byte*>(staging_.data());
  }
  std::uint32_t sum = 0;
  for (const auto& view : layout_.tensors())
    if (kind != Arena::moments || view.role != tensor::Role::statistic)
      sum = crc32c({bytes + view.offset * sizeof(float), view.count * sizeof(float)}, sum);
  const std::size_t tail = count - layout_.size();  // the totals of the microbatch
  return crc32c({bytes + layout_.size() * sizeof(float), tail * sizeof(float)}, sum);
}

std::vector<std::uint32_t> Auditor::checksums(const TrainingState& state) {
  std::vector<std::uint32_t> sums{checksum(state.parameter_arena(), Arena::parameters)};
  for (const auto& [what, memory] : state.optimizer)
    sums.push_back(checksum(static_cast<const float*>(memory.data()),
                            what.kind == optim::StateArena::Kind::moment ? Arena::moments : Arena::parameters));
  return sums;
}

float* Auditor::kept() {
  if (scratch_.bytes() == 0) scratch_ = backend_.allocate(gradient_count_ * sizeof(float));
  return static_cast<float*>(scratch_.data());
}

void Auditor::keep(const float* gradients, const std::vector<parallel::Bucket>& piece) {
  for (const auto& elements : piece)
    backend_.copy(kept() + elements.first, gradients + elements.first, elements.count() * sizeof(float));
}

std::uint32_t Auditor::recomputed(int microbatch, const Recompute& recompute) {
  float* const gradients = kept();
  recompute(microbatch, gradients);
  return checksum(gradients, Arena::gradients);
}

void Auditor::recompute_now(int microbatch, const Recompute& recompute) {
  recomputed_ = recomputed(microbatch, recompute);
}

std::vector<AuditAnswer> Auditor::exchange(const AuditAnswer& mine) {
  std::vector<AuditAnswer> answers;
  for (const std::string& text : communicator_.all_gather_strings(to_text(mine)))
    answers.push_back(audit_answer_from(text));
  return answers;
}

void Auditor::judge(const TrainingState& state, const AuditPairs& pairs, const AuditAnswer& mine,
                    const Recompute& recompute) {
  const auto first = exchange(mine);
  const AuditFindings findings = findings_of(pairs, first);
  if (findings.passed()) return;
  std::vector<AuditAnswer> second;
  if (findings.is_open()) {
    AuditAnswer again{checksums(state), {}};
    for (const int owner : findings.disputed)
      again.gradients.push_back(recomputed(pairs.microbatch[static_cast<std::size_t>(owner)], recompute));
    second = exchange(again);
  }
  throw AuditFailed(state.step, verdict_of(pairs, findings, first, second));
}

void Auditor::audit(const TrainingState& state, const Recompute& recompute) {
  const Rank group(communicator_.rank().value / static_cast<int>(parts_.size()));
  if (const auto other = recomputed_microbatch(plan_, every_, group, state.step)) recompute_now(*other, recompute);
  judge(state, pairs_after(state.step, plan_), {checksums(state), {own_, recomputed_.value_or(own_)}}, recompute);
  recomputed_.reset();
}

void Auditor::audit_state(const TrainingState& state) {
  judge(state, pairs_after(state.step, plan_), {checksums(state), {}}, {});
}

}  // namespace distdl::train
