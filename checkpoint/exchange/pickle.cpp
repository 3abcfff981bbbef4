// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include <fmt/ranges.h>

#include <distdl/checkpoint/exchange/pickle.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::size_t kMostValues = std::size_t{1} << 20;
constexpr std::size_t kMostShapeDimensions = 8, kLongestName = 200;

template <class... Words>
[[noreturn]] void refuse_pickle(fmt::format_string<Words...> text, Words&&... words) {
  throw std::invalid_argument(fmt::format(text, std::forward<Words>(words)...));
}
void expect_that(bool holds, const char* what) {
  if (!holds) refuse_pickle("{}", what);
}

struct PickleValue {
  enum class Kind { other, number, text, list, dictionary, global, storage, tensor };
  Kind kind = Kind::other;
  std::int64_t number = 0;
  std::string text{};                ///< a text; the name of a global, or of an object's class
  std::vector<std::size_t> items{};  ///< places of values; of a dictionary keys and values by turns
  PickledTensor tensor{};            ///< a storage has its type, key and elements
};
using PickleKind = PickleValue::Kind;

class Unpickler {
 public:
  explicit Unpickler(std::string_view bytes) : left_(bytes) {}

  std::vector<PickledTensor> tensors() {
    while (step()) {
    }
    const auto& root = value(pop());
    if (root.kind == PickleKind::other && !root.text.empty())
      refuse_pickle("it holds an object of the class {}, which only its program can read; save model.state_dict()",
                    root.text);
    expect_that(root.kind == PickleKind::dictionary, "it holds no dictionary of tensors; save model.state_dict()");
    return named(dictionary_of_tensors(root));
  }

 private:
  const PickleValue& value(std::size_t place) const { return values_[place]; }

