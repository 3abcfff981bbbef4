// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/onednn/operation.hpp>

namespace distdl::kernels::onednn {
namespace {
Operation reorder(Context& context, const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  dnnl::reorder::primitive_desc pd(context.engine(), from, context.engine(), to, attributes());
  return {context, dnnl::reorder(pd), pd.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

void bind(dnnl::memory& memory, void* data) {
  // Setting the handle also clears the padding of blocked formats, so only do it where the pointer is new.
  if (memory.get_data_handle() != data) memory.set_data_handle(data);
}
}  // namespace

Operation::Operation(Context& context, dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
                     std::initializer_list<Argument> arguments)
    : context_(&context), primitive_(std::move(primitive)) {
  auto add = [&](int index, const dnnl::memory::desc& desc) {
    memories_.emplace_back(desc, context.engine(), static_cast<void*>(DNNL_MEMORY_NONE));
    arguments_.push_back({index, memories_.back().get()});
  };
  for (const auto& argument : arguments) add(argument.index, argument.desc);
  add(DNNL_ARG_SCRATCHPAD, scratchpad);
  context.reserve_scratchpad(scratchpad.get_size());
}

void Operation::run(std::initializer_list<Binding> bindings) {
  for (const auto& binding : bindings)
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      if (arguments_[i].arg == binding.index) bind(memories_[i], binding.data);
  bind(memories_.back(), context_->scratchpad());
  context_->enter();
  // This is the C call, because the C++ one builds its list of arguments each time.
  dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), context_->stream().get(),
                                                static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success)
    throw Error(ExitCode::internal,
                fmt::format("oneDNN failed to run a primitive (status {})", static_cast<int>(status)));
}

Operand::Operand(Context& context, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted)
    : same_(given == wanted), wanted_(wanted) {
  if (same_) return;
  pack_ = reorder(context, given, wanted);
  unpack_ = reorder(context, wanted, given);
  copy_ = tensor::allocate_host(wanted.get_size());
}

const void* Operand::load(const void* data) {
  if (!same_ && other_ == nullptr) pack_.run({{DNNL_ARG_FROM, data}, {DNNL_ARG_TO, copy_.data()}});
  return loaded(data);
}

void Operand::share(const Operand& other) {
  if (same_ || other.same_ || wanted_ != other.wanted_) return;
  other_ = &other;
  copy_ = {};
}

void Operand::store(void* data) {
  if (!same_) unpack_.run({{DNNL_ARG_FROM, copy_.data()}, {DNNL_ARG_TO, data}});
}

}  // namespace distdl::kernels::onednn
