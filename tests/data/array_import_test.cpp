// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/data/array_import.hpp>
#include <distdl/data/arrays.hpp>
#include <distdl/data/format/hdf5_file.hpp>
#include <distdl/data/format/hdf5_rows.hpp>
#include <distdl/data/format/number_array.hpp>
#include <distdl/data/source.hpp>

namespace distdl::data {
namespace {
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

template <class Number>
std::string npy(const std::string& type, const std::string& shape, const std::vector<Number>& values,
                const std::string& order = "False") {
  std::string header = "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header.resize(118, ' ');
  const auto length = static_cast<char>(header.size());
  return std::string("\x93NUMPY\x01\x00", 8) + length + '\0' + header +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number));
}

void write_npz(const std::filesystem::path& file, const std::vector<std::pair<std::string, std::string>>& arrays) {
  const std::unique_ptr<archive, int (*)(archive*)> writer(archive_write_new(), &archive_write_free);
  ASSERT_EQ(archive_write_set_format_zip(writer.get()), ARCHIVE_OK);
  ASSERT_EQ(archive_write_open_filename(writer.get(), file.c_str()), ARCHIVE_OK);
  for (const auto& [name, bytes] : arrays) {
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(), &archive_entry_free);
    archive_entry_set_pathname(entry.get(), (name + ".npy").c_str());
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(bytes.size()));
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    ASSERT_EQ(archive_write_header(writer.get(), entry.get()), ARCHIVE_OK);
    ASSERT_EQ(archive_write_data(writer.get(), bytes.data(), bytes.size()), static_cast<la_ssize_t>(bytes.size()));
  }
  ASSERT_EQ(archive_write_close(writer.get()), ARCHIVE_OK);
}

void write_hdf5(const std::filesystem::path& file, const std::string& name, const tensor::Shape& shape,
                const std::vector<float>& values) {
  auto opened = create_hdf5_file(file);
  write_rows(create_dataset(opened, name.c_str(), StoredNumber::f32, shape, 0), StoredNumber::f32, 0, shape[0],
             values.data());
  close_and_check(std::move(opened));
}

class ArrayImports : public testing::Test {
 protected:
  Description table(const std::string& content, TableImport import, const std::string& name = "table.csv") {
    write_file(folder_ / name, content);
    import.table = folder_ / name;
    return import_table(import, output_, Overwrite::replace);
  }
  std::string refusal(const std::string& content, const TableImport& import, const std::string& name = "table.csv") {
    try {
      table(content, import, name);
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists(output_));
      return error.what();
    }
    return "nothing was refused";
  }
  std::vector<float> inputs(std::int64_t index) {
    auto set = ArraySet::open(output_, 1);
    const auto values = set.inputs(index);
    return {values.begin(), values.end()};
  }
  std::unique_ptr<Source> open(const std::filesystem::path& file, Normalization normalize = Normalization::set) {
    Options options;
    options.train = file.string();
    options.normalize = normalize;
    return open_sources(options, 1, 1).training;
  }

  ScratchFolder folder_;
  std::filesystem::path output_ = folder_ / "out.h5";
};

constexpr const char* kFlowers = "width,kind,\"a, b\"\n1.5,rose,2\n2.5,lily, 4\n\n3.5,rose,-1e1\n";

TEST_F(ArrayImports, TakesTheColumnsOfATableAndTheClassesByName) {
  const auto set = table(kFlowers, {.label = "kind"});
  EXPECT_EQ(set.kind, kArrays);
  EXPECT_EQ(set.samples, 3);
  EXPECT_EQ(set.shape, (tensor::Shape{2, 1, 1}));
  EXPECT_EQ(set.classes, 2);
  EXPECT_THAT(inputs(2), ElementsAre(3.5f, -10.0f));
  const auto opened = ArraySet::open(output_, 0);
  EXPECT_EQ(opened.names(), (ArrayNames{{"width", "a, b"}, {}, {"lily", "rose"}}));
  EXPECT_THAT(opened.labels(), ElementsAre(1, 0, 1));
  EXPECT_TRUE(verify_file(output_).damage.empty());
  EXPECT_EQ(opened.digest(), digest_of_file(output_));
}

