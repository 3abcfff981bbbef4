// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include <distdl/kernels/cuda/primitives/dnn_graph.hpp>

namespace distdl::kernels::cuda {

/// The plans in use, which layers with the same key share, as planning takes cuDNN up to seconds.
template <class Plans>
class PlanCache {
 public:
  using Key = std::vector<std::int64_t>;  ///< all that the plans depend on

  /// Returns nullptr if make() throws DnnRefusal; it is then not called again for this key.
  template <class Make>
  std::shared_ptr<const Plans> get(const Key& key, const Make& make) {
    if (refused_.contains(key)) return nullptr;
    std::erase_if(made_, [](const auto& entry) { return entry.second.expired(); });
    if (auto plans = made_[key].lock()) return plans;
    try {
      auto plans = std::make_shared<const Plans>(make());
      made_[key] = plans;
      return plans;
    } catch (const DnnRefusal&) {
      refused_.insert(key);
      return nullptr;
    }
  }

 private:
  std::map<Key, std::weak_ptr<const Plans>> made_;
  std::set<Key> refused_;
};

}  // namespace distdl::kernels::cuda
