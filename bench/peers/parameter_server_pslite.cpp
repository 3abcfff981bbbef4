// SPDX-License-Identifier: Apache-2.0
// A parameter server of ps-lite, for bench/parameter_server_two_nodes, which builds it: parameter_server_pslite RANK
// HOST PORT. HOST and PORT are those of rank 0, which has the worker and the scheduler; rank 1 has the server. Rank 0
// reads lines "measure BYTES SECONDS" and answers "times T1 T2 ...": seconds of a pull of BYTES of parameters and a
// push of as many bytes of gradients, which the server adds, each the mean of a block. It ends with its input.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <ps/ps.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {
using Floats = ps::SArray<char>;
constexpr int kBlocks = 5;

Floats floats_of(std::size_t bytes, float value) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, 4096, bytes) != 0) std::abort();
  std::fill_n(static_cast<float*>(memory), bytes / sizeof(float), value);
  Floats floats;
  floats.reset(static_cast<char*>(memory), bytes, [](char* all) { std::free(all); });
  return floats;
}

/// Adds what is pushed. The first push of a key makes it.
void serve(const ps::KVMeta& meta, const ps::KVPairs<char>& data, ps::KVServer<char>* server) {
  static std::map<ps::Key, ps::KVPairs<char>> all;
  const ps::Key key = data.keys[0];
  if (!meta.push) return server->Response(meta, all.at(key));
  const std::size_t bytes = data.vals.size();
  if (all.count(key) == 0) {
    auto& own = all[key];
    own.keys.push_back(key);
    own.vals = floats_of(bytes, 0);
    own.lens.push_back(static_cast<int>(bytes));
  } else {
    auto* const sums = reinterpret_cast<float*>(all[key].vals.data());
    const auto* const gradients = reinterpret_cast<const float*>(data.vals.data());
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i) sums[i] += gradients[i];
  }
  server->Response(meta, {});
}

class Measurement {
 public:
  Measurement(ps::KVWorker<char>& worker, ps::Key key, std::size_t bytes)
      : worker_(worker), gradients_(floats_of(bytes, 1)), parameters_(floats_of(bytes, 0)) {
    keys_.push_back(key);
    lengths_.push_back(static_cast<int>(bytes));
    worker_.Wait(worker_.ZPush(keys_, gradients_, lengths_));
  }

  std::vector<double> operator()(double seconds) {
    block(2);
    const auto pushes = std::max(2, static_cast<int>(seconds / kBlocks / block(2)));
    std::vector<double> times;
    for (int i = 0; i < kBlocks; ++i) times.push_back(block(pushes));
    return times;
  }

 private:
  double block(int pushes) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < pushes; ++i) {
      worker_.Wait(worker_.ZPull(keys_, &parameters_, &lengths_));
      if (reinterpret_cast<const float*>(parameters_.data() + parameters_.size())[-1] != pushed_++) std::abort();
      worker_.Wait(worker_.ZPush(keys_, gradients_, lengths_));
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / pushes;
  }

  ps::KVWorker<char>& worker_;
  ps::SArray<ps::Key> keys_;
  ps::SArray<int> lengths_;
  Floats gradients_, parameters_;
  float pushed_ = 0;
};

void answer_lines() {
  ps::KVWorker<char> worker(0, 0);
  ps::Key key = ps::Postoffice::Get()->GetServerKeyRanges()[0].begin();
  std::cout << "ready ps-lite over ZeroMQ" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string word;
    std::size_t bytes = 0;
    double seconds = 0;
    words >> word >> bytes >> seconds;
    Measurement measurement(worker, key++, bytes);
    std::cout << "times";
    for (const double time : measurement(seconds)) std::cout << ' ' << time;
    std::cout << std::endl;
  }
}
}  // namespace

int main(int, char** argv) {
  const std::string rank = argv[1];
  const auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
  set("DMLC_NUM_WORKER", "1");
  set("DMLC_NUM_SERVER", "1");
  set("DMLC_PS_ROOT_URI", argv[2]);
  set("DMLC_PS_ROOT_PORT", argv[3]);
  set("DMLC_INTERFACE", "eth0");
  set("ENABLE_SERVER_MULTIPULL", "0");  // as the benchmark of ps-lite does
  set("BYTEPS_ZMQ_NTHREADS", "1");      // not 4: its receiving threads poll without a pause, and need processors
  const pid_t scheduler = rank == "0" ? ::fork() : -1;
  set("DMLC_ROLE", scheduler == 0 ? "scheduler" : rank == "0" ? "worker" : "server");
  if (scheduler == 0 && std::freopen("/dev/null", "r", stdin) == nullptr) return 1;
  ps::Start(0);
  if (ps::IsServer()) {
    auto* const server = new ps::KVServer<char>(0);
    server->set_request_handle(serve);
    ps::RegisterExitCallback([server] { delete server; });
  }
  if (ps::IsWorker()) answer_lines();
  ps::Finalize(0, true);
  if (scheduler > 0) ::waitpid(scheduler, nullptr, 0);
}