TEST_F(ArrayImports, OrdersClassesThatAreNumbersAsNumbers) {
  table("x,y\n1,10\n2,9\n3,10\n", {.label = "y"});
  EXPECT_THAT(ArraySet::open(output_, 0).names().classes, ElementsAre("9", "10"));
}

TEST_F(ArrayImports, NormalizesEachColumnAndTarget) {
  table("x\ty\tz\n1\t100\t7\n3\t300\t7\n", {.targets = {"y"}}, "table.tsv");
  const auto source = open(output_);
  Batch batch;
  source->read(std::vector<Source::Pick>{{0, 0}, {0, 1}}, batch);
  EXPECT_THAT(batch.values, ElementsAre(-1, 0, 1, 0));  // a column of one value has the deviation 1
  EXPECT_THAT(batch.targets, ElementsAre(-1, 1));
  EXPECT_TRUE(batch.labels.empty());
  EXPECT_EQ(source->targets(), tensor::Shape{1});
  std::vector<float> predictions{-1, 0.5};
  source->restore_units(predictions);
  EXPECT_THAT(predictions, ElementsAre(100, 250));
  open(output_, Normalization::none)->read(std::vector<Source::Pick>{{0, 1}}, batch);
  EXPECT_THAT(batch.values, ElementsAre(3, 7));
  EXPECT_THAT(batch.targets, ElementsAre(300));
}

TEST_F(ArrayImports, NamesLineAndColumnOfWhatIsNoFiniteNumber) {
  for (const char* wrong : {"", "nan", "inf", "-inf", "1e39", "four", "1.5x"})
    EXPECT_THAT(refusal(fmt::format("a,b,y\n1,2,0\n1,{},1\n", wrong), {.label = "y"}),
                HasSubstr(fmt::format("line 3, column \"b\": \"{}\" is not a finite number", wrong)));
  EXPECT_THAT(refusal("a,y\n1,0\n1\n", {.label = "y"}), HasSubstr("line 3: it has 1 columns"));
  EXPECT_THAT(refusal("a,y\n1,\n", {.label = "y"}), HasSubstr("line 2, column \"y\": the class is missing"));
}

TEST_F(ArrayImports, RefusesColumnsThatDoNotFit) {
  EXPECT_THAT(refusal("1,2\n3,4\n", {.label = "y"}), HasSubstr("a line with the names"));
  EXPECT_THAT(refusal("a,b\n3,4\n", {.label = "y"}), HasSubstr("has no column \"y\"; its columns are a, b"));
  EXPECT_THAT(refusal("a,a,y\n3,4,1\n", {.label = "y"}), HasSubstr("two columns of one name"));
  EXPECT_THAT(refusal("y\n3\n4\n", {.label = "y"}), HasSubstr("no columns to predict from"));
  EXPECT_THAT(refusal("a,y\n", {.label = "y"}), HasSubstr("has no rows"));
  EXPECT_THAT(refusal("a,y\n1,2\n1,2\n", {.label = "y"}), HasSubstr("only one class"));
  EXPECT_THAT(refusal("a,y\n1,2.5\n1,2\n", {.label = "y"}), HasSubstr("named by --target"));
  EXPECT_THAT(refusal("a,y\n1,2\n", {.label = "y", .targets = {"a"}}), HasSubstr("either"));
  EXPECT_THAT(refusal("a,y\n1,2\n", {.targets = {"y"}, .columns = {"y"}}), HasSubstr("\"y\" is named twice"));
}

