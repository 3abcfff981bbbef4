// SPDX-License-Identifier: Apache-2.0
// What a checkpoint's model makes of samples.
// usage: logits_driver CKPT COUNT SAMPLES LOGITS: reads COUNT samples as they lie in memory, float32 or int32, and
// writes the logits so.
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include <distdl/app/model/trained_model.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
void run(const char* checkpoint, std::int64_t count, const char* samples, const char* logits) {
  TrainedModel model(checkpoint, {});
  const auto network = model.network(count);
  std::ifstream file(samples, std::ios::binary);
  const std::vector<char> batch{std::istreambuf_iterator<char>(file), {}};
  const auto wanted = static_cast<std::size_t>(count * tensor::element_count(model.description().sample)) * 4;
  require<UsageError>(batch.size() == wanted, "{} has {} bytes, {} are expected", samples, batch.size(), wanted);
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(count * network->terms()));  // of no use here
  network->set_batch(batch.data(), labels.data());
  const auto found = network->logits();
  std::ofstream(logits, std::ios::binary)
      .write(reinterpret_cast<const char*>(found.data()), static_cast<std::streamsize>(found.size() * sizeof(float)));
}
}  // namespace
}  // namespace distdl::app

int main(int argc, char** argv) try {
  if (argc != 5) return 64;
  distdl::app::run(argv[1], std::stol(argv[2]), argv[3], argv[4]);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "logits_driver: {}\n", error.what());
  return 1;
}
