// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <functional>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/capi/capi_fixture.hpp"

namespace distdl::capi {
namespace {

/// Errors of callers end in a code and a text that names the function and the argument.
class Misuse : public CApiTest {
 public:
  Misuse() { EXPECT_EQ(DISTDL_OK, distdl_comm_create("comm.interface=lo", &comm_)) << distdl_error_text(); }
  ~Misuse() override { EXPECT_EQ(DISTDL_OK, distdl_comm_close(comm_)) << distdl_error_text(); }

 protected:
  distdl_comm* comm_ = nullptr;
  float value_ = 0;
};

TEST_F(Misuse, OfNullPointers) {
  float* const nothing = nullptr;
  const std::int64_t shape = 1;
  distdl_comm* comm = nullptr;
  expect_error(distdl_comm_create("", nullptr), DISTDL_INVALID, {"distdl_comm_create", "comm is null"});
  expect_error(distdl_comm_create_folder(nullptr, "a", 0, 1, "", &comm), DISTDL_INVALID, {"folder is null"});
  expect_error(distdl_comm_rank(nullptr, nullptr), DISTDL_INVALID, {"distdl_comm_rank"});
  expect_error(distdl_comm_rank(comm_, nullptr), DISTDL_INVALID, {"rank is null"});
  expect_error(distdl_barrier(nullptr, nullptr), DISTDL_INVALID, {"distdl_barrier", "comm is null"});
  expect_error(distdl_all_reduce(comm_, nothing, nothing, 1, DISTDL_F32, DISTDL_SUM, nullptr), DISTDL_INVALID,
               {"distdl_all_reduce", "result is null"});
  expect_error(distdl_broadcast(comm_, nothing, 1, DISTDL_F32, 0, nullptr), DISTDL_INVALID, {"values is null"});
  expect_error(distdl_send(comm_, nothing, 1, 0, 0, nullptr), DISTDL_INVALID, {"data is null"});
  expect_error(distdl_wait(nullptr, -1), DISTDL_INVALID, {"distdl_wait", "request is null"});
  expect_error(distdl_test(nullptr, nullptr), DISTDL_INVALID, {"distdl_test", "done is null"});
  expect_error(distdl_store_open(nullptr, nullptr, "", nullptr), DISTDL_INVALID, {"store is null"});
  expect_error(distdl_store_outcome(nullptr, nullptr), DISTDL_INVALID, {"outcome is null"});
  expect_error(distdl_load_open(path("x").c_str(), -1, nullptr), DISTDL_INVALID, {"load is null"});
  expect_error(distdl_should_stop(nullptr), DISTDL_INVALID, {"distdl_should_stop", "stop is null"});
  expect_error(distdl_progress_with(1, 2, 1, nullptr, nullptr), DISTDL_INVALID, {"distdl_progress_with"});
  distdl_store* store = nullptr;
  distdl_save* save = nullptr;
  DISTDL_SUCCEEDS(distdl_store_open(path("s").c_str(), nullptr, "", &store));
  DISTDL_SUCCEEDS(distdl_save_begin(store, 1, &save));
  expect_error(distdl_save_add(save, nullptr, DISTDL_F32, 1, &shape, nullptr, nullptr, &value_), DISTDL_INVALID,
               {"distdl_save_add", "name is null"});
  expect_error(distdl_save_add(save, "a", DISTDL_F32, 1, nullptr, nullptr, nullptr, &value_), DISTDL_INVALID,
               {"shape is null"});
  expect_error(distdl_save_add(save, "a", DISTDL_F32, 1, &shape, nullptr, nullptr, nullptr), DISTDL_INVALID,
               {"data is null"});
  expect_error(distdl_store_close(store), DISTDL_STATE, {"1 saves or loads are open"});
  DISTDL_SUCCEEDS(distdl_save_discard(save));
  DISTDL_SUCCEEDS(distdl_store_close(store));
}

TEST_F(Misuse, OfClosedAndWrongHandles) {
  distdl_sum* sum = nullptr;
  distdl_request* request = nullptr;
  DISTDL_SUCCEEDS(distdl_sum_create(comm_, 1, DISTDL_F32, DISTDL_SUM, 1, 0, 1, &sum));
  expect_error(distdl_comm_close(comm_), DISTDL_STATE, {"1 communicators, sums or stores"});
  expect_error(distdl_sum_add(reinterpret_cast<distdl_sum*>(comm_), &value_), DISTDL_INVALID,
               {"sum is a communicator, but must be a sum"});
  expect_error(distdl_sum_add(reinterpret_cast<distdl_sum*>(&value_), &value_), DISTDL_INVALID, {"no handle"});
  expect_error(distdl_sum_add(reinterpret_cast<distdl_sum*>(8), &value_), DISTDL_INVALID, {"no handle"});
  DISTDL_SUCCEEDS(distdl_sum_close(sum));
  expect_error(distdl_sum_close(sum), DISTDL_INVALID, {"distdl_sum_close", "sum was closed"});
  expect_error(distdl_sum_add(sum, &value_), DISTDL_INVALID, {"sum was closed"});
  DISTDL_SUCCEEDS(distdl_barrier(comm_, &request));
  distdl_request* copy = request;
  expect_error(distdl_comm_close(comm_), DISTDL_STATE, {"1 requests"});
  DISTDL_SUCCEEDS(distdl_cancel(&request));
  expect_error(distdl_wait(&copy, -1), DISTDL_INVALID, {"request was closed"});
  distdl_comm* comm = nullptr;
  DISTDL_SUCCEEDS(distdl_comm_split(comm_, 0, 0, &comm));
  DISTDL_SUCCEEDS(distdl_comm_close(comm));
  expect_error(distdl_comm_close(comm), DISTDL_INVALID, {"comm was closed"});
}

TEST_F(Misuse, OfNumbers) {
  const auto all_reduce = [&](std::size_t count, int type, int reduction) {
    return distdl_all_reduce(comm_, &value_, &value_, count, type, reduction, nullptr);
  };
  expect_error(all_reduce(1, 12, DISTDL_SUM), DISTDL_INVALID, {"type is 12"});
  expect_error(all_reduce(1, -1, DISTDL_SUM), DISTDL_INVALID, {"type is -1"});
  expect_error(all_reduce(1, DISTDL_F32, 4), DISTDL_INVALID, {"reduction is 4"});
  expect_error(all_reduce(1, DISTDL_I32, DISTDL_AVERAGE), DISTDL_INVALID, {"average of int32"});
  expect_error(all_reduce(~std::size_t{0}, DISTDL_F32, DISTDL_SUM), DISTDL_INVALID, {"too many"});
  expect_error(distdl_broadcast(comm_, &value_, 1, DISTDL_F32, 1, nullptr), DISTDL_INVALID, {"root is 1", "1 ranks"});
  expect_error(distdl_send(comm_, &value_, 4, -1, 0, nullptr), DISTDL_INVALID, {"to is -1"});
  expect_error(distdl_receive(comm_, &value_, 4, 0, 1 << 28, nullptr), DISTDL_INVALID, {"tag"});
  expect_error(distdl_comm_abort(comm_, 1, "why"), DISTDL_INVALID, {"code is 1"});
  distdl_request* request = nullptr;
  expect_error(distdl_wait(&request, std::nan("")), DISTDL_INVALID, {"seconds"});
  distdl_comm* comm = nullptr;
  expect_error(distdl_comm_create_folder(path("m").c_str(), "a", 1, 1, "", &comm), DISTDL_INVALID, {"rank is 1"});
  expect_error(distdl_comm_create_folder(path("m").c_str(), "a/b", 0, 1, "", &comm), DISTDL_CONFIG, {"a/b"});
  distdl_sum* sum = nullptr;
  expect_error(distdl_sum_create(comm_, 1, DISTDL_I16, DISTDL_SUM, 1, 0, 1, &sum), DISTDL_INVALID, {"type is 8"});
  expect_error(distdl_receive_any(comm_, &value_, 4, 0, nullptr, nullptr), DISTDL_INVALID, {"comm has one rank"});
  expect_error(distdl_sum_create(comm_, 1, DISTDL_F32, DISTDL_MAX, 1, 0, 1, &sum), DISTDL_INVALID, {"reduction"});
  expect_error(distdl_sum_create(comm_, 1, DISTDL_F32, DISTDL_SUM, 0, 0, 1, &sum), DISTDL_INVALID, {"leaves is 0"});
  expect_error(distdl_sum_create(comm_, 1, DISTDL_F32, DISTDL_SUM, 2, 1, 2, &sum), DISTDL_INVALID, {"leaves 1 to 3"});
}

TEST_F(Misuse, OfShapesAndBoxes) {
  distdl_store* store = nullptr;
  distdl_save* save = nullptr;
  DISTDL_SUCCEEDS(distdl_store_open(path("s").c_str(), comm_, "", &store));
  DISTDL_SUCCEEDS(distdl_save_begin(store, 1, &save));
  const auto add = [&](int dimensions, std::int64_t shape, std::int64_t offset, std::int64_t extent) {
    return distdl_save_add(save, "a", DISTDL_F32, dimensions, &shape, &offset, &extent, &value_);
  };
  expect_error(add(-1, 1, 0, 1), DISTDL_INVALID, {"dimensions is -1"});
  expect_error(add(99, 1, 0, 1), DISTDL_INVALID, {"dimensions is 99"});
  expect_error(add(1, -1, 0, 1), DISTDL_INVALID, {"shape[0] is -1"});
  const std::int64_t two = 2;
  expect_error(distdl_save_add(save, "a", 12, 1, &two, nullptr, nullptr, &value_), DISTDL_INVALID,
               {"type is 12, which is none"});
  expect_error(distdl_save_add(save, "a", DISTDL_C64, 1, &two, nullptr, nullptr, nullptr), DISTDL_INVALID,
               {"data is null"});
  expect_error(add(1, 4, 3, 2), DISTDL_INVALID, {"offset[0] + extent[0] is 3 + 2, but the array has 4"});
  expect_error(distdl_save_add_bytes(save, "", "a", 1), DISTDL_INVALID, {"name is empty"});
  expect_error(distdl_save_commit(save, 7), DISTDL_INVALID, {"how is 7"});
  expect_error(distdl_save_commit(save, DISTDL_SNAPSHOT), DISTDL_INVALID, {"no snapshots"});
  const std::int64_t one = 1;
  DISTDL_SUCCEEDS(distdl_save_add_replicated(save, "a", DISTDL_F32, 1, &one, &value_));
  DISTDL_SUCCEEDS(distdl_save_commit(save, DISTDL_NOW));
  distdl_load* load = nullptr;
  DISTDL_SUCCEEDS(distdl_load_begin(store, -1, &load));
  expect_error(distdl_load_add(load, "b", DISTDL_F32, nullptr, nullptr, &value_), DISTDL_NOT_FOUND, {"\"b\""});
  expect_error(distdl_load_add(load, "a", DISTDL_F64, nullptr, nullptr, &value_), DISTDL_INCOMPATIBLE,
               {"float32, not float64"});
  expect_error(distdl_load_add(load, "a", DISTDL_F32, &one, nullptr, &value_), DISTDL_INVALID, {"one is null"});
  expect_error(distdl_load_add(load, "a", DISTDL_F32, &one, &one, &value_), DISTDL_INVALID, {"offset[0]"});
  expect_error(distdl_load_array(load, 1, nullptr, nullptr, nullptr, nullptr, 0), DISTDL_INVALID, {"number is 1"});
  DISTDL_SUCCEEDS(distdl_load_close(load));
  DISTDL_SUCCEEDS(distdl_store_close(store));
}

TEST_F(Misuse, OfOptions) {
  distdl_comm* comm = nullptr;
  distdl_store* store = nullptr;
  const auto open = [&](const char* options) { return distdl_store_open(path("s").c_str(), nullptr, options, &store); };
  expect_error(distdl_comm_create("comm.timeout_second=1", &comm), DISTDL_CONFIG,
               {"there is no option \"comm.timeout_second\"; is \"comm.timeout_seconds\" meant?"});
  expect_error(distdl_comm_create("comm.timeout_seconds=soon", &comm), DISTDL_CONFIG, {"must be a number"});
  expect_error(distdl_comm_create("comm.timeout_seconds", &comm), DISTDL_CONFIG, {"has no \"=\""});
  expect_error(distdl_comm_create("comm.timeout_seconds=-1", &comm), DISTDL_CONFIG, {"comm.timeout_seconds"});
  expect_error(open("checkpoint.keep=1"), DISTDL_CONFIG, {"checkpoint.keep is 1"});
  expect_error(open("checkpoint.keep=2.5"), DISTDL_CONFIG, {"must be a whole number"});
  expect_error(open("checkpoint.mode=fast"), DISTDL_CONFIG, {"\"async\", \"lazy\" or \"sync\""});
  expect_error(open("checkpoint.verify_after_write=yes"), DISTDL_CONFIG, {"true or false"});
  expect_error(distdl_store_open(nullptr, nullptr, "", &store), DISTDL_INVALID, {"DISTDL_RUN_DIR"});
  expect_error(distdl_store_open("/proc/none", nullptr, "", &store), DISTDL_STORAGE, {"/proc/none"});
}

TEST_F(Misuse, OfAHandleAfterFork) {
  const ::pid_t child = ::fork();
  if (child == 0) ::_exit(distdl_barrier(comm_, nullptr) == DISTDL_STATE ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(0, status);
}

/// Of one process: none of the calls waits for another rank.
TEST_F(Misuse, OfHandlesThatOtherThreadsClose) {
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    distdl_comm* comm = nullptr;
    distdl_store* store = nullptr;
    distdl_sum* sum = nullptr;
    distdl_save* save = nullptr;
    DISTDL_SUCCEEDS(distdl_comm_create("comm.interface=lo", &comm));
    DISTDL_SUCCEEDS(distdl_store_open(path("threads").c_str(), comm, "", &store));
    DISTDL_SUCCEEDS(distdl_save_begin(store, round, &save));
    DISTDL_SUCCEEDS(distdl_sum_create(comm, 4, DISTDL_F32, DISTDL_SUM, 8, 0, 8, &sum));
    const std::array<float, 4> values{1, 2, 3, 4};
    const std::int64_t shape = 4;
    const auto refused_or_done = [](int code) {
      EXPECT_TRUE(code == DISTDL_OK || code == DISTDL_INVALID || code == DISTDL_STATE || code == DISTDL_BUSY)
          << code << ' ' << distdl_error_text();
    };
    const std::vector<std::function<void()>> calls{
        [&] { refused_or_done(distdl_barrier(comm, nullptr)); },
        [&] {
          float total = 1;
          distdl_request* request = nullptr;
          refused_or_done(distdl_all_reduce(comm, nullptr, &total, 1, DISTDL_F32, DISTDL_SUM, &request));
          refused_or_done(distdl_wait(&request, 1));
        },
        [&] { refused_or_done(distdl_sum_add(sum, values.data())); },
        [&] { refused_or_done(distdl_save_add(save, "a", DISTDL_F32, 1, &shape, nullptr, nullptr, values.data())); },
        [&] { refused_or_done(distdl_save_commit(save, DISTDL_BESIDE)); },
        [&] { refused_or_done(distdl_save_discard(save)); },
        [&] { refused_or_done(distdl_sum_close(sum)); },
        [&] { refused_or_done(distdl_store_close(store)); },
        [&] { refused_or_done(distdl_comm_close(comm)); }};
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < 3; ++first)
      threads.emplace_back([&, first] {
        for (std::size_t i = 0; i < calls.size(); ++i) calls[(i + 3 * first) % calls.size()]();
      });
    for (auto& thread : threads) thread.join();
    for (const auto close : {calls.size() - 4, calls.size() - 3, calls.size() - 2, calls.size() - 1}) calls[close]();
    expect_error(distdl_barrier(comm, nullptr), DISTDL_INVALID, {"comm"});
    expect_error(distdl_store_wait(store), DISTDL_INVALID, {"store"});
  }
}

TEST_F(Misuse, IsToldPerThread) {
  expect_error(distdl_barrier(nullptr, nullptr), DISTDL_INVALID, {"distdl_barrier"});
  std::thread([] {
    EXPECT_STREQ("", distdl_error_text());
    EXPECT_EQ(0, distdl_error_exit_code());
  }).join();
  EXPECT_THAT(distdl_error_text(), testing::HasSubstr("distdl_barrier"));
  EXPECT_STREQ("invalid argument", distdl_code_name(DISTDL_INVALID));
  EXPECT_STREQ("peer lost", distdl_code_name(69));
  EXPECT_STREQ("unknown", distdl_code_name(1000));
  EXPECT_EQ(0U, distdl_type_size(99));
}

TEST_F(Misuse, IsNotToTellANonexistentRun) {
  int started = 1, stop = 1;
  double seconds = 0;
  DISTDL_SUCCEEDS(distdl_started(&started));
  DISTDL_SUCCEEDS(distdl_should_stop(&stop));
  DISTDL_SUCCEEDS(distdl_progress(1, 0));
  DISTDL_SUCCEEDS(distdl_saved(1, -1));
  DISTDL_SUCCEEDS(distdl_seconds_left(&seconds));
  DISTDL_SUCCEEDS(distdl_finished());
  EXPECT_EQ(0, started);
  EXPECT_EQ(0, stop);
  EXPECT_TRUE(std::isinf(seconds));
}

}  // namespace
}  // namespace distdl::capi