  std::string_view take(std::uint64_t count) {
    expect_that(count <= left_.size(), "it ends too early");
    const auto taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  std::uint64_t take_number(std::size_t bytes) {
    std::uint64_t number = 0;
    const auto taken = take(bytes);
    for (std::size_t i = 0; i < bytes; ++i) number |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    return number;
  }
  std::string take_line() {
    const auto end = left_.find('\n');
    expect_that(end != std::string_view::npos, "it ends too early");
    std::string line(take(end));
    take(1);
    return line;
  }

  void push(PickleValue made) {
    expect_that(values_.size() < kMostValues, "it has too many values");
    stack_.push_back(values_.size());
    values_.push_back(std::move(made));
  }
  void push_number(std::int64_t number) { push({.kind = PickleKind::number, .number = number}); }
  void push_text(std::string_view text) { push({.kind = PickleKind::text, .text = std::string(text)}); }
  void push_list(std::vector<std::size_t> items) { push({.kind = PickleKind::list, .items = std::move(items)}); }
  void push_global(const std::string& module, const std::string& name) {
    expect_that(module.size() + name.size() < kLongestName, "it has too long a name");
    push({.kind = PickleKind::global, .text = module + "." + name});
  }
  std::size_t pop() {
    expect_that(stack_.size() > (marks_.empty() ? 0 : marks_.back()), "it takes a value where there is none");
    const auto place = stack_.back();
    stack_.pop_back();
    return place;
  }
  std::vector<std::size_t> pop_to_mark() {
    expect_that(!marks_.empty(), "it takes values where there are none");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<std::size_t> taken(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return taken;
  }
  void push_last(std::size_t count) {
    std::vector<std::size_t> items(count);
    for (auto item = items.rbegin(); item != items.rend(); ++item) *item = pop();
    push_list(std::move(items));
  }
  void add(const std::vector<std::size_t>& items) {
    const auto target = pop();
    stack_.push_back(target);
    auto& all = values_[target].items;
    expect_that(all.size() + items.size() <= kMostValues, "it has too many values");
    all.insert(all.end(), items.begin(), items.end());
  }
  void remember(std::uint64_t number) {
    expect_that(!stack_.empty(), "it keeps a value where there is none");
    memo_[number] = stack_.back();
  }
  void recall(std::uint64_t number) {
    const auto found = memo_.find(number);
    expect_that(found != memo_.end(), "it takes up a value that it did not keep");
    stack_.push_back(found->second);
  }

  /// One operation; false at the end.
  bool step() {
    const auto code = static_cast<unsigned char>(take(1)[0]);
    if (code == '.') return false;
    if (!on_stack(code) && !on_plain_value(code) && !on_collection(code) && !on_object(code))
      refuse_pickle("it has an operation ({:#04x}) that torch.save() does not write", code);
    return true;
  }

  // Each performs an operation, or returns false if it is of another kind.

  bool on_stack(unsigned char code) {
    switch (code) {
      case 0x80:  // protocol
        return take(1), true;
      case 0x95:  // frame
        return take(8), true;
      case '(':
        return marks_.push_back(stack_.size()), true;
      case '0':
        return pop(), true;
      case '1':
        return pop_to_mark(), true;
      case '2':
        stack_.push_back(pop());
        return stack_.push_back(stack_.back()), true;
      case 'q':
        return remember(take_number(1)), true;
      case 'r':
        return remember(take_number(4)), true;
      case 0x94:
        return remember(memo_.size()), true;
      case 'h':
        return recall(take_number(1)), true;
      case 'j':
        return recall(take_number(4)), true;
      default:
        return false;
    }
  }

  bool on_plain_value(unsigned char code) {
    switch (code) {
      case 'N':
        return push({}), true;
      case 0x88:
      case 0x89:
        return push_number(code == 0x88), true;
      case 'J':
        return push_number(static_cast<std::int32_t>(take_number(4))), true;
      case 'K':
        return push_number(static_cast<std::int64_t>(take_number(1))), true;
      case 'M':
        return push_number(static_cast<std::int64_t>(take_number(2))), true;
      case 0x8A:
        return push_number(long_number()), true;
      case 'G':  // a float
        return take(8), push({}), true;
      case 'X':
      case 'T':
        return push_text(take(take_number(4))), true;
      case 0x8C:
      case 'U':
        return push_text(take(take_number(1))), true;
      case 0x8D:
        return push_text(take(take_number(8))), true;
      case 'B':
        return take(take_number(4)), push({}), true;
      case 'C':
        return take(take_number(1)), push({}), true;
      default:
        return false;
    }
  }

  bool on_collection(unsigned char code) {
    switch (code) {
      case ']':
      case ')':
      case 0x8F:
        return push_list({}), true;
      case 't':
      case 'l':
        return push_list(pop_to_mark()), true;
      case 0x85:
      case 0x86:
      case 0x87:
        return push_last(code - 0x84U), true;
      case '}':
        return push({.kind = PickleKind::dictionary}), true;
      case 'd':
        return push({.kind = PickleKind::dictionary, .items = pop_to_mark()}), true;
      case 'a':
        return add({pop()}), true;
      case 's': {
        const auto item = pop(), key = pop();
        return add({key, item}), true;
      }
      case 'e':
      case 'u':
      case 0x90:
        return add(pop_to_mark()), true;
      default:
        return false;
    }
  }

  bool on_object(unsigned char code) {
    switch (code) {
      case 'c': {
        const auto module = take_line();
        return push_global(module, take_line()), true;
      }
      case 0x93: {
        const auto name = pop(), module = pop();
        expect_that(value(module).kind == PickleKind::text && value(name).kind == PickleKind::text,
                    "it names a function in an unknown way");
        return push_global(value(module).text, value(name).text), true;
      }
      case 'R':
      case 0x81: {  // a call; a new object
        const auto arguments = pop(), function = pop();
        return call(value(function), arguments), true;
      }
      case 0x92: {
        pop();
        pop();
        const auto made = pop();
        return push({.text = name_of(value(made))}), true;
      }
      case 'b':  // the state of an object, which stays what it is
        pop();
        return stack_.push_back(pop()), true;
      case 'Q':
        return push(storage(pop())), true;
      default:
        return false;
    }
  }

  std::int64_t long_number() {
    const auto bytes = take_number(1);
    expect_that(bytes <= 8, "it has a number of more than 64 bits");
    if (bytes == 0) return 0;
    const auto unused = static_cast<int>(64 - 8 * bytes);
    return static_cast<std::int64_t>(take_number(bytes) << unused) >> unused;
  }

  static std::string name_of(const PickleValue& function) {
    return function.kind == PickleKind::global ? function.text : std::string();
  }

  /// The result of the few functions that a state_dict needs; an object of the class otherwise.
  void call(const PickleValue& called, std::size_t arguments) {
    const auto& items = value(arguments).items;
    const std::string function = name_of(called);
    if (function == "collections.OrderedDict") return push({.kind = PickleKind::dictionary});
    if (function == "torch._utils._rebuild_tensor_v2") return push(tensor(items));
    const bool is_parameter = function.starts_with("torch._utils._rebuild_parameter");
    if (is_parameter && !items.empty()) {
      stack_.push_back(items[0]);
      return;
    }
    push({.text = function});
  }

  /// ("storage", class, key, location, elements)
  PickleValue storage(std::size_t identity) const {
    const auto& items = value(identity).items;
    expect_that(items.size() == 5 && value(items[0]).text == "storage" && value(items[1]).kind == PickleKind::global &&
                    value(items[2]).kind == PickleKind::text && value(items[2]).text.size() < kLongestName &&
                    value(items[4]).kind == PickleKind::number && value(items[4]).number >= 0,
                "it names a storage in an unknown way");
    constexpr std::string_view kModule = "torch.";
    std::string type = value(items[1]).text;
    if (type.starts_with(kModule)) type.erase(0, kModule.size());
    PickleValue made{.kind = PickleKind::storage};
    made.tensor = {.type = type, .storage = value(items[2]).text, .elements = value(items[4]).number};
    return made;
  }

  tensor::Shape numbers(std::size_t place) const {
    const auto& items = value(place).items;
    expect_that(items.size() <= kMostShapeDimensions, "it has a tensor of too many dimensions");
    tensor::Shape all;
    for (const auto item : items) {
      expect_that(value(item).kind == PickleKind::number && value(item).number >= 0,
                  "it has a tensor of a negative size");
      all.push_back(value(item).number);
    }
    return all;
  }

  /// (storage, offset, size, strides, ...)
  PickleValue tensor(const std::vector<std::size_t>& items) const {
    expect_that(items.size() >= 4 && value(items[0]).kind == PickleKind::storage &&
                    value(items[1]).kind == PickleKind::number && value(items[1]).number >= 0,
                "it has a tensor without a storage");
    PickleValue made{.kind = PickleKind::tensor};
    made.tensor = value(items[0]).tensor;
    auto& tensor = made.tensor;
    tensor.offset = value(items[1]).number;
    tensor.shape = numbers(items[2]);
    tensor.strides = numbers(items[3]);
    expect_that(tensor.shape.size() == tensor.strides.size(), "it has a tensor with other strides than extents");
    expect_that(tensor.offset <= tensor.elements, "it has a tensor beyond its storage");
    std::int64_t last = tensor.offset;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      if (tensor.shape[i] == 0) return made;
      std::int64_t reach = 0;
      const bool overflows = __builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &reach) ||
                             __builtin_add_overflow(last, reach, &last);
      expect_that(!overflows, "it has a tensor beyond its storage");
    }
    expect_that(last < tensor.elements, "it has a tensor beyond its storage");
    return made;
  }

