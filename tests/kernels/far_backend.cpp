// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/far_backend.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "tests/comm/device/far_accelerator.hpp"
#include <distdl/base/errors.hpp>

namespace distdl::kernels::test {
namespace {
using comm::FarAccelerator;
using Device = std::shared_ptr<FarAccelerator>;

/// Where the device finds what lies at `address`.
template <class T>
T* inside(const Device& device, T* address) {
  return address == nullptr ? nullptr : reinterpret_cast<T*>(device->inside(address));
}

template <class T>
std::vector<T*> all_inside(const Device& device, std::span<T* const> addresses) {
  std::vector<T*> all;
  for (T* const address : addresses) all.push_back(inside(device, address));
  return all;
}

class FarLayer final : public Layer {
 public:
  FarLayer(Device device, std::unique_ptr<Layer> own) : device_(std::move(device)), own_(std::move(own)) {}
  const ActivationFormat& output() const override { return own_->output(); }
  void load_parameters(ConstPointers parameters) override { own_->load_parameters(all_inside(device_, parameters)); }
  void share_parameters(const Layer& other) override {
    own_->share_parameters(*dynamic_cast<const FarLayer&>(other).own_);
  }
  void forward(const void* x, void* y, Phase phase) override { own_->forward(at(x), at(y), phase); }
  void backward_input(const void* x, const void* y, const void* dy, void* dx) override {
    own_->backward_input(at(x), at(y), at(dy), at(dx));
  }
  void backward_weights(const void* x, const void* dy, Pointers gradients) override {
    own_->backward_weights(at(x), at(dy), all_inside(device_, gradients));
  }
  bool works_in_place() const override { return own_->works_in_place(); }
  bool backward_reads_output() const override { return own_->backward_reads_output(); }
  std::size_t workspace() const override { return own_->workspace(); }
  void use_workspace(void* memory) override { own_->use_workspace(at(memory)); }
  Fusion fuse(const LayerSpec& next, bool in_place) override { return own_->fuse(next, in_place); }
  void forward_fused(const void* x, void* y, void* next_y, Phase phase) override {
    own_->forward_fused(at(x), at(y), at(next_y), phase);
  }

 private:
  template <class T>
  T* at(T* address) const {
    return inside(device_, address);
  }
  Device device_;
  std::unique_ptr<Layer> own_;
};

class FarLoss final : public Loss {
 public:
  FarLoss(Device device, std::unique_ptr<Loss> own) : device_(std::move(device)), own_(std::move(own)) {}
  void forward_backward(const void* predictions, const void* targets, float scale, void* gradient,
                        float* totals) override {
    own_->forward_backward(inside(device_, predictions), inside(device_, targets), scale, inside(device_, gradient),
                           inside(device_, totals));
  }

 private:
  Device device_;
  std::unique_ptr<Loss> own_;
};

class FarSlicedLoss final : public SlicedLoss {
 public:
  FarSlicedLoss(Device device, std::unique_ptr<SlicedLoss> own) : device_(std::move(device)), own_(std::move(own)) {}
  std::size_t summary_count() const override { return own_->summary_count(); }
  void summarize(const void* logits, const void* targets, float* summary) override {
    own_->summarize(inside(device_, logits), inside(device_, targets), inside(device_, summary));
  }
  void forward_backward(const void* logits, const void* targets, const float* summaries, float scale, void* gradient,
                        float* totals) override {
    own_->forward_backward(inside(device_, logits), inside(device_, targets), inside(device_, summaries), scale,
                           inside(device_, gradient), inside(device_, totals));
  }

 private:
  Device device_;
  std::unique_ptr<SlicedLoss> own_;
};

class FarReplay final : public Replay {
 public:
  explicit FarReplay(Device device) : device_(std::move(device)) {}
  void run(const std::function<void()>& work) override {
    if (!std::exchange(has_run_, true)) return work();
    device_->begin_recording();
    work();
    device_->end_recording();
  }
  std::optional<std::string> obstacle() const override { return std::nullopt; }

 private:
  Device device_;
  bool has_run_ = false;
};

class FarBackend final : public Backend {
 public:
  explicit FarBackend(std::unique_ptr<Backend> own)
      : own_(std::move(own)), device_(std::make_shared<FarAccelerator>()) {}
  std::string name() const override { return "far"; }
  std::string description() const override { return "far: " + own_->description(); }
  tensor::DataType activation_type() const override { return own_->activation_type(); }

