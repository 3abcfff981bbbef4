// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <deque>
#include <fstream>
#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "tests/checkpoint/sample.hpp"
#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/redundancy.hpp>

// Nodes are simulated on this one: each has a name of its own for its slots in /dev/shm, and its own "local disk".
namespace distdl::checkpoint {
namespace {

using Bytes = std::vector<std::byte>;

/// Boxes of letters between ranks that are threads.
class Post {
 public:
  void put(int from, int to, std::span<const std::byte> bytes) {
    std::lock_guard lock(mutex_);
    letters_[{from, to}].emplace_back(bytes.begin(), bytes.end());
    arrived_.notify_all();
  }
  void take(int from, int to, std::span<std::byte> bytes) {
    std::unique_lock lock(mutex_);
    auto& box = letters_[{from, to}];
    if (!arrived_.wait_for(lock, std::chrono::seconds(30), [&] { return !box.empty(); }))
      throw StorageError("no letter came");
    ASSERT_EQ(box.front().size(), bytes.size());
    std::copy(box.front().begin(), box.front().end(), bytes.begin());
    box.pop_front();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::deque<Bytes>> letters_;
};

/// With letters for what is carried.
class PostGroup final : public Group {
 public:
  PostGroup(Group& group, Post& post) : group_(group), post_(post) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::vector<std::string> all_gather(const std::string& mine) override { return group_.all_gather(mine); }
  void carry(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    for (const Outgoing& one : out) post_.put(rank(), one.to, one.bytes);
    for (const Incoming& one : in) post_.take(one.from, rank(), one.bytes);
  }

 private:
  Group& group_;
  Post& post_;
};

/// Simulated nodes with what they keep, for one test.
class Site {
 public:
  Site() : run_("levels" + std::to_string(::getpid()) + "_" + std::to_string(next_++)) {}
  ~Site() {
    for (const auto& name : names()) ::unlink(("/dev/shm/" + name).c_str());
  }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  Levels::Setup setup(const std::string& node) const {
    Levels::Setup setup;
    setup.run = run_;
    setup.memory = run_ + "_" + node + "_";
    setup.place = {node, ""};
    setup.parity_set = parity_set;
    if (disk) setup.disk = folder_.path() / node;
    return setup;
  }
  std::string memory_of(const std::string& node) const { return setup(node).memory; }
  std::filesystem::path disk_of(const std::string& node) const { return folder_.path() / node; }
  SlotLabel label(int rank, int world, Step step) const { return {run_, rank, world, step, 7}; }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      if (entry.path().filename().string().find(run_ + "_") != std::string::npos)
        found.insert(entry.path().filename().string());
    return found;
  }
  void remove_all_but(const std::set<std::string>& kept) const {
    for (const auto& name : names())
      if (!kept.contains(name)) ::unlink(("/dev/shm/" + name).c_str());
  }

  int parity_set = 8;
  bool disk = false;

