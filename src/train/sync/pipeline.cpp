// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/parallel/pipeline/timeline.hpp>
#include <distdl/train/sync/pipeline.hpp>

namespace distdl::train {
namespace {
using parallel::pipeline::Kind;
using parallel::pipeline::Operation;

constexpr std::uint32_t kActivations = 0x5050, kGradients = 0x5051;
constexpr std::uint32_t kSharedGradients = 0x1000000, kSharedValues = 0x2000000;  ///< plus the tensor's number

std::span<const std::byte> bytes_of(const float* values, std::size_t count) {
  return {reinterpret_cast<const std::byte*>(values), count * sizeof(float)};
}
std::span<std::byte> bytes_of(float* values, std::size_t count) {
  return {reinterpret_cast<std::byte*>(values), count * sizeof(float)};
}
}  // namespace

Pipeline::Pipeline(const parallel::Mesh& mesh, const parallel::Options& options, kernels::Backend& backend,
                   const OwnedModel& held, model::Network& first, int microbatches)
    : backend_(backend), ranks_(mesh.pipeline()) {
  const int stages = static_cast<int>(held.parts.size());
  const auto self = static_cast<std::size_t>(ranks_.rank().value);
  const auto schedule = parallel::pipeline::make_schedule(options.schedule, {ranks_.size(), microbatches, stages});
  operations_ = schedule.operations[self];
  repeated_ = parallel::pipeline::make_schedule(options.schedule, {ranks_.size(), 1, stages}).operations[self];
  const auto peaks = parallel::pipeline::peaks_of_stages(schedule, ranks_.rank().value);
  for (std::size_t part = 0; part < held.parts.size(); ++part) {
    add_slots(part, peaks[part], held, first, options.schedule == parallel::pipeline::Algorithm::zero_bubble);
    find_shared(part, held);
  }
}

std::size_t Pipeline::part_of(const Operation& operation) const {
  return static_cast<std::size_t>(operation.stage / ranks_.size());
}

Pipeline::Slot& Pipeline::slot(const Operation& operation) {
  auto& slots = slots_[part_of(operation)];
  return slots[static_cast<std::size_t>(operation.microbatch) % slots.size()];
}

std::vector<model::Network*> Pipeline::networks() const {
  std::vector<model::Network*> networks;
  for (const auto& slots : slots_) networks.push_back(slots.front().network);
  return networks;
}

void Pipeline::add_slots(std::size_t part, std::size_t count, const OwnedModel& held, model::Network& first,
                         bool in_pieces) {
  auto& slots = slots_.emplace_back();
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_first = part == 0 && i == 0;
    auto own = is_first ? nullptr
                        : std::make_unique<model::Network>(backend_, held.model, held.parts[part], first.samples(),
                                                           held.activations);
    model::Network& network = own ? *own : first;
    held.connect(network);
    network.prepare_backward(in_pieces);
    slots.push_back({&network, std::move(own), StageMessage(backend_, ranks_, kActivations),
                     StageMessage(backend_, ranks_, kGradients)});
  }
}

void Pipeline::find_shared(std::size_t part, const OwnedModel& held) {
  for (const auto& tensor : held.parts[part].tensors) {
    if (!tensor.elsewhere) continue;
    const auto other = std::ranges::find_if(held.stages, [&](const model::LayerRange& layers) {
      return *tensor.elsewhere >= layers.first && *tensor.elsewhere < layers.end;
    });
    const bool is_borrowed = tensor.view.role == tensor::Role::borrowed;
    auto& shared = (is_borrowed ? borrowed_ : lent_)
                       .emplace_back(Shared{part,
                                            tensor.view.offset,
                                            tensor.view.count,
                                            static_cast<std::uint32_t>(tensor.number),
                                            Rank(static_cast<int>(other - held.stages.begin()) % ranks_.size()),
                                            {},
                                            {}});
    // As many as there are ranks: the owner comes to a microbatch's backward that much later.
    for (int i = 0; i < ranks_.size(); ++i) {
      shared.messages.emplace_back(backend_, ranks_, kSharedGradients + shared.number);
      if (is_borrowed) shared.copies.push_back(backend_.allocate(shared.count * sizeof(float)));
    }
  }
}

