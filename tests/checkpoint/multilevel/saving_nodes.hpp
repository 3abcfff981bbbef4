// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/checkpoint/multilevel/simulated_nodes.hpp"
#include <distdl/checkpoint/saver.hpp>

// Simulated nodes whose ranks save as training does.
namespace distdl::checkpoint {

/// A snapshot that does not go to the file system; it holds make_sample(step).
struct PlannedSave {
  std::int64_t step = 0;
  Protection how;
};

inline Sample sample_of(std::int64_t step) {
  return make_sample(static_cast<std::uint64_t>(step));
}

/// Letters of a thread that writes.
class WritersPost final : public Group {
 public:
  WritersPost(std::unique_ptr<Group> group, Post& post) : group_(std::move(group)), with_post_(*group_, post) {}
  int rank() const override { return with_post_.rank(); }
  int size() const override { return with_post_.size(); }
  std::vector<std::string> all_gather(const std::string& mine) override { return with_post_.all_gather(mine); }
  void exchange_buffers(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    with_post_.exchange_buffers(out, in);
  }

 private:
  std::unique_ptr<Group> group_;
  PostGroup with_post_;
};

/// Each rank makes these saves with a Saver, one after the other, and then dies: the buffers stay. Returns rank 0's
/// outcomes; all ranks' must be alike. Throws what a rank threw.
inline std::vector<SaveOutcome> save_and_die(const Site& site, const std::vector<std::string>& nodes,
                                             const std::vector<PlannedSave>& saves, int damaged_letter = -1) {
  TemporaryFolder root;
  Post post(damaged_letter);
  const int world = static_cast<int>(nodes.size());
  ThreadGroups training(world), writing(world);
  std::vector<std::vector<SaveOutcome>> outcomes(nodes.size());
  const auto errors = training.run([&](Group& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    Store store(root.path(), {});
    store.take(group, owner_called("test"));
    const Levels::Setup levels = site.setup(nodes[rank]);
    Saver saver(store, group, std::make_unique<WritersPost>(writing.member(group.rank()), post),
                {levels.run, false, true, levels});
    for (const PlannedSave& save : saves) {
      const Sample sample = sample_of(save.step);
      saver.save(Step(save.step), share_of(sample, group.rank(), world).slices, {{"position", "77"}},
                 {false, save.how});
      saver.wait();
    }
    outcomes[rank] = saver.outcomes();
  });
  for (const auto& error : errors)
    if (!error.empty()) throw std::runtime_error(error);
  for (const auto& of_rank : outcomes)
    for (std::size_t i = 0; i < of_rank.size(); ++i)
      if (of_rank[i].unkept != outcomes[0].at(i).unkept) throw std::runtime_error("ranks are told different things");
  return outcomes[0];
}

/// What ranks on these nodes get back. Throws what a rank threw, or if the bytes are not those of that step.
inline std::optional<Step> step_restored(const Site& site, const std::vector<std::string>& nodes) {
  std::optional<Step> step;
  run_on(site, nodes, [&](Levels& levels, int rank, const std::string&) {
    const auto plan = levels.find();
    if (!plan) return;
    const Sample sample = sample_of(plan->step.value);
    const RestoreMemory room(sample);
    State state;
    levels.restore(*plan, room.targets, state);
    for (std::size_t i = 0; i < sample.size(); ++i)
      if (room.memory[i] != sample[i].bytes)
        throw std::runtime_error("wrong bytes come back in " + sample[i].entry.name);
    if (rank == 0) step = plan->step;
  });
  return step;
}

inline void lose_memory_of(const Site& site, const std::string& node) {
  for (const auto& name : buffers_of(site.memory_of(node))) remove_orphan(name);
}

}  // namespace distdl::checkpoint