  tensor::Buffer allocate(std::size_t bytes) override {
    refuse_in_recording("allocates");
    auto memory = device_->allocate(bytes);
    clear(memory.data(), bytes);
    return memory;
  }
  tensor::Buffer allocate_staging(std::size_t bytes) override { return own_->allocate_staging(bytes); }
  bool memory_is_host() const override { return false; }
  tensor::Buffer reserve(std::size_t bytes) override {
    refuse_in_recording("reserves memory");
    return device_->reserve(bytes);
  }
  void commit(std::span<std::byte> memory) override {
    refuse_in_recording("commits memory");
    device_->commit(memory);
  }
  void discard(std::span<std::byte> memory) override {
    refuse_in_recording("gives memory back");
    device_->discard(memory);
  }
  std::size_t committed() const { return device_->committed(); }
  void copy_from_host(void* to, const void* from, std::size_t bytes) override {
    refuse_in_recording("copies from the host");
    require<InternalError>(bytes == 0 || !device_->owns(from), "{}", "a copy from the host comes from the device");
    if (bytes > 0) std::memcpy(at(to), from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes) override {
    refuse_in_recording("copies to the host");
    require<InternalError>(bytes == 0 || !device_->owns(to), "{}", "a copy to the host goes to the device");
    if (bytes > 0) std::memcpy(to, at(from), bytes);
  }

  void fill(float* data, std::size_t count, float value) override {
    if (count > 0) own_->fill(at(data), count, value);
  }
  void clear(void* data, std::size_t bytes) override {
    if (bytes > 0) own_->clear(at(data), bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) own_->copy(at(to), at(from), bytes);
  }
  void add(float* accumulate, const float* addend, std::size_t count) override {
    if (count > 0) own_->add(at(accumulate), at(addend), count);
  }
  void add(const ActivationFormat& format, void* accumulate, const void* addend) override {
    own_->add(format, at(accumulate), at(addend));
  }
  void sum(const ActivationFormat& format, std::span<void* const> addends) override {
    own_->sum(format, all_inside(device_, addends));
  }
  void convert(tensor::DataType from_type, const void* from, tensor::DataType to_type, void* to,
               std::size_t count) override {
    own_->convert(from_type, at(from), to_type, at(to), count);
  }
  void update(const OptimizerStep& step, const UpdateArenas& arenas, ArenaRanges ranges) override {
    const auto own = std::visit([this](const auto* numbers) { return OptimizerStep(at(numbers)); }, step);
    own_->update(own, at(arenas), ranges);
  }
  void sums_of_squares(const float* data, ArenaRanges ranges, double* sums) override {
    own_->sums_of_squares(at(data), ranges, at(sums));
  }
  void sums_of_terms(const AdaptiveStep& step, const UpdateArenas& arenas, ArenaRanges ranges, double* sums) override {
    const auto own = std::visit([this](const auto* numbers) { return AdaptiveStep(at(numbers)); }, step);
    own_->sums_of_terms(own, at(arenas), ranges, at(sums));
  }
  std::unique_ptr<Replay> make_replay() override { return std::make_unique<FarReplay>(device_); }
  std::shared_ptr<tensor::Accelerator> accelerator() override { return device_; }
  void to_dense(const ActivationFormat& format, const void* from, float* to) override {
    own_->to_dense(format, at(from), at(to));
  }
  void from_dense(const ActivationFormat& format, const float* from, void* to) override {
    own_->from_dense(format, at(from), at(to));
  }
  bool same_layout(const ActivationFormat& one, const ActivationFormat& other) const override {
    return own_->same_layout(one, other);
  }
  std::unique_ptr<Layer> layer(const LayerSpec& spec, const ActivationFormat& input) override {
    return std::make_unique<FarLayer>(device_, own_->layer(spec, input));
  }
  std::unique_ptr<Loss> loss(const LossSpec& spec, const ActivationFormat& predictions) override {
    return std::make_unique<FarLoss>(device_, own_->loss(spec, predictions));
  }
  std::unique_ptr<SlicedLoss> sliced_loss(const CrossEntropy& spec, const ActivationFormat& logits,
                                          const ClassSlice& slice) override {
    return std::make_unique<FarSlicedLoss>(device_, own_->sliced_loss(spec, logits, slice));
  }
  void set_rng_key(const RngKey& rng_key) override { own_->set_rng_key(rng_key); }

 private:
  template <class T>
  T* at(T* address) const {
    return inside(device_, address);
  }
  UpdateArenas at(const UpdateArenas& arenas) const {
    return {at(arenas.parameters), {at(arenas.moments[0]), at(arenas.moments[1])}, at(arenas.gradients)};
  }
  void refuse_in_recording(const char* what) const {
    require<InternalError>(!device_->is_recording(), "recorded work {}", what);
  }
  std::unique_ptr<Backend> own_;
  Device device_;
};
}  // namespace

std::unique_ptr<Backend> make_far_backend(std::unique_ptr<Backend> layers) {
  return std::make_unique<FarBackend>(std::move(layers));
}

std::size_t committed_bytes(const Backend& far_backend) {
  return dynamic_cast<const FarBackend&>(far_backend).committed();
}

}  // namespace distdl::kernels::test