template <class Visitor>
void Pipeline::for_each_message(Visitor&& visit) {
  for (std::size_t part = 0; part < slots_.size(); ++part) {
    const auto sends = [&](bool forward) {
      return std::ranges::any_of(operations_, [&](const Operation& operation) {
        return part_of(operation) == part && operation.is_forward() == forward &&
               operation.send_to != Operation::kNobody;
      });
    };
    const bool forward = sends(true), backward = sends(false);
    for (Slot& own : slots_[part]) {
      visit(own.forward, forward ? own.network->output().size() : 0);
      visit(own.backward, backward ? own.network->input_gradient().size() : 0);
    }
  }
  for (Shared& shared : borrowed_)
    for (StageMessage& message : shared.messages) visit(message, shared.count * sizeof(float));
  for (Shared& shared : lent_)
    for (StageMessage& message : shared.messages) visit(message, 0);
}

void Pipeline::allocate() {
  if (!ranks_.shares_memory() || ranks_.size() == 1) return;
  std::size_t own = 0, before = 0, all = 0;
  for_each_message([&](const StageMessage&, std::size_t bytes) { own += StageMessage::room_for(bytes); });
  const auto sizes = ranks_.all_gather_strings(std::to_string(own));
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    const auto bytes = static_cast<std::size_t>(std::stoull(sizes[rank]));
    if (static_cast<int>(rank) < ranks_.rank().value) before += bytes;
    all += bytes;
  }
  room_ = ranks_.allocate_common(std::max<std::size_t>(all, 1));
  CommonRoom room{room_.as<std::byte>(), before};
  for_each_message([&](StageMessage& message, std::size_t bytes) { message.use(room, bytes); });
}

void Pipeline::load_parameters(const float* arena) {
  for (const auto& slots : slots_)
    for (const Slot& slot : slots) slot.network->load_parameters(arena);
}

void Pipeline::wait(const std::function<void()>& transfer) {
  enter_phase(RankPhase::reduce);
  const Stopwatch watch;
  transfer();
  waited_ += watch.seconds();
  enter_phase(RankPhase::compute);
}

void Pipeline::use(ParameterBlocks& blocks) {
  blocks_ = &blocks;
  for (std::size_t part = 0; part < slots_.size(); ++part)
    for (const Slot& slot : slots_[part]) blocks.serve(*slot.network, part);
}

void Pipeline::compute(const Operation& operation, const Gradients& gradients, float scale, const Calls& calls) {
  if (operation.is_forward()) return forward(operation, calls);
  calls.set_key(operation.microbatch);
  const bool is_last = operation.kind != Kind::backward_input;
  float* const memory = is_last ? gradients.memory(part_of(operation)) : nullptr;
  backward(operation, memory, scale);
  if (is_last) gradients.computed(operation, memory);
}

void Pipeline::pass(parallel::GradientSum& sum, float scale, int microbatches, const Calls& calls) {
  const Stopwatch watch;
  waited_ = 0;
  const auto add = [&](const Operation& operation, float* gradients) {
    if (calls.computed) calls.computed(operation.microbatch, part_of(operation), gradients);
    sum.add(part_of(operation));
  };
  run(operations_, microbatches, {[&](std::size_t part) { return sum.microbatch_arena(part); }, add}, scale, calls);
  times_ = {watch.seconds(), watch.seconds() - waited_};
}

void Pipeline::repeat(int microbatch, float* gradients, float scale, const Calls& calls) {
  const Calls one{[&](model::Network& network, int) { calls.take_batch(network, microbatch); },
                  [&](int) { calls.set_key(microbatch); },
                  {}};
  const auto computed = [&](const Operation& operation, float*) {
    if (calls.computed) calls.computed(microbatch, part_of(operation), gradients);
  };
  run(repeated_, 1, {[&](std::size_t) { return gradients; }, computed}, scale, one);
}

