// SPDX-License-Identifier: Apache-2.0
// checkpoint_save_speed DIR [MIB [ROUNDS]]: the time of a save against pwrite and fsync of the same bytes, in turns.
#include <cstdio>

#include <fcntl.h>

#include "tests/checkpoint/sample.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/files/file_operations.hpp>

int main(int count, char** arguments) {
  using namespace distdl;
  using namespace distdl::checkpoint;
  if (count < 2) return std::fprintf(stderr, "usage: checkpoint_save_speed DIR [MIB [ROUNDS]]\n"), 64;
  std::filesystem::path root = arguments[1];
  std::int64_t mib = count > 2 ? std::atoll(arguments[2]) : 512;
  int rounds = count > 3 ? std::atoi(arguments[3]) : 3;
  std::vector<std::byte> bytes(static_cast<std::size_t>(mib) << 20);
  for (std::size_t i = 0; i < bytes.size(); i += 64) bytes[i] = static_cast<std::byte>(i >> 6);
  Slice slice{
      "parameter/weight", tensor::DataType::float32, {mib, 512, 512}, tensor::whole({mib, 512, 512}), bytes.data()};

  SingleProcessGroup alone;
  Store store(root / "checkpoints", {.keep = 2});
  store.take(alone, {"local", 0, 0, ""});
  for (int round = 0; round < rounds; ++round) {
    Stopwatch raw;
    {
      OpenFile file(real_file_system(), root / "raw", OpenFile::Mode::create);
      for (std::size_t at = 0; at < bytes.size(); at += 4 << 20)
        file.write_at(std::span(bytes).subspan(at, std::min<std::size_t>(4 << 20, bytes.size() - at)), at);
      file.sync();
      file.close();
    }
    double raw_seconds = raw.seconds();
    std::filesystem::remove(root / "raw");
    bytes[0] = static_cast<std::byte>(round);
    SaveReport save = store.save(alone, Step(round + 1), std::span(&slice, 1), {});
    auto found = store.newest_valid(alone);
    std::vector<std::byte> back(bytes.size());
    Stopwatch read;
    Target target{slice.name, slice.dtype, slice.shape, slice.box, back.data()};
    store.read(*found, std::span(&target, 1));
    std::printf("raw %.3f s %.0f MiB/s  save %.3f s %.0f MiB/s  read (cached) %.0f MiB/s\n", raw_seconds,
                double(mib) / raw_seconds, save.seconds, double(mib) / save.seconds, double(mib) / read.seconds());
  }
  return 0;
}
