// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/agent/ranks/symbols.hpp>
#include <distdl/base/file_descriptor.hpp>

namespace distdl::agent {
namespace {
std::string demangled(const char* name) {
  if (std::strncmp(name, "_Z", 2) != 0) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text ? text.get() : name;
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}
}  // namespace

/// The functions of one ELF file. A file that is none, or is damaged, has none. It is read, not mapped: a file that
/// another node cuts short meanwhile would end this process.
class Symbols::File {
 public:
  explicit File(const std::string& path) {
    file_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!file_ || ::fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    size_ = static_cast<std::size_t>(status.st_size);
    read();
    file_.reset();
  }

  /// The name of the function that holds this byte of the file; null if none is known.
  const char* function_at(std::uint64_t offset) const {
    const auto segment = std::ranges::find_if(segments_, [&](const Elf64_Phdr& one) {
      return one.p_type == PT_LOAD && offset >= one.p_offset && offset - one.p_offset < one.p_filesz;
    });
    if (segment == segments_.end()) return nullptr;
    const std::uint64_t address = offset - segment->p_offset + segment->p_vaddr;
    auto after = std::ranges::upper_bound(functions_, address, {}, &Function::address);
    if (after == functions_.begin()) return nullptr;
    const Function& found = *--after;
    return address - found.address < std::max<std::uint64_t>(found.size, 1) ? found.name : nullptr;
  }

 private:
  struct Function {
    std::uint64_t address, size;
    const char* name;
  };

  template <class T>
  std::vector<T> table(std::uint64_t offset, std::uint64_t count) const {
    if (offset > size_ || count > (size_ - offset) / sizeof(T)) return {};
    std::vector<T> rows(count);
    auto* bytes = reinterpret_cast<char*>(rows.data());
    for (std::size_t done = 0; done < count * sizeof(T);) {
      const ssize_t n = ::pread(file_.get(), bytes + done, count * sizeof(T) - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return {};
      done += static_cast<std::size_t>(n);
    }
    return rows;
  }

  void read() {
    const auto headers = table<Elf64_Ehdr>(0, 1);
    if (headers.empty() || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0 ||
        headers[0].e_ident[EI_CLASS] != ELFCLASS64)
      return;
    segments_ = table<Elf64_Phdr>(headers[0].e_phoff, headers[0].e_phnum);
    const auto sections = table<Elf64_Shdr>(headers[0].e_shoff, headers[0].e_shnum);
    for (const auto& section : sections)
      if ((section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM) && section.sh_link < sections.size())
        read_symbols(section, sections[section.sh_link]);
    std::ranges::stable_sort(functions_, {}, &Function::address);
  }

  void read_symbols(const Elf64_Shdr& section, const Elf64_Shdr& names) {
    // The last byte of the names ends the last one.
    auto text = table<char>(names.sh_offset, names.sh_size);
    if (text.empty() || text.back() != 0) return;
    for (const auto& symbol : table<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym)))
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_value != 0 && symbol.st_name < text.size())
        functions_.push_back({symbol.st_value, symbol.st_size, text.data() + symbol.st_name});
    names_.push_back(std::move(text));
  }

  FileDescriptor file_;
  std::size_t size_ = 0;
  std::vector<std::vector<char>> names_;  ///< which functions_ points into
  std::vector<Elf64_Phdr> segments_;
  std::vector<Function> functions_;
};

Symbols::Symbols(pid_t process) {
  std::ifstream maps(fmt::format("/proc/{}/maps", process));
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string rights, device, inode;
    Mapping one{};
    char dash = 0;
    words >> std::hex >> one.begin >> dash >> one.end >> rights >> one.offset >> device >> inode >> std::ws;
    std::getline(words, one.file);
    if (rights.find('x') != std::string::npos) mappings_.push_back(std::move(one));
  }
}

Symbols::~Symbols() = default;

const Symbols::File& Symbols::file(const std::string& path) {
  auto& known = files_[path];
  if (!known) known = std::make_unique<File>(path);
  return *known;
}

std::string Symbols::name_of(std::uint64_t address, bool is_return) {
  const auto found = std::ranges::find_if(
      mappings_, [address](const Mapping& one) { return address >= one.begin && address < one.end; });
  if (found == mappings_.end()) return fmt::format("{:#x}", address);
  const std::uint64_t offset = address - found->begin + found->offset;
  const char* name =
      found->file.starts_with('/') ? file(found->file).function_at(offset - (is_return ? 1 : 0)) : nullptr;
  if (!name) return fmt::format("{}+{:#x}", base_name(found->file), offset);
  return fmt::format("{} ({})", demangled(name), base_name(found->file));
}

}  // namespace distdl::agent