void Pipeline::run(const std::vector<Operation>& operations, int microbatches, const Gradients& gradients, float scale,
                   const Calls& calls) {
  for (const Operation& operation : operations) {
    if (operation.microbatch < microbatches)
      compute(operation, gradients, scale, calls);
    else
      blocks_->join_pass(part_of(operation), !operation.is_forward());
    if (blocks_ != nullptr) blocks_->give_back();
  }
  wait([this] {
    for (auto& slots : slots_)
      for (Slot& slot : slots) slot.forward.end(), slot.backward.end();
    for (Shared& shared : borrowed_)
      for (StageMessage& message : shared.messages) message.end();
  });
}

void Pipeline::forward(const Operation& operation, const Calls& calls) {
  Slot& own = slot(operation);
  wait([&] {
    own.forward.settle();
    if (operation.receive_from != Operation::kNobody)
      own.forward.receive(own.network->input(), Rank(operation.receive_from));
  });
  calls.take_batch(*own.network, operation.microbatch);
  calls.set_key(operation.microbatch);
  own.network->forward(kernels::Phase::training);
  if (operation.send_to != Operation::kNobody) send(own.forward, own.network->output(), operation);
}

void Pipeline::backward(const Operation& operation, float* gradients, float scale) {
  Slot& own = slot(operation);
  if (operation.kind != Kind::backward_weight) receive_output_gradient(own, operation);
  if (operation.kind == Kind::backward_input) {
    own.network->backward_input(scale);
  } else {
    receive_gradients(operation, gradients);
    if (operation.kind == Kind::backward)
      own.network->backward(gradients, scale);
    else
      own.network->backward_weights(gradients);
    send_gradients(operation, gradients);
  }
  if (operation.send_to != Operation::kNobody) send(own.backward, own.network->input_gradient(), operation);
}

void Pipeline::send(StageMessage& message, std::span<const std::byte> values, const Operation& operation) {
  wait([&] { message.end(); });
  message.send(values, Rank(operation.send_to));
}

void Pipeline::receive_output_gradient(Slot& own, const Operation& operation) {
  wait([&] {
    own.backward.settle();
    if (operation.receive_from != Operation::kNobody)
      own.backward.receive(own.network->output_gradient(), Rank(operation.receive_from));
  });
}

void Pipeline::receive_gradients(const Operation& operation, float* gradients) {
  for (Shared& shared : lent_) {
    if (shared.part != part_of(operation)) continue;
    StageMessage& message = shared.messages[static_cast<std::size_t>(operation.microbatch) % shared.messages.size()];
    wait([&] { message.receive(bytes_of(gradients + shared.offset, shared.count), shared.other); });
  }
}

/// A copy, because the gradients are added up in their memory.
void Pipeline::send_gradients(const Operation& operation, const float* gradients) {
  for (Shared& shared : borrowed_) {
    if (shared.part != part_of(operation)) continue;
    const std::size_t turn = static_cast<std::size_t>(operation.microbatch) % shared.messages.size();
    const tensor::Buffer& copy = shared.copies[turn];
    wait([&] { shared.messages[turn].settle(); });
    backend_.copy(copy.data(), gradients + shared.offset, copy.bytes());
    shared.messages[turn].send({static_cast<const std::byte*>(copy.data()), copy.bytes()}, shared.other);
  }
}

void Pipeline::receive_borrowed(float* parameters) {
  for (const Shared& shared : borrowed_) {
    if (blocks_ != nullptr) blocks_->make_room({shared.offset, shared.offset + shared.count});
    StageMessage(backend_, ranks_, kSharedValues + shared.number)
        .receive(bytes_of(parameters + shared.offset, shared.count), shared.other);
    if (blocks_ != nullptr) blocks_->give_back({shared.offset, shared.offset + shared.count});
  }
}

void Pipeline::send_lent(const float* parameters) {
  for (const Shared& shared : lent_) {
    if (blocks_ != nullptr) blocks_->gather_all({shared.offset, shared.offset + shared.count});
    StageMessage message(backend_, ranks_, kSharedValues + shared.number);
    message.send(bytes_of(parameters + shared.offset, shared.count), shared.other);
    message.settle();
    if (blocks_ != nullptr) blocks_->give_back();
  }
}

}  // namespace distdl::train