  bool has_tensors(const PickleValue& one) const {
    if (one.kind != PickleKind::dictionary) return false;
    for (std::size_t i = 1; i < one.items.size(); i += 2)
      if (value(one.items[i]).kind == PickleKind::tensor) return true;
    return false;
  }

  const PickleValue& dictionary_of_tensors(const PickleValue& root) const {
    if (has_tensors(root)) return root;
    std::vector<std::string_view> keys;
    for (const char* usual : {"state_dict", "model_state_dict", "model", "module", "net", "model_ema", "weights"})
      for (std::size_t i = 0; i + 1 < root.items.size(); i += 2)
        if (value(root.items[i]).text == usual && has_tensors(value(root.items[i + 1])))
          return value(root.items[i + 1]);
    for (std::size_t i = 0; i < root.items.size() && keys.size() < 10; i += 2)
      keys.push_back(value(root.items[i]).text);
    refuse_pickle("no dictionary of tensors is in it, of those under the names {}; save model.state_dict()",
                  fmt::join(keys, ", "));
  }

  /// A later value of a key takes the place of an earlier one, as in Python.
  std::vector<PickledTensor> named(const PickleValue& dictionary) const {
    expect_that(dictionary.items.size() % 2 == 0, "it has a key without a value");
    std::map<std::string_view, PickledTensor> all;
    for (std::size_t i = 0; i < dictionary.items.size(); i += 2) {
      const auto &key = value(dictionary.items[i]), &one = value(dictionary.items[i + 1]);
      if (one.kind != PickleKind::tensor) continue;
      expect_that(key.kind == PickleKind::text, "it has a tensor without a name");
      all[key.text] = one.tensor;
      all[key.text].name = key.text;
    }
    std::vector<PickledTensor> tensors;
    tensors.reserve(all.size());
    for (auto& [name, tensor] : all) tensors.push_back(std::move(tensor));
    return tensors;
  }

  std::string_view left_;
  std::vector<PickleValue> values_;
  std::vector<std::size_t> stack_, marks_;  ///< places of values; sizes of the stack
  std::unordered_map<std::uint64_t, std::size_t> memo_;
};
}  // namespace

std::vector<PickledTensor> tensors_in_pickle(std::string_view pickle) {
  return Unpickler(pickle).tensors();
}

}  // namespace distdl::checkpoint
