// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <vector>

#include <distdl/kernels/onednn/context.hpp>

namespace distdl::kernels::onednn {

/// A primitive and its arguments. All objects are made once; a run only sets pointers.
class Operation {
 public:
  struct Argument {
    int index = 0;  ///< DNNL_ARG_...
    dnnl::memory::desc desc;
  };
  struct Binding {
    Binding(int argument, void* output) : index(argument), data(output) {}
    /// oneDNN takes arguments without const even if it only reads them.
    Binding(int argument, const void* input)
        : index(argument), data(const_cast<void*>(input)) {}  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    int index;
    void* data;
  };

  Operation() = default;
  Operation(Context& context, dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
            std::initializer_list<Argument> arguments);

  /// Binds all declared arguments and runs the primitive. Throws Error.
  void run(std::initializer_list<Binding> bindings);

 private:
  Context* context_ = nullptr;
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;  // for memories_, in the same order; the scratchpad is the last
};

/// An operand that its owner has in the format `given` and a primitive needs in the format `wanted`. If both are equal,
/// it is the owner's memory, else a repacked copy that belongs to this object.
class Operand {
 public:
  Operand() = default;
  Operand(Context& context, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted);

  /// For reading: updates the copy, if there is one, and returns the address that the primitive should read.
  const void* load(const void* data);
  /// The copy from the last load(), or `data`.
  const void* loaded(const void* data) const { return same_ ? data : other_ ? other_->copy_.data() : copy_.data(); }
  /// For reading, of the same data: uses the copy of `other` from now on, if it has the same format.
  void share(const Operand& other);
  /// For writing: the address that the primitive should write. After it ran, store() copies the result to its owner.
  void* target(void* data) const { return same_ ? data : copy_.data(); }
  void store(void* data);

 private:
  bool same_ = true;
  dnnl::memory::desc wanted_;
  Operation pack_, unpack_;
  tensor::Buffer copy_;
  const Operand* other_ = nullptr;  ///< operand whose copy is used
};

}  // namespace distdl::kernels::onednn
