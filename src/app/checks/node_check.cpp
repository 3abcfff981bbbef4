// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <distdl/app/checks/fabric_check.hpp>
#include <distdl/app/checks/node_check.hpp>
#include <distdl/base/checksum.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/base/random.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/forecast/measure.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/network.hpp>

namespace distdl::app {
namespace {
constexpr std::uint64_t kSeed = 20260301;  ///< seed of parameters, samples and the file: the same on all nodes
constexpr std::int64_t kSamples = 8, kClasses = 10;
constexpr std::size_t kFileBytes = 4 << 20;

std::uint32_t random_bits(std::uint64_t stream, std::size_t i) {
  return Philox::block(kSeed, stream, i)[0];
}

/// Convolution, pooling, matrix product, loss: what most models are made of.
model::Description small_network() {
  using kernels::Conv2d, kernels::Linear, kernels::MaxPool2d, kernels::Relu;
  return {"preflight",
          {3, 16, 16},
          kClasses,
          {{"conv", Conv2d{.out = 16, .kernel = 3, .padding = 1}},
           {"pool", MaxPool2d{2, 2}},
           {"relu", Relu{}},
           {"hidden", Linear{64}},
           {"hidden_relu", Relu{}},
           {"logits", Linear{kClasses}}}};
}

void set_batch(model::Network& network, const model::Description& model) {
  std::vector<float> samples(static_cast<std::size_t>(kSamples * tensor::element_count(model.sample)));
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = Philox::uniform(random_bits(1, i)) - 0.5f;
  std::vector<std::int32_t> labels(kSamples);
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<std::int32_t>(random_bits(2, i) % static_cast<std::uint32_t>(kClasses));
  network.set_batch(samples.data(), labels.data());
}

/// Forward and backward of one microbatch: the bytes of the gradients.
std::vector<std::byte> gradients_of_microbatch(kernels::Backend& backend) {
  const auto model = small_network();
  const auto tensors = model::tensors_of(model);
  model::Network network(backend, model, tensors, kSamples);
  std::vector<float> start(tensors.layout.size());
  model::initialize(tensors, kSeed, start);
  const auto parameters = backend.allocate(start.size() * sizeof(float));
  backend.copy_from_host(parameters.data(), start.data(), start.size() * sizeof(float));
  network.load_parameters(static_cast<const float*>(parameters.data()));
  set_batch(network, model);
  const auto gradients = backend.allocate(network.gradient_count() * sizeof(float));
  network.forward_backward(static_cast<float*>(gradients.data()), 1.0f / static_cast<float>(kSamples));
  std::vector<std::byte> bytes(network.gradient_count() * sizeof(float));
  backend.copy_to_host(bytes.data(), gradients.data(), bytes.size());
  return bytes;
}

std::string digest_of_microbatch(kernels::Backend& backend, bool is_wrong) {
  auto bytes = gradients_of_microbatch(backend);
  if (is_wrong) bytes[bytes.size() / 2] ^= std::byte{1};
  Sha256 digest;
  digest.update(bytes);
  return digest.hex().substr(0, 16);
}

std::vector<std::uint32_t> file_content() {
  std::vector<std::uint32_t> words(kFileBytes / sizeof(std::uint32_t));
  for (std::size_t i = 0; i < words.size(); i += 4) {
    const auto block = Philox::block(kSeed, 3, i);
    std::copy(block.begin(), block.end(), words.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return words;
}

/// Whether all bytes went through; else errno tells why.
template <class Transfer, class Byte>
bool transfer_all(Transfer&& transfer, int descriptor, std::span<Byte> bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    errno = ENOSPC;  // of one that takes nothing, which sets none
    const auto count = transfer(descriptor, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

double rate(double seconds) {
  return static_cast<double>(kFileBytes) / std::max(seconds, 1e-9);
}
}  // namespace

bool has_fault(const std::string& node, const std::string& fault) {
  const auto faults = env("DISTDL_PREFLIGHT_FAULTS");
  return faults && ("," + *faults + ",").find("," + node + "=" + fault + ",") != std::string::npos;
}

void check_compute(NodeCheckReport& report, kernels::Options options, int devices) try {
  for (int device = 0; device < devices; ++device) {
    options.device = device;
    const auto backend = kernels::make_backend(options);
    const auto name = backend->memory_is_host() ? std::string("it") : fmt::format("its GPU {}", device);
    for (int pass = 0; pass < 2; ++pass) {
      const auto digest = digest_of_microbatch(*backend, has_fault(report.node, "digest"));
      if (report.digest.empty()) report.digest = digest;
      if (digest != report.digest) report.wrong = name + " does not compute the same gradients each time";
    }
    constexpr double kSeconds = 0.2;
    const double flops = forecast::measure_product(*backend, backend->memory_is_host() ? 512 : 4096, kSeconds) *
                         (has_fault(report.node, "slow") ? 0.01 : 1);
    report.flops = device == 0 ? flops : std::min(report.flops, flops);
    report.kind = backend->description();
    if (backend->memory_is_host()) break;
  }
} catch (const Error& error) {
  report.wrong = fmt::format("cannot compute: {}", error.what());
}

/// Without one, errno tells why.
FileDescriptor file_or_none(const std::filesystem::path& file) try {
  return create_file(file);
} catch (const FileError& error) {
  errno = error.number();
  return FileDescriptor();
}

void check_file(NodeCheckReport& report, const std::filesystem::path& folder) {
  const auto file = resolved(folder) / fmt::format("{}-{}.data", report.node, random_hex(4));
  auto words = file_content();
  const auto content = std::as_bytes(std::span(words));
  std::vector<std::byte> back(kFileBytes);
  const FileDescriptor descriptor = file_or_none(file);
  const Stopwatch writing;
  bool done = descriptor && transfer_all(::write, descriptor.get(), content) && ::fsync(descriptor.get()) == 0;
  report.write_rate = rate(writing.seconds());
  // The file system's copy is of interest, not that of this node's memory; not all file systems let go of the latter.
  if (done) ::posix_fadvise(descriptor.get(), 0, 0, POSIX_FADV_DONTNEED);
  const Stopwatch reading;
  done = done && ::lseek(descriptor.get(), 0, SEEK_SET) == 0 &&
         transfer_all(::read, descriptor.get(), std::span<std::byte>(back));
  report.read_rate = rate(reading.seconds());
  if (!done) {
    report.wrong = fmt::format("cannot write and read \"{}\": {}", file.string(), errno_text(errno));
    report.write_rate = report.read_rate = 0;
  }
  if (has_fault(report.node, "file")) back[kFileBytes / 2] ^= std::byte{1};
  if (done && !std::equal(back.begin(), back.end(), content.begin()))
    report.wrong = fmt::format("reads other bytes than it wrote to \"{}\"", file.string());
  if (descriptor) remove_file(file);
}

void check_links(NodeCheckReport& report, comm::Communicator& communicator) {
  for (const auto& link : measure_ring(communicator).links) {
    if (link.a != communicator.rank() && link.b != communicator.rank()) continue;
    report.latency = report.latency > 0 ? std::min(report.latency, link.latency) : link.latency;
    report.link_rate = std::max(report.link_rate, link.large_rate);
  }
}

}  // namespace distdl::app