TEST_F(ArrayImports, TakeColumnsClassesAndScaleFromAnotherSet) {
  table("a,b,y\n0,1,u\n2,3,v\n4,5,w\n", {.label = "y"});
  const auto train = folder_ / "train.h5";
  std::filesystem::rename(output_, train);
  table("y,b,extra,a\nw,7,text,8\n", {.label = "y", .like = train});
  auto set = ArraySet::open(output_, 0);
  EXPECT_THAT(inputs(0), ElementsAre(8, 7));
  EXPECT_THAT(set.labels(), ElementsAre(2));
  EXPECT_EQ(set.scale().mean, ArraySet::open(train, 0).scale().mean);
  EXPECT_EQ(open(output_)->units(), open(train)->units());
  EXPECT_EQ(open(train)->units().size(), 16u);
  Options options;
  options.train = train.string();
  options.validation = output_.string();
  EXPECT_NO_THROW(open_sources(options, 1, 1));
  std::filesystem::remove(output_);
  EXPECT_THAT(refusal("a,b,y\n1,1,z\n", {.label = "y", .like = train}), HasSubstr("has the class \"z\", which"));
  table("a,b,y\n1,1,u\n2,2,v\n3,3,w\n", {.label = "y"});
  EXPECT_THROW(open_sources(options, 1, 1), ConfigError) << "other means";
}

TEST_F(ArrayImports, TakeArraysOfNumpyAsColumns) {
  write_npz(folder_ / "t.npz", {{"x", npy<double>("<f8", "(2, 2)", {1, 2, 3, 4})},
                                {"age", npy<std::uint8_t>("|u1", "(2,)", {7, 8})},
                                {"y", npy<std::int64_t>("<i8", "(2,)", {5, 1})}});
  import_table({.table = folder_ / "t.npz", .label = "y"}, output_, Overwrite::refuse);
  EXPECT_THAT(inputs(1), ElementsAre(3, 4, 8));
  const auto set = ArraySet::open(output_, 0);
  EXPECT_THAT(set.names().inputs, ElementsAre("x[0]", "x[1]", "age"));
  EXPECT_THAT(set.labels(), ElementsAre(1, 0));
  write_npz(folder_ / "nan.npz",
            {{"x", npy<float>("<f4", "(2,)", {1, NAN})}, {"y", npy<float>("<f4", "(2,)", {1, 2})}});
  try {
    import_table({.table = folder_ / "nan.npz", .label = "y"}, folder_ / "no.h5", Overwrite::refuse);
    FAIL() << "NaN is a number now";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("row 1 of column \"x\""));
  }
}