 private:
  static inline int next_ = 0;
  std::string run_;
  TemporaryFolder folder_;
};

/// Ranks of a world on these nodes, each with its Levels.
void run_on(const Site& site, const std::vector<std::string>& nodes,
            const std::function<void(Levels&, int rank, const std::string& node)>& work) {
  Post post;
  ThreadGroups groups(static_cast<int>(nodes.size()));
  const auto errors = groups.run([&](Group& group) {
    PostGroup with_post(group, post);
    const std::string& node = nodes[static_cast<std::size_t>(group.rank())];
    Levels levels(with_post, real_file_system(), site.setup(node));
    work(levels, group.rank(), node);
  });
  for (const auto& error : errors)
    if (!error.empty()) throw std::runtime_error(error);
}

/// Each rank fills a slot in its node's memory with its share, and protects it.
void save(const Site& site, const std::vector<std::string>& nodes, const Sample& sample, Step step,
          const Protection& how) {
  run_on(site, nodes, [&](Levels& levels, int rank, const std::string& node) {
    const int world = static_cast<int>(nodes.size());
    const Share share = share_of(sample, rank, world);
    const State state{{"position", "77"}};
    SlotMemory own = SlotMemory::create(site.memory_of(node), rank, slot_bytes(share.slices, state));
    fill_slot(own.writable(), site.label(rank, world, step), share.slices, state);
    levels.protect(own.bytes(), how);
  });
}

/// What ranks on these nodes get back; nothing if there is no step to go back to. All must get the same.
std::optional<Step> restore(const Site& site, const std::vector<std::string>& nodes, const Sample& sample,
                            std::vector<Source>* sources = nullptr) {
  std::mutex mutex;
  std::optional<Step> step;
  run_on(site, nodes, [&](Levels& levels, int rank, const std::string&) {
    const auto plan = levels.find();
    if (!plan) return;
    std::vector<Bytes> memory;
    std::vector<Target> targets;
    for (const SampleTensor& tensor : sample) {
      memory.emplace_back(tensor.bytes.size());
      const auto& [name, dtype, shape] = tensor.entry;
      targets.push_back({name, dtype, shape, tensor::whole(shape), memory.back().data()});
    }
    State state;
    const auto reports = levels.restore(*plan, targets, state);
    std::lock_guard lock(mutex);
    EXPECT_EQ(state.at("position"), "77");
    for (std::size_t i = 0; i < sample.size(); ++i) EXPECT_EQ(memory[i], sample[i].bytes) << sample[i].entry.name;
    step = plan->step;
    if (sources && rank == 0)
      for (const auto& report : reports) sources->push_back(report.source);
  });
  return step;
}

std::vector<std::string> names_of(int nodes, int ranks_each = 1) {
  std::vector<std::string> names;
  for (int n = 0; n < nodes; ++n)
    for (int r = 0; r < ranks_each; ++r) names.push_back("n" + std::to_string(n));
  return names;
}

/// Worked out anew, from the promise alone: does every snapshot survive the loss of these nodes?
bool promised(const std::vector<std::string>& nodes, const std::set<std::string>& lost, const Protection& how,
              int parity_set) {
  const auto alive = [&](int rank) { return !lost.contains(nodes[static_cast<std::size_t>(rank)]); };
  const auto partners = partners_of(nodes);
  std::vector<bool> there;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank)
    there.push_back(alive(static_cast<int>(rank)) || (how.partner && partners[rank] >= 0 && alive(partners[rank])));
  std::vector<bool> all = there;
  if (how.parity)
    for (const auto& set : parity_sets(nodes, parity_set))
      for (int rank : set) {
        bool others = true;
        for (int other : set)
          if (other != rank) others = others && there[static_cast<std::size_t>(other)] && alive(other);
        if (others) all[static_cast<std::size_t>(rank)] = true;
      }
  return std::all_of(all.begin(), all.end(), [](bool one) { return one; });
}

struct Case {
  int nodes, ranks_each, parity_set;
  Protection how;
};

class LostNodes : public testing::TestWithParam<Case> {};

/// R1: every set of lost nodes; the rest goes on alone, or with fresh nodes in their place.
TEST_P(LostNodes, GiveBackEverythingWithinThePromiseAndRefuseBeyond) {
  const Case& param = GetParam();
  Site site;
  site.parity_set = param.parity_set;
  const Sample sample = make_sample(3);
  const auto nodes = names_of(param.nodes, param.ranks_each);
  save(site, nodes, sample, Step(40), param.how);
  const auto kept = site.names();
  int within = 0, beyond = 0;
  for (unsigned mask = 0; mask + 1 < 1U << param.nodes; ++mask) {
    std::set<std::string> lost;
    std::vector<std::string> rest, replaced = nodes;
    for (int n = 0; n < param.nodes; ++n)
      if (mask >> n & 1U) lost.insert("n" + std::to_string(n));
    for (auto& node : replaced) {
      if (!lost.contains(node)) rest.push_back(node);
      if (lost.contains(node)) node = "fresh_" + node;
    }
    const bool expected = promised(nodes, lost, param.how, param.parity_set);
    ++(expected ? within : beyond);
    for (const auto& present : {rest, replaced}) {
      const auto step = restore(site, present, sample);
      EXPECT_EQ(step, expected ? std::optional(Step(40)) : std::nullopt) << "lost nodes: mask " << mask;
      site.remove_all_but(kept);
    }
  }
  std::cout << within << " sets of lost nodes within the promise, " << beyond << " beyond\n";
  EXPECT_GT(within, param.nodes);
}

INSTANTIATE_TEST_SUITE_P(Exhaustive, LostNodes,
                         testing::Values(Case{2, 1, 8, {true, false, false}}, Case{2, 2, 8, {false, true, false}},
                                         Case{3, 2, 8, {true, false, false}}, Case{5, 1, 3, {false, true, false}},
                                         Case{8, 1, 8, {true, false, false}}, Case{8, 1, 8, {false, true, false}},
                                         Case{8, 1, 4, {false, true, false}}, Case{8, 1, 4, {true, true, false}}));

TEST(Levels, PreferTheNodesOwnMemory) {
  Site site;
  const Sample sample = make_sample(3);
  save(site, names_of(3), sample, Step(40), {true, true, false});
  std::vector<Source> sources;
  EXPECT_EQ(restore(site, names_of(3), sample, &sources), Step(40));
  EXPECT_EQ(sources, std::vector(3, Source::memory));
}

TEST(Levels, TakeThePartnersCopyBeforeParity) {
  Site site;
  const Sample sample = make_sample(3);
  save(site, names_of(3), sample, Step(40), {true, true, false});
  std::vector<Source> sources;
  EXPECT_EQ(restore(site, {"n0", "fresh", "n2"}, sample, &sources), Step(40));
  EXPECT_EQ(sources, (std::vector{Source::memory, Source::partner, Source::memory}));
}

TEST(Levels, ComeBackFromLocalDisksWhenAllMemoryIsGone) {
  Site site;
  site.disk = true;
  const Sample sample = make_sample(3);
  save(site, names_of(3), sample, Step(40), {true, false, true});
  site.remove_all_but({});
  std::vector<Source> sources;
  EXPECT_EQ(restore(site, names_of(3), sample, &sources), Step(40));
  EXPECT_EQ(sources, std::vector(3, Source::disk));
}

TEST(Levels, GoBackToTheStepThatAllHave) {
  Site site;
  site.disk = true;
  const Sample old = make_sample(3), recent = make_sample(4);
  save(site, names_of(3), old, Step(40), {false, false, true});
  save(site, names_of(3), recent, Step(50), {});
  const auto kept = site.names();
  EXPECT_EQ(restore(site, names_of(3), recent), Step(50));
  site.remove_all_but(kept);  // a restore leaves more copies
  for (const auto& name : slots_of(site.memory_of("n1"))) ::unlink(("/dev/shm/" + name).c_str());
  EXPECT_EQ(restore(site, names_of(3), old), Step(40));
}

/// Changes a byte of the first tensor of a slot.
void damage(const std::string& name) {
  const SlotMemory memory = SlotMemory::open(name);
  const auto* first = open_slot(memory.bytes()).slices.at(0).bytes;
  std::fstream stream("/dev/shm/" + name, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(first - memory.bytes().data());
  const int byte = stream.peek();
  stream.put(static_cast<char>(byte ^ 1));
  ASSERT_TRUE(stream.flush());
}

TEST(Levels, SeeDamageAndTakeTheNextSource) {
  Site site;
  const Sample sample = make_sample(3);
  save(site, names_of(3), sample, Step(40), {true, true, false});
  const auto kept = site.names();
  const auto hurt = [&](const std::string& node, int rank) {
    const auto found = slots_of(site.memory_of(node), rank);
    ASSERT_FALSE(found.empty());
    for (const auto& name : found) damage(name);
  };
  hurt("n1", 1);  // its own snapshot, and its parity
  std::vector<Source> sources;
  EXPECT_EQ(restore(site, names_of(3), sample, &sources), Step(40));
  EXPECT_EQ(sources[1], Source::partner);
  site.remove_all_but(kept);
  hurt("n2", 1);  // the copy, too: its parity is lost, the others' are enough
  sources.clear();
  EXPECT_EQ(restore(site, names_of(3), sample, &sources), Step(40));
  EXPECT_EQ(sources[1], Source::parity);
  site.remove_all_but(kept);
  hurt("n0", 0);
  EXPECT_EQ(restore(site, names_of(3), sample), std::nullopt);
}

TEST(Levels, LeaveNothingOfOlderStepsBehind) {
  Site site;
  site.disk = true;
  const Sample sample = make_sample(3);
  const Protection all{true, true, true};
  save(site, names_of(3), sample, Step(40), all);
  const auto count = site.names().size();
  save(site, names_of(3), sample, Step(50), all);
  EXPECT_EQ(site.names().size(), count);
  for (const auto& node : names_of(3)) {
    const auto files = std::distance(std::filesystem::directory_iterator(site.disk_of(node)), {});
    EXPECT_EQ(files, 1);
  }
}

TEST(Levels, ForgetWhatIsNewerThanTheStepThatWasRestored) {
  Site site;
  site.disk = true;
  const Sample sample = make_sample(3);
  save(site, names_of(2), sample, Step(40), {true, true, true});
  run_on(site, names_of(2), [](Levels& levels, int, const std::string&) { levels.keep_only(Step(30)); });
  EXPECT_EQ(site.names().size(), 0U);
  EXPECT_EQ(restore(site, names_of(2), sample), std::nullopt);
}

TEST(Levels, RefuseTensorsOfAnotherShape) {
  Site site;
  Sample sample = make_sample(3);
  save(site, names_of(2), sample, Step(40), {true, false, false});
  sample[0].entry.shape = {8, 3, 25};
  try {
    restore(site, names_of(2), sample);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("momentum/conv1.weight"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace distdl::checkpoint
