// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <distdl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distdl::capi {

/// A call that must succeed.
#define DISTDL_SUCCEEDS(call) ASSERT_EQ(DISTDL_OK, call) << distdl_error_text()

/// Expects that a call has failed with this code, and a text that contains all of `words`.
inline void expect_error(int code, int expected, const std::vector<std::string>& words) {
  EXPECT_EQ(expected, code) << distdl_error_text();
  for (const auto& word : words) EXPECT_THAT(distdl_error_text(), testing::HasSubstr(word));
}

class CApiTest : public testing::Test {
 public:
  CApiTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "distdl-capi-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~CApiTest() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  /// The ranks are threads, with a communicator each, which is closed at the end.
  void on_ranks(int size, const std::function<void(distdl_comm*)>& body) {
    const std::string id = "meeting-" + std::to_string(++meetings_);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        distdl_comm* comm = nullptr;
        DISTDL_SUCCEEDS(
            distdl_comm_create_folder(path("meetings").c_str(), id.c_str(), rank, size, options().c_str(), &comm));
        body(comm);
        DISTDL_SUCCEEDS(distdl_comm_close(comm));
      });
    for (auto& thread : threads) thread.join();
  }
  static std::string options() { return "comm.interface=lo; comm.timeout_seconds=60"; }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
  std::atomic<int> meetings_ = 0;
};

inline int rank_of(distdl_comm* comm) {
  int rank = -1;
  EXPECT_EQ(DISTDL_OK, distdl_comm_rank(comm, &rank));
  return rank;
}
inline int size_of(distdl_comm* comm) {
  int size = 0;
  EXPECT_EQ(DISTDL_OK, distdl_comm_size(comm, &size));
  return size;
}

}  // namespace distdl::capi
