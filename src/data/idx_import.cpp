// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/base/known_formats.hpp>
#include <distdl/data/format/decompressing_reader.hpp>
#include <distdl/data/idx_import.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/set_writer.hpp>

namespace distdl::data {
namespace {

/// One IDX file of unsigned bytes: two zero bytes, the type, the number of dimensions, each extent in 4 big-endian
/// bytes.
class IdxReader {
 public:
  /// `what` is "images" or "labels".
  IdxReader(const std::filesystem::path& path, std::size_t dimensions, const char* what) : file_(path), what_(what) {
    std::array<std::byte, 4> head{};
    std::size_t got = file_.read(head);
    std::array<std::byte, 4> expected{std::byte{0}, std::byte{0}, std::byte{8}, static_cast<std::byte>(dimensions)};
    const auto number = [&head](std::size_t i) { return std::to_integer<int>(head[i]); };  // fmt 12 prints no bytes
    require(got == head.size() && head == expected,
            "\"{}\" is not an IDX file of {}: it starts with {:02x} {:02x} {:02x} {:02x}, expected 00 00 08 {:02x}{}",
            name(), what_, number(0), number(1), number(2), number(3), dimensions, guess_at(head));
    for (std::size_t d = 0; d < dimensions; ++d) shape_.push_back(read_extent());
  }

  const tensor::Shape& shape() const { return shape_; }
  std::string name() const { return file_.path().string(); }

  /// Takes as much memory as there are bytes: the header of a wrong file may announce any amount.
  void read(std::vector<std::uint8_t>& bytes, std::size_t count) {
    constexpr std::size_t kPiece = 1 << 20;
    for (std::size_t done = 0; done < count;) {
      const std::size_t piece = std::min(count - done, kPiece);
      if (bytes.size() < done + piece) bytes.resize(done + piece);
      if (file_.read(std::as_writable_bytes(std::span(bytes).subspan(done, piece))) != piece) cut_off();
      done += piece;
    }
  }

  void require_end() {
    std::byte more{};
    require(file_.read({&more, 1}) == 0, "\"{}\" is longer than its header says: {} {}", name(),
            tensor::to_string(shape_), what_);
  }

 private:
  /// Says what the file may be, for the end of a message.
  static std::string guess_at(std::span<const std::byte, 4> head) {
    const auto is = [&](std::size_t place, int value) { return std::to_integer<int>(head[place]) == value; };
    if (is(0, 0) && is(1, 0) && is(2, 8) && (is(3, 1) || is(3, 3))) return "; were images and labels swapped?";
    if (is(0, 0) && is(1, 0) && is(2, 8)) return ": it has another number of dimensions";
    if (is(0, 0) && is(1, 0)) return ": its values are of another type than unsigned bytes";
    const auto format = known_format(head);
    return format.empty() ? "" : fmt::format("; it is {}", format);
  }
  std::int64_t read_extent() {
    std::array<std::byte, 4> bytes{};
    if (file_.read(bytes) != bytes.size()) cut_off();
    std::int64_t extent = 0;
    for (std::byte byte : bytes) extent = extent << 8 | std::to_integer<std::int64_t>(byte);
    return extent;
  }

  [[noreturn]] void cut_off() const {
    throw StorageError(fmt::format("\"{}\" is truncated: it ends before all of its {} {}; download it again", name(),
                                   shape_.empty() ? std::string("header and") : tensor::to_string(shape_), what_),
                       ExitCode::corrupt);
  }

  DecompressingReader file_;
  const char* what_;
  tensor::Shape shape_;
};

std::vector<std::uint8_t> read_labels(IdxReader& reader) {
  std::vector<std::uint8_t> labels;
  reader.read(labels, static_cast<std::size_t>(reader.shape()[0]));
  reader.require_end();
  return labels;
}

}  // namespace

void read_idx(const IdxImport& import, const std::function<void(const Description&)>& begin,
              const std::function<void(std::span<const std::uint8_t>, std::int32_t)>& each) {
  IdxReader images(import.images, 3, "images"), label_file(import.labels, 1, "labels");
  require(images.shape()[0] == label_file.shape()[0],
          "\"{}\" has {} images, but \"{}\" has {} labels; do they belong together?", images.name(), images.shape()[0],
          label_file.name(), label_file.shape()[0]);
  require(images.shape()[0] > 0, "\"{}\" contains no images", images.name());
  const auto labels = read_labels(label_file);
  const std::int64_t highest = *std::max_element(labels.begin(), labels.end());
  require(import.classes == 0 || highest < import.classes,
          "\"{}\" contains the label {}, but --classes {} allows 0 to {}", label_file.name(), highest, import.classes,
          import.classes - 1);

  const Description description{
      .kind = kImages,
      .origin = fmt::format("idx {} {}", import.images.filename().string(), import.labels.filename().string()),
      .samples = images.shape()[0],
      .shape = {1, images.shape()[1], images.shape()[2]},
      .classes = import.classes ? import.classes : highest + 1};
  begin(description);
  const auto bytes = static_cast<std::size_t>(tensor::element_count(description.shape));
  std::vector<std::uint8_t> pixels;
  for (const std::uint8_t label : labels) {
    images.read(pixels, bytes);
    each(pixels, label);
  }
  images.require_end();
}

Description import_idx(const IdxImport& import) {
  std::optional<SetWriter> writer;
  read_idx(
      import, [&](const Description& description) { writer.emplace(import.output, description, import.overwrite); },
      [&](std::span<const std::uint8_t> pixels, std::int32_t label) {
        writer->append(pixels, {&label, 1});
      });
  return writer->commit();
}

}  // namespace distdl::data
