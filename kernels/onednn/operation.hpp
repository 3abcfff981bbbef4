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
    /// What oneDNN only reads, it takes without const all the same.
    Binding(int argument, const void* input)
        : index(argument), data(const_cast<void*>(input)) {}  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    int index;
    void* data;
  };

  Operation() = default;
  Operation(Context& context, dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
            std::initializer_list<Argument> arguments);

  /// Binds each argument that was declared, and runs. Throws Error.
  void run(std::initializer_list<Binding> bindings);

 private:
  Context* context_ = nullptr;
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;  // of memories_, in the same order; the scratchpad is the last
};

/// An operand that its owner has in the format `given` and a primitive wants in the format `wanted`: the owner's own
/// memory where they agree, else a repacked copy that belongs to this object.
class Operand {
 public:
  Operand() = default;
  Operand(Context& context, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted);

  /// For reading: renews the copy, if there is one, and returns what the primitive should read.
  const void* load(const void* data);
  /// The copy as the last load() left it, or `data`.
  const void* loaded(const void* data) const { return same_ ? data : copy_.data(); }
  /// For writing: where the primitive should write, and, after it ran, store() moves that to its owner.
  void* target(void* data) const { return same_ ? data : copy_.data(); }
  void store(void* data);

 private:
  bool same_ = true;
  Operation pack_, unpack_;
  tensor::Buffer copy_;
};

}  // namespace distdl::kernels::onednn