TEST_F(ArrayImports, TakeFieldsWithTheirChannels) {
  constexpr std::int64_t kSamples = 3, kHeight = 2, kWidth = 4;
  std::vector<float> u(kSamples * kHeight * kWidth), p(kSamples * 2 * kHeight * kWidth);
  for (std::size_t i = 0; i < u.size(); ++i) u[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = static_cast<float>(i % 7);
  write_hdf5(folder_ / "u.h5", "u", {kSamples, kHeight, kWidth}, u);
  const auto one = import_fields({.file = folder_ / "u.h5", .inputs = {"u"}, .targets = {"u"}, .dimensions = 2},
                                 output_, Overwrite::refuse);
  EXPECT_EQ(one.shape, (tensor::Shape{1, kHeight, kWidth}));
  EXPECT_EQ(one.targets, one.shape);
  EXPECT_EQ(one.classes, kHeight * kWidth);
  EXPECT_EQ(inputs(2)[1], 17);
  write_npz(folder_ / "f.npz", {{"u", npy("<f4", "(3, 2, 4)", u)}, {"p", npy("<f4", "(3, 2, 2, 4)", p)}});
  const auto both = import_fields({.file = folder_ / "f.npz", .inputs = {"u", "p"}, .targets = {"p"}, .dimensions = 2},
                                  output_, Overwrite::replace);
  EXPECT_EQ(both.shape, (tensor::Shape{3, kHeight, kWidth}));
  EXPECT_THAT(ArraySet::open(output_, 0).names().inputs, ElementsAre("u", "p[0]", "p[1]"));
  const auto sample = inputs(1);
  EXPECT_EQ(sample[0], 8);
  EXPECT_EQ(sample[8 + 3], p[16 + 3]);
  EXPECT_TRUE(verify_file(output_).damage.empty());
}

TEST_F(ArrayImports, TakeLinesAndBodiesAsWell) {
  const std::vector<float> values(24, 1.5f);
  write_npz(folder_ / "d.npz", {{"line", npy("<f4", "(2, 12)", values)},
                                {"body", npy("<f4", "(2, 1, 2, 2, 3)", values)},
                                {"y", npy<float>("<f4", "(2,)", {1, 2})}});
  const auto line = import_fields({.file = folder_ / "d.npz", .inputs = {"line"}, .targets = {"y"}, .dimensions = 1},
                                  output_, Overwrite::replace);
  EXPECT_EQ(line.shape, (tensor::Shape{1, 1, 12}));
  EXPECT_EQ(line.targets, tensor::Shape{1});
  const auto row =
      import_fields({.file = folder_ / "d.npz", .inputs = {"line"}, .label = "y"}, output_, Overwrite::replace);
  EXPECT_EQ(row.shape, (tensor::Shape{12, 1, 1})) << "columns, unless --dimensions says something else";
  EXPECT_EQ(row.classes, 2);
  const auto body =
      import_fields({.file = folder_ / "d.npz", .inputs = {"body"}, .label = "y"}, output_, Overwrite::replace);
  EXPECT_EQ(body.shape, (tensor::Shape{1, 2, 2, 3}));
}

TEST_F(ArrayImports, RefuseFieldsThatDoNotFitTogether) {
  const std::vector<float> values(24, 1);
  std::vector<float> broken = values;
  broken[13] = INFINITY;
  write_npz(folder_ / "f.npz", {{"u", npy("<f4", "(2, 3, 4)", values)},
                                {"w", npy("<f4", "(2, 4, 3)", values)},
                                {"short", npy("<f4", "(3, 2, 4)", values)},
                                {"broken", npy("<f4", "(2, 3, 4)", broken)},
                                {"cut", npy("<f4", "(9, 3, 4)", values)},
                                {"turned", npy("<f4", "(2, 3, 4)", values, "True")},
                                {"big", npy(">f4", "(2, 3, 4)", values)},
                                {"text", npy("<U4", "(2, 3)", values)},
                                {"half", npy<float>("<f4", "(2,)", {1, 1.5})}});
  const auto refused = [&](FieldImport import) {
    import.file = folder_ / "f.npz";
    import.dimensions = 2;
    try {
      import_fields(import, output_, Overwrite::replace);
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists(output_));
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_THAT(refused({.inputs = {"u", "w"}, .targets = {"u"}}), HasSubstr("2 samples of the extents (4, 3), but"));
  EXPECT_THAT(refused({.inputs = {"u"}, .targets = {"short"}}), HasSubstr("targets have 3 samples, but the inputs 2"));
  EXPECT_THAT(refused({.inputs = {"broken"}, .targets = {"u"}}), HasSubstr("has the value inf in sample 1"));
  EXPECT_THAT(refused({.inputs = {"cut"}, .targets = {"cut"}}), HasSubstr("is truncated"));
  EXPECT_THAT(refused({.inputs = {"turned"}, .targets = {"u"}}), HasSubstr("order of Fortran"));
  EXPECT_THAT(refused({.inputs = {"big"}, .targets = {"u"}}), HasSubstr("little-endian"));
  EXPECT_THAT(refused({.inputs = {"text"}, .targets = {"u"}}), HasSubstr("does not hold numbers"));
  EXPECT_THAT(refused({.inputs = {"u"}, .label = "half"}), HasSubstr("row 1 of array \"half\""));
  EXPECT_THAT(refused({.inputs = {"v"}, .targets = {"u"}}), HasSubstr("has no array \"v\"; it has u, w, short"));
  EXPECT_THAT(refused({.inputs = {"u"}}), HasSubstr("(--target)"));
  EXPECT_THAT(refused({.inputs = {}, .targets = {"u"}}), HasSubstr("by --input"));
  write_hdf5(folder_ / "u.h5", "u", {2, 3}, std::vector<float>(6));
  try {
    open_array(folder_ / "u.h5", "v");
    FAIL() << "there is no such array";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has no array \"v\"; it has u"));
  }
  write_file(folder_ / "text.h5", "no arrays");
  EXPECT_THROW(arrays_in(folder_ / "text.h5"), ConfigError);
}

