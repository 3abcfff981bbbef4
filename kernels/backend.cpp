// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/check_options.hpp>
#include <distdl/kernels/registry/registry.hpp>

namespace distdl::kernels {
namespace {
constexpr std::int64_t kMostThreads = 1024;

bool always() {
  return true;
}

struct Entry {
  const char* name;
  bool (*is_built)();
  std::unique_ptr<Backend> (*make)(const Options&);
};
// Best first.
constexpr std::array kEntries{Entry{"cuda", &cuda_is_built, &make_cuda_backend},
                              Entry{"onednn", &onednn_is_built, &make_onednn_backend},
                              Entry{"reference", &always, &make_reference_backend}};

std::unique_ptr<Backend> make_best(const Options& options) {
  for (const auto& entry : kEntries) {
    if (!entry.is_built()) continue;
    try {
      return entry.make(options);
    } catch (const BackendUnavailable&) {
      // Built, but cannot run here: the next one.
    }
  }
  throw BackendUnavailable("no backend works here; \"distdl doctor\" shows why");
}
}  // namespace

std::vector<std::string> built_backends() {
  std::vector<std::string> names;
  for (const auto& entry : kEntries)
    if (entry.is_built()) names.emplace_back(entry.name);
  return names;
}

void check(const Options& options) {
  require(options.threads >= 1 && options.threads <= kMostThreads,
          "kernels.threads is {}, but must be between 1 and {}: a rank needs at least one thread", options.threads,
          kMostThreads);
  activation_type(options);
  std::string known;
  for (const auto& entry : kEntries) {
    if (options.backend == "auto" || options.backend == entry.name) return;
    known += std::string(", ") + entry.name;
  }
  throw ConfigError(fmt::format("kernels.backend is \"{}\", but must be auto{}", options.backend, known));
}

std::unique_ptr<Backend> make_backend(const Options& options) {
  check(options);
  if (options.backend == "auto") return make_best(options);
  const auto* const entry =
      std::find_if(kEntries.begin(), kEntries.end(), [&](const Entry& one) { return options.backend == one.name; });
  return entry->make(options);
}

std::unique_ptr<Backend> make_host_backend(Options options) {
  if (options.backend == "auto" || options.backend == "cuda")
    options.backend = onednn_is_built() ? "onednn" : "reference";
  if (options.precision == Precision::tf32) options.precision = Precision::fp32;  // of GPUs alone
  return make_backend(options);
}

}  // namespace distdl::kernels
