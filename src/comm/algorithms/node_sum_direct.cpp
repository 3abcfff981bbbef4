// SPDX-License-Identifier: Apache-2.0
#include <distdl/comm/algorithms/node_sum.hpp>

namespace distdl::comm {
namespace {

/// Operands and results of the node's ranks lie in shared memory: the carrier of a partition reads and writes them.
class DirectNodeSum : public NodeSum {
 public:
  using NodeSum::NodeSum;

  void run() override {
    if (!alone()) build_.open_memory();
    NodeSum::run();
    if (!alone()) build_.await_all(build_.signal());
  }

 protected:
  void prepare(std::size_t t) override {
    for (std::size_t partition : carried())
      for (int owner : owners(partition)) {
        const bool only_own = owner == group() && !can_double() && !(is_short(partition) && others_want_all());
        for (std::size_t k : own_sums()) {
          if (only_own || is_operand(k)) continue;  // an own piece is added straight from the operands
          std::vector<Block> blocks;
          for (const Term& term : sums()[k].terms)
            blocks.push_back(build_.input_of(term.rank, owned(partition, owner, t), term.part));
          const Block target = prepared(partition, k, owner, t);
          build_.reduce(operands(blocks, reductions_within(sums()[k])), {&target, 1}, false);
        }
      }
  }

  void add_own(std::size_t partition, std::size_t k, std::size_t t, std::vector<Block>& blocks,
               std::vector<LeafRange>& leaves) const override {
    for (const Term& term : sums()[k].terms) {
      blocks.push_back(build_.input_of(term.rank, owned(partition, group(), t), term.part));
      leaves.push_back(term.leaves);
    }
  }

  std::vector<Block> targets(std::size_t partition, std::size_t t) const override {
    std::vector<Block> all;
    if (has_output() || !wants_all(group())) all.push_back(place(partition, group(), t));
    if (wants_all(group())) add_node_ranks(owned(partition, group(), t), all);
    return all;
  }

  void finish(std::size_t t) override {
    for (std::size_t partition : carried())
      for (int owner = 0; owner < groups() && wants_all(group()) && !is_short(partition); ++owner) {
        if (owner == group()) continue;
        std::vector<Block> others;
        add_node_ranks(owned(partition, owner, t), others);
        const Operand source{place(partition, owner, t), 0};
        build_.reduce({&source, 1}, others, false);
      }
  }

 private:
  void add_node_ranks(Piece piece, std::vector<Block>& blocks) const {
    for (int q : ranks())
      if (q != build_.rank() && (build_.problem().collective == Collective::all_reduce || q == build_.problem().root))
        blocks.push_back(build_.output_of(q, piece));
  }
};

}  // namespace

void direct_node_sum(ScheduleBuilder& build) {
  DirectNodeSum(build, Nodes(build.problem())).run();
}

}  // namespace distdl::comm
