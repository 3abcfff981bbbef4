// SPDX-License-Identifier: Apache-2.0
// Compressed checkpoints: the same tensors in fewer bytes, each of which is verified.
#include <atomic>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <zstd.h>

#include "tests/checkpoint/sample.hpp"
#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/checkpoint/exchange/export.hpp>
#include <distdl/checkpoint/format/hdf5_structure.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/files/file_system.hpp>

namespace distdl::checkpoint {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<std::string> kCodecs{"zstd", "shuffle+zstd"};

Sample of_every_type() {
  Sample sample = make_compressible(7, 200'000);  // its largest tensor has 13 MB
  for (auto dtype : {tensor::DataType::float64, tensor::DataType::float16, tensor::DataType::bfloat16,
                     tensor::DataType::float32, tensor::DataType::int32, tensor::DataType::int64,
                     tensor::DataType::byte, tensor::DataType::int8, tensor::DataType::int16, tensor::DataType::boolean,
                     tensor::DataType::complex64, tensor::DataType::complex128}) {
    SampleTensor made{{fmt::format("type/{}", tensor::code_of(dtype)), dtype, {61, 3, 17}}, {}};
    made.bytes.resize(61 * 3 * 17 * tensor::size_of(dtype));
    for (std::size_t i = 0; i < made.bytes.size(); ++i) made.bytes[i] = static_cast<std::byte>(i * i / 977 % 7);
    sample.push_back(std::move(made));
  }
  std::sort(sample.begin(), sample.end(), [](const auto& a, const auto& b) { return a.entry.name < b.entry.name; });
  return sample;
}

/// One tensor of bytes.
SampleTensor bytes_called(const std::string& name, std::size_t zeros, std::size_t random) {
  SampleTensor made{{name, tensor::DataType::byte, {static_cast<std::int64_t>(zeros + random)}}, {}};
  made.bytes.resize(zeros + random);
  Sample source = make_sample(3, static_cast<std::int64_t>(random / 66 + 1));
  std::copy_n(source[3].bytes.begin(), random, made.bytes.begin());
  return made;
}

std::string sealed_again(const json& document) {
  std::string text = document.dump() + "\n";
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return text + "sha256 " + hash.hex() + "\n";
}
json document_of(const fs::path& folder) {
  std::string text = slurp(folder / kManifestName);
  return json::parse(text.substr(0, text.find('\n')));
}

TEST(Compression, EveryTypeComesBackUnderAnotherCut) {
  Sample sample = of_every_type();
  TemporaryFolder plain;
  ASSERT_TRUE(all_empty(save_as(plain.path(), 2, Step(1), sample)));
  for (const std::string& codec : kCodecs)
    for (bool grid : {false, true}) {
      TemporaryFolder root;
      ASSERT_TRUE(all_empty(
          save_as(root.path(), 3, Step(1), sample, grid, {.verify_after_write = true, .compression = codec})));
      Store store(root.path(), {});
      Summary summary = open(root.path());
      EXPECT_EQ(compare(store, summary, sample, 2, !grid), "");
      EXPECT_THAT(verify(summary.folder, Depth::structure), IsEmpty());
      EXPECT_EQ(digest(summary), digest(open(plain.path())));
      EXPECT_EQ(summary.plain_bytes, open(plain.path()).stored_bytes);
      EXPECT_LT(summary.stored_bytes, summary.plain_bytes / 2);
      EXPECT_LT(summary.bytes, summary.plain_bytes / 2);
    }
}

TEST(Compression, OnlyWhatBecomesSmallerIsCompressed) {
  Sample sample{bytes_called("empty", 0, 0),      bytes_called("mixed", 5 << 20, 4 << 20),
                bytes_called("none", 0, 9 << 20), bytes_called("padded", 0, (4 << 20) + 70'000),
                bytes_called("small", 500, 0),    bytes_called("zeros", 9 << 20, 0)};
  std::swap(sample[1].bytes[0], sample[1].bytes[8 << 20]);
  TemporaryFolder root;
  ASSERT_TRUE(all_empty(save_as(root.path(), 1, Step(1), sample, false, {.compression = "zstd"})));
  Summary summary = open(root.path());
  Manifest manifest = load_manifest(real_file_system(), summary.folder);
  auto sizes = [&](std::size_t i) {
    std::vector<std::uint64_t> found;
    for (const StoredBox& box : manifest.tensors[i].boxes)
      for (const StoredChunk& chunk : box.chunks) found.push_back(chunk.bytes);
    return found;
  };
  EXPECT_THAT(sizes(1), testing::ElementsAre(kBlockBytes, testing::Lt(1000u), testing::Lt(1000u)));
  EXPECT_THAT(sizes(2), IsEmpty());
  EXPECT_THAT(sizes(3), IsEmpty()) << "the zeros behind the last block are no gain";
  EXPECT_THAT(sizes(4), IsEmpty());
  EXPECT_THAT(sizes(5), testing::Each(testing::Lt(1000u)));
  Store store(root.path(), {});
  EXPECT_EQ(compare(store, summary, sample, 2), "");
  EXPECT_THAT(verify(summary.folder, Depth::structure), IsEmpty());
}

TEST(Compression, WhatDoesNotCompressIsSavedAsWithoutIt) {
  TemporaryFolder plain, compressed;
  Sample sample = make_sample(1);
  ASSERT_TRUE(all_empty(save_as(plain.path(), 2, Step(1), sample)));
  ASSERT_TRUE(all_empty(save_as(compressed.path(), 2, Step(1), sample, false, {.compression = "shuffle+zstd"})));
  fs::path one = open(plain.path()).folder, other = open(compressed.path()).folder;
  json manifest = document_of(one), found = document_of(other);
  manifest["written_at"] = found["written_at"];
  for (std::size_t i : {0, 1}) manifest["files"][i]["rest"] = found["files"][i]["rest"];  // HDF5 notes the time there
  EXPECT_EQ(manifest, found);
  EXPECT_EQ(found["format"], 1);
}

TEST(Compression, AnUnknownOneIsRefused) {
  TemporaryFolder root;
  try {
    Store(root.path(), {.compression = "gzip"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), R"(checkpoint.compression is "gzip", but must be "none", "zstd" or "shuffle+zstd")");
  }
}

TEST(Compression, TheSameStepIsNotSavedAgainInAnotherWay) {
  TemporaryFolder root;
  Sample sample = make_compressible(1);
  ASSERT_TRUE(all_empty(save_as(root.path(), 2, Step(1), sample, false, {.compression = "zstd"})));
  auto before = slurp(open(root.path()).folder / kManifestName);
  ASSERT_TRUE(all_empty(save_as(root.path(), 1, Step(1), sample)));
  EXPECT_EQ(slurp(open(root.path()).folder / kManifestName), before);
}

/// Keeps files from growing beyond a size, while it lives: writing fails with EFBIG.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    struct rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  struct rlimit before_ {};
  void (*handler_)(int);
};

TEST(Compression, WhereChunksCannotBeWrittenTheCheckpointsStayAsTheyAre) {
  TemporaryFolder root;
  Options options{.compression = "zstd"};
  ASSERT_TRUE(all_empty(save_as(root.path(), 1, Step(1), make_compressible(1), false, options)));
  Sample large = make_compressible(2, 200'000);
  {
    SmallFiles limit(1 << 20);
    auto errors = save_as(root.path(), 1, Step(2), large, false, options);
    EXPECT_THAT(errors[0], AllOf(HasSubstr("node0000.h5"), HasSubstr("File too large")));
  }
  EXPECT_EQ(list(root.path()).size(), 1u);
  EXPECT_THAT(entries_with_prefix(root.path(), kStagePrefix), IsEmpty());
  ASSERT_TRUE(all_empty(save_as(root.path(), 1, Step(2), large, false, options)));
  Store store(root.path(), {});
  EXPECT_EQ(compare(store, open(root.path()), large), "");
}

/// How HDF5's plug-in for zstd decompresses; shuffling HDF5 knows by itself.
std::size_t decompress_for_hdf5(unsigned flags, std::size_t, const unsigned*, std::size_t bytes, std::size_t* size,
                                void** buffer) {
  if (!(flags & H5Z_FLAG_REVERSE)) return 0;
  auto plain = static_cast<std::size_t>(ZSTD_getFrameContentSize(*buffer, bytes));
  void* out = std::malloc(plain);
  std::size_t got = ZSTD_decompress(out, plain, *buffer, bytes);
  std::free(*buffer);
  *buffer = out;
  *size = plain;
  return ZSTD_isError(got) ? 0 : got;
}

/// By HDF5 itself. Returns the data set's layout.
H5D_layout_t expect_holds(hid_t file, const std::string& path, const SampleTensor& tensor) {
  hid_t dataset = H5Dopen2(file, path.c_str(), H5P_DEFAULT), type = H5Dget_type(dataset);
  hid_t creation = H5Dget_create_plist(dataset);
  H5D_layout_t layout = H5Pget_layout(creation);
  std::vector<std::byte> found(tensor.bytes.size());
  EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, found.data()), 0);
  EXPECT_EQ(found, tensor.bytes) << tensor.entry.name;
  H5Pclose(creation);
  H5Tclose(type);
  H5Dclose(dataset);
  return layout;
}

TEST(Compression, AnyHDF5WithTheFilterReadsIt) {
  Sample sample = of_every_type();
  for (const std::string& codec : kCodecs) {
    TemporaryFolder root;
    ASSERT_TRUE(all_empty(save_as(root.path(), 1, Step(1), sample, false, {.compression = codec})));
    H5Z_class2_t filter{H5Z_CLASS_T_VERS, 32015, 1, 1, "zstd", nullptr, nullptr, &decompress_for_hdf5};
    ASSERT_GE(H5Zregister(&filter), 0);
    hid_t file = H5Fopen((open(root.path()).folder / "node0000.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    for (const SampleTensor& tensor : sample)
      if (!tensor.bytes.empty()) expect_holds(file, fmt::format("/t/{}/0", tensor.entry.name), tensor);
    H5Fclose(file);
  }
}

TEST(Compression, AViewNeedsNoFilter) {
  Sample sample = of_every_type();
  TemporaryFolder root;
  ASSERT_TRUE(all_empty(save_as(root.path(), 3, Step(1), sample, true, {.compression = "shuffle+zstd"})));
  fs::path view = root.path() / "view.h5";
  export_view(open(root.path()), view, {}, Overwrite::refuse);
  hid_t file = H5Fopen(view.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  for (const SampleTensor& tensor : sample)
    EXPECT_NE(expect_holds(file, "/t/" + tensor.entry.name, tensor), H5D_CHUNKED) << tensor.entry.name;
  H5Fclose(file);
}

/// Counts what is read.
class CountingFiles final : public FileSystem {
 public:
  ssize_t pread(int descriptor, std::byte* data, std::size_t bytes, off_t offset) override {
    read += bytes;
    return FileSystem::pread(descriptor, data, bytes, offset);
  }
  std::atomic<std::uint64_t> read = 0;
};

TEST(Compression, OnlyTheChunksThatHoldABoxAreRead) {
  TemporaryFolder root;
  Sample sample = make_compressible(1, 500'000);  // 33 MB, 8 chunks
  ASSERT_TRUE(all_empty(save_as(root.path(), 1, Step(1), sample, false, {.compression = "shuffle+zstd"})));
  CountingFiles files;
  Store store(root.path(), {}, files);
  Summary summary = open(root.path());
  std::uint64_t manifest = fs::file_size(summary.folder / kManifestName);
  tensor::Box box{{250'000, 0}, {10, 33}};
  std::vector<std::byte> found(10 * 33 * 2);
  Target target{"parameter/embedding", tensor::DataType::bfloat16, {500'000, 33}, box, found.data()};
  store.read(summary, std::span(&target, 1));
  EXPECT_EQ(found, gather(sample[3], box));
  EXPECT_LT(files.read, manifest + summary.stored_bytes / 4);
}

/// A checkpoint with a compressed tensor of two chunks, and the one before it.
class CompressedDamage : public testing::Test {
 protected:
  void SetUp() override {
    Options options{.compression = "shuffle+zstd"};
    ASSERT_TRUE(all_empty(save_as(root_.path(), 1, Step(1), make_compressible(1), false, options)));
    ASSERT_TRUE(all_empty(save_as(root_.path(), 1, Step(2), sample_, false, options)));
    manifest_ = load_manifest(real_file_system(), folder_);
    bytes_ = slurp(folder_ / "node0000.h5");
  }
  const StoredTensor& tensor() { return manifest_.tensors[3]; }
  StoredBox& box() { return manifest_.tensors[3].boxes[0]; }
  /// Writes the file and a manifest of it whose other checksums hold.
  void lie() {
    spill(folder_ / "node0000.h5", bytes_);
    for (StoredChunk& chunk : box().chunks)
      chunk.checksum = crc32c(std::as_bytes(std::span(bytes_)).subspan(chunk.offset, chunk.bytes));
    spill(folder_ / kManifestName, to_text(manifest_));
  }
  std::string restored() {
    SingleProcessGroup alone;
    Store store(root_.path(), {});
    try {
      compare(store, open(folder_), sample_);
      return "a reader sees no damage";
    } catch (const StorageError& error) {
      if (error.exit_code() != ExitCode::corrupt) return error.what();
    }
    auto found = store.newest_valid(alone);
    return found && found->step == Step(1) ? "" : "not the one before";
  }

  TemporaryFolder root_;
  fs::path folder_ = root_.path() / step_folder_name(Step(2));
  Sample sample_ = make_compressible(2, 70'000);
  Manifest manifest_;
  std::string bytes_;
};

TEST_F(CompressedDamage, EveryChangedByteIsFoundAndNamed) {
  for (std::size_t number : {0, 1}) {
    const StoredChunk chunk = box().chunks[number];
    for (std::uint64_t at : {std::uint64_t{0}, chunk.bytes / 2, chunk.bytes - 1}) {
      std::string bad = bytes_;
      bad[chunk.offset + at] = static_cast<char>(bad[chunk.offset + at] ^ 4);
      spill(folder_ / "node0000.h5", bad);
      auto findings = verify(folder_);
      ASSERT_EQ(findings.size(), 1u);
      EXPECT_EQ(findings[0].file, "node0000.h5");
      EXPECT_EQ(findings[0].tensor, "parameter/embedding");
      EXPECT_EQ(findings[0].block, number);
      EXPECT_EQ(findings[0].expected, chunk.checksum);
      EXPECT_EQ(findings[0].found, crc32c(std::as_bytes(std::span(bad)).subspan(chunk.offset, chunk.bytes)));
      EXPECT_THAT(findings[0].message, HasSubstr(fmt::format("block {} at byte {}: checksum", number, chunk.offset)));
    }
  }
  EXPECT_EQ(restored(), "");
}

TEST_F(CompressedDamage, WhatDecompressesToOtherBytesIsFound) {
  box().checksums[1] ^= 1;
  lie();
  auto findings = verify(folder_);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].block, 1u);
  EXPECT_EQ(findings[0].expected, box().checksums[1]);
  EXPECT_THAT(findings[0].message, HasSubstr("decompressed: checksum"));
  EXPECT_EQ(restored(), "");
}

TEST_F(CompressedDamage, AFrameThatIsNoneIsRefused) {
  for (std::size_t i = 0; i < 4; ++i) bytes_[box().chunks[0].offset + i] = 'x';
  lie();
  EXPECT_THAT(verify(folder_).at(0).message, AllOf(HasSubstr("block 0"), HasSubstr("Unknown frame descriptor")));
  EXPECT_EQ(restored(), "");
}

TEST_F(CompressedDamage, AFrameMayNotGrowBeyondItsBox) {
  StoredChunk& chunk = box().chunks[0];
  for (std::size_t plain : {std::size_t{64} << 20, kBlockBytes - 1}) {
    std::string zeros(plain, '\0'), bomb(chunk.bytes, '\0');
    std::size_t length = ZSTD_compress(bomb.data(), bomb.size(), zeros.data(), zeros.size(), 1);
    ASSERT_FALSE(ZSTD_isError(length));
    bytes_.replace(chunk.offset, length, bomb.substr(0, length));
    chunk.bytes = length;
    lie();
    EXPECT_THAT(
        verify(folder_).at(0).message,
        AllOf(HasSubstr(fmt::format("its {} bytes do not decompress to 4194304", length)), HasSubstr("zstd: ")));
  }
  EXPECT_EQ(restored(), "");
}

TEST_F(CompressedDamage, HostileTablesOfChunksAreRefused) {
  json good = document_of(folder_);
  const std::string at = "/tensors/3/boxes/0";
  ASSERT_EQ(good[json::json_pointer(at)]["chunks"].size(), 2u);
  json chunks = good[json::json_pointer(at)]["chunks"];
  const std::uint64_t end = fs::file_size(folder_ / "node0000.h5");
  std::vector<std::pair<std::string, json>> changes{
      {"/chunks", json::array()},
      {"/chunks", {chunks[0]}},
      {"/chunks", {chunks[0], chunks[1], chunks[1]}},
      {"/chunks", {chunks[0], chunks[0]}},  // both share bytes
      {"/chunks", "all"},
      {"/chunks/0", json::array()},
      {"/chunks/0", {{"offset", 0}}},
      {"/chunks/0/0", end},
      {"/chunks/0/0", -1},
      {"/chunks/0/0", UINT64_MAX},
      {"/chunks/0/0", INT64_MAX},
      {"/chunks/0/1", 0},
      {"/chunks/0/1", 100},  // too few for 4 MiB
      {"/chunks/0/1", kBlockBytes + 1},
      {"/chunks/0/1", INT64_MAX},
      {"/chunks/0/2", 1ULL << 32},
      {"/chunks/1/0", chunks[0][0].get<std::uint64_t>() + 1},
      {"/compression", "gzip"},
      {"/compression", "none"},
      {"/compression", 1},
      {"/crc32c", json::array()},
      {"/extent", {70'000, 34}},
  };
  for (const auto& [where, value] : changes) {
    json bad = good;
    bad[json::json_pointer(at + where)] = value;
    spill(folder_ / kManifestName, sealed_again(bad));
    auto findings = verify(folder_);
    ASSERT_FALSE(findings.empty()) << where << " " << value;
    EXPECT_EQ(findings[0].kind, ExitCode::corrupt) << where << " " << value;
    EXPECT_EQ(findings[0].file, kManifestName) << where << " " << value;
  }
  EXPECT_EQ(restored(), "");
}

TEST_F(CompressedDamage, HDF5MustSeeTheChunksOfTheManifest) {
  auto problems = [&](const std::function<void(StoredBox&)>& change) {
    Manifest other = manifest_;
    change(other.tensors[3].boxes[0]);
    auto found = structure_problems(folder_, other, 0);
    return found.empty() ? std::string() : found[0];
  };
  EXPECT_EQ(problems([](StoredBox&) {}), "");
  EXPECT_THAT(problems([](StoredBox& box) { box.chunks[1].offset += 1; }), HasSubstr("chunk 1 is"));
  EXPECT_THAT(problems([](StoredBox& box) { box.chunks.pop_back(); }), HasSubstr("2 chunks, but the manifest says 1"));
  EXPECT_THAT(problems([](StoredBox& box) { box.codec = Codec::zstd; }), HasSubstr("its filters are not zstd"));
  EXPECT_THAT(problems([](StoredBox& box) { box.chunks.clear(); }), HasSubstr("it is not contiguous"));
}
}  // namespace
}  // namespace distdl::checkpoint
