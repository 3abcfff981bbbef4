// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>

#include <pmix.h>

#include <distdl/base/errors.hpp>
#include <distdl/world/pmix_world.hpp>

namespace distdl::world {
namespace {

constexpr const char* kKey = "distdl.card";

void check(pmix_status_t status, std::string_view call) {
  if (status != PMIX_SUCCESS) throw SchedulerError(fmt::format("{}: {}", call, PMIx_Error_string(status)));
}

/// The connection to the PMIx server of this node.
class Connection {
 public:
  explicit Connection(const pmix_proc_t& self) : self_(self) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  // A process that ends without PMIx_Finalize takes its Slurm step along.
  ~Connection() {
    if (connected_) PMIx_Finalize(nullptr, 0);
  }

  const pmix_proc_t& self() const { return self_; }

  int job_size() const {
    const pmix_proc_t everyone = process(PMIX_RANK_WILDCARD);
    pmix_value_t* value = nullptr;
    check(PMIx_Get(&everyone, PMIX_JOB_SIZE, nullptr, 0, &value), "PMIx_Get of the job size");
    const std::uint32_t size = value->type == PMIX_UINT32 ? value->data.uint32 : 0;
    PMIX_VALUE_RELEASE(value);
    require<SchedulerError>(size > 0, "PMIx_Get of the job size: not a positive number");
    return static_cast<int>(size);
  }

  void put(const std::string& blob) const {
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = const_cast<char*>(blob.data());  // PMIx_Put copies
    value.data.bo.size = blob.size();
    check(PMIx_Put(PMIX_GLOBAL, kKey, &value), "PMIx_Put");
    check(PMIx_Commit(), "PMIx_Commit");
  }

  /// With data: a Get without it can say NOT-FOUND even for a rank of the same node.
  pmix_status_t fence(int seconds) const {
    const pmix_proc_t everyone = process(PMIX_RANK_WILDCARD);
    const bool collect = true;
    pmix_info_t info[2];
    PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    return PMIx_Fence(&everyone, 1, info, 2);
  }

  std::string get(int rank, int seconds) const {
    const pmix_proc_t peer = process(static_cast<pmix_rank_t>(rank));
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
    pmix_value_t* value = nullptr;
    check(PMIx_Get(&peer, kKey, &info, 1, &value), fmt::format("PMIx_Get of the address of rank {}", rank));
    std::optional<std::string> blob;
    if (value->type == PMIX_BYTE_OBJECT) blob.emplace(value->data.bo.bytes, value->data.bo.size);
    PMIX_VALUE_RELEASE(value);
    require<SchedulerError>(blob.has_value(), "PMIx_Get of the address of rank {}: not a byte object", rank);
    return *blob;
  }

  void finalize() {
    connected_ = false;
    check(PMIx_Finalize(nullptr, 0), "PMIx_Finalize");
  }

 private:
  pmix_proc_t process(pmix_rank_t rank) const {
    pmix_proc_t other = self_;
    other.rank = rank;
    return other;
  }

  pmix_proc_t self_;
  bool connected_ = true;
};

class PmixWorld : public World {
 public:
  explicit PmixWorld(const pmix_proc_t& self) : connection_(self), size_(connection_.job_size()) {}
  Rank rank() const override { return Rank(static_cast<int>(connection_.self().rank)); }
  int size() const override { return size_; }
  std::string description() const override { return fmt::format("PMIx ({})", connection_.self().nspace); }

  std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds timeout) override {
    const int seconds = static_cast<int>((timeout.count() + 999) / 1000);
    connection_.put(mine);
    const pmix_status_t status = connection_.fence(seconds);
    require<SchedulerError>(
        status == PMIX_SUCCESS,
        "not all of {} ranks reached the rendezvous within {} s (PMIx_Fence: {}); PMIx does not report which ones "
        "are missing: see the output of the others",
        size_, seconds, PMIx_Error_string(status));
    std::vector<std::string> all;
    for (int r = 0; r < size_; ++r) all.push_back(connection_.get(r, seconds));
    connection_.finalize();
    return all;
  }

 private:
  Connection connection_;
  int size_;
};

}  // namespace

std::unique_ptr<World> connect_pmix_world() {
  pmix_proc_t self;
  PMIX_PROC_CONSTRUCT(&self);
  const pmix_status_t status = PMIx_Init(&self, nullptr, 0);
  if (status == PMIX_ERR_UNREACH) return nullptr;
  check(status, "PMIx_Init");
  return std::make_unique<PmixWorld>(self);
}

}  // namespace distdl::world
