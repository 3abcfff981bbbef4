// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <barrier>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <distdl/checkpoint/group.hpp>

namespace distdl::checkpoint {

/// Ranks as threads: each gets a Group whose all_gather is a shared table and a barrier.
class ThreadGroups {
 public:
  explicit ThreadGroups(int size) : strings_(static_cast<std::size_t>(size)), barrier_(size) {}

  /// One rank's group, for a thread that run() did not start.
  std::unique_ptr<Group> member(int rank) { return std::make_unique<Member>(*this, rank); }

  /// Runs `work` on each rank; returns what each threw, empty where it threw nothing. Ranks must fail alike.
  std::vector<std::string> run(const std::function<void(Group&)>& work) {
    std::vector<std::string> errors(strings_.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < strings_.size(); ++rank)
      threads.emplace_back([this, rank, &work, &errors] {
        Member member(*this, static_cast<int>(rank));
        try {
          work(member);
        } catch (const std::exception& error) {
          errors[rank] = error.what();
        }
      });
    for (auto& thread : threads) thread.join();
    return errors;
  }

 private:
  class Member final : public Group {
   public:
    Member(ThreadGroups& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(all_.strings_.size()); }
    std::vector<std::string> all_gather(const std::string& mine) override {
      all_.strings_[static_cast<std::size_t>(rank_)] = mine;
      all_.barrier_.arrive_and_wait();
      std::vector<std::string> result = all_.strings_;
      all_.barrier_.arrive_and_wait();
      return result;
    }

   private:
    ThreadGroups& all_;
    int rank_;
  };

  std::vector<std::string> strings_;
  std::barrier<> barrier_;
};

}  // namespace distdl::checkpoint