TEST_F(ArrayImports, RefuseArchivesOfNumPyThatLeaveTheirFolderOrAnnounceWhatIsNotThere) {
  const auto refused = [&](const std::string& array, const std::string& rows) {
    write_npz(folder_ / "t.npz", {{array, npy<float>("<f4", "(" + rows + ", 2)", {1, 2})}});
    try {
      import_table({.table = folder_ / "t.npz", .targets = {"x[1]"}}, output_, Overwrite::refuse);
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists(output_));
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_THAT(refused("../../x", "1"), HasSubstr("leaves the folder of the archive"));
  EXPECT_THAT(refused("/x", "1"), HasSubstr("leaves the folder of the archive"));
  EXPECT_THAT(refused("x", "1000000000000"), HasSubstr("is truncated: its header announces (1000000000000, 2)"));
}

TEST_F(ArrayImports, RefuseAbsurdShapes) {
  const std::string digits(19, '9');
  write_npz(folder_ / "f.npz", {{"long", npy<float>("<f4", "(" + digits + ",)", {1})},
                                {"product", npy<float>("<f4", "(4294967296, 4294967296)", {1})},
                                {"wide", npy<float>("<f4", "(1, 1000000000000)", {1})},
                                {"large", npy<float>("<f4", "(1, 9, 1000000, 1000)", {1})},
                                {"blank", npy<float>(std::string(20, ' ') + "<f4", "(1,)", {1})},
                                {"y", npy<float>("<f4", "(1,)", {1})}});
  const auto refused = [&](const std::string& name) {
    try {
      import_fields({.file = folder_ / "f.npz", .inputs = {name}, .targets = {"y"}}, output_, Overwrite::replace);
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists(output_));
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_THAT(refused("long"), HasSubstr("has an impossible shape (" + digits));
  EXPECT_THAT(refused("product"), HasSubstr("has an impossible shape (4294967296, 4294967296)"));
  EXPECT_THAT(refused("wide"), HasSubstr("1000000000000 channels, but at most 65536 are possible"));
  EXPECT_THAT(refused("large"), HasSubstr("too large; each may have at most 1 GiB"));
  EXPECT_THAT(refused("blank"), HasSubstr("does not hold numbers"));
  write_npz(folder_ / "t.npz", {{"wide", npy<float>("<f4", "(1, 1000000000000)", {1})}});
  try {
    import_table({.table = folder_ / "t.npz", .label = "y"}, output_, Overwrite::refuse);
    FAIL() << "so many columns have no place in memory";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a table may have at most 65536 columns"));
  }
  auto empty = create_hdf5_file(folder_ / "empty.h5");
  {
    const hdf5::Lock lock;
    const hsize_t extent = hsize_t{1} << 40;
    const hdf5::Space space(H5Screate_simple(1, &extent, nullptr));
    const hdf5::Dataset array(
        H5Dcreate2(empty.get(), "u", H5T_IEEE_F32LE, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    ASSERT_TRUE(array);
  }
  close_and_check(std::move(empty));
  try {
    open_array(folder_ / "empty.h5", "u");
    FAIL() << "its zeros would fill a disk";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no numbers were written to it"));
  }
}

TEST_F(ArrayImports, AreRefusedAsImages) {
  table(kFlowers, {.label = "kind"});
  EXPECT_THROW(open(output_, Normalization::imagenet), ConfigError);
  Options options;
  options.train = output_.string();
  options.mirror = true;
  EXPECT_THROW(open_sources(options, 1, 1), ConfigError);
}

}  // namespace
}  // namespace distdl::data
