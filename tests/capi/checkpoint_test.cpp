// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <fstream>
#include <numeric>

#include "tests/capi/capi_fixture.hpp"

namespace distdl::capi {
namespace {
using testing::ElementsAre;

constexpr std::int64_t kRows = 12, kColumns = 5;
constexpr std::int64_t kShape[] = {kRows, kColumns};

class Checkpoints : public CApiTest {
 public:
  /// Saves a matrix whose elements are their numbers plus the step: each rank has some rows. Also what all ranks have.
  static void save(distdl_comm* comm, distdl_store* store, std::int64_t step, int how = DISTDL_NOW) {
    const std::int64_t rank = comm ? rank_of(comm) : 0, size = comm ? size_of(comm) : 1;
    const std::int64_t offset[] = {kRows * rank / size, 0};
    const std::int64_t extent[] = {kRows * (rank + 1) / size - offset[0], kColumns};
    std::vector<double> rows(static_cast<std::size_t>(extent[0] * kColumns));
    std::iota(rows.begin(), rows.end(), static_cast<double>(offset[0] * kColumns + step));
    const std::int64_t large[] = {1 << 9, 1 << 9};
    const std::vector<float> replicated(std::size_t{1} << 18, static_cast<float>(step));
    distdl_save* save = nullptr;
    DISTDL_SUCCEEDS(distdl_save_begin(store, step, &save));
    DISTDL_SUCCEEDS(distdl_save_add(save, "matrix", DISTDL_F64, 2, kShape, offset, extent, rows.data()));
    DISTDL_SUCCEEDS(distdl_save_add_replicated(save, "large", DISTDL_F32, 2, large, replicated.data()));
    DISTDL_SUCCEEDS(distdl_save_add_replicated(save, "number", DISTDL_I64, 0, nullptr, &step));
    DISTDL_SUCCEEDS(distdl_save_add_bytes(save, "about/json", R"({"a": 1})", 8));
    DISTDL_SUCCEEDS(distdl_save_commit(save, how));
  }
  /// Reads some columns of it, and what all ranks have.
  static void expect_columns(distdl_load* load, std::int64_t step, std::int64_t first, std::int64_t columns) {
    const std::int64_t offset[] = {0, first}, extent[] = {kRows, columns};
    std::vector<double> box(static_cast<std::size_t>(kRows * columns)), expected;
    for (std::int64_t row = 0; row < kRows; ++row)
      for (std::int64_t column = first; column < first + columns; ++column)
        expected.push_back(static_cast<double>(row * kColumns + column + step));
    std::int64_t number = 0;
    std::string json(8, ' ');
    DISTDL_SUCCEEDS(distdl_load_add(load, "matrix", DISTDL_F64, offset, extent, box.data()));
    DISTDL_SUCCEEDS(distdl_load_add(load, "number", DISTDL_I64, nullptr, nullptr, &number));
    DISTDL_SUCCEEDS(distdl_load_add(load, "about/json", DISTDL_U8, nullptr, nullptr, json.data()));
    DISTDL_SUCCEEDS(distdl_load_read(load));
    EXPECT_EQ(expected, box);
    EXPECT_EQ(step, number);
    EXPECT_EQ(R"({"a": 1})", json);
  }
  void with_store(distdl_comm* comm, const char* options, const std::function<void(distdl_store*)>& body) const {
    distdl_store* store = nullptr;
    DISTDL_SUCCEEDS(distdl_store_open(path("checkpoints").c_str(), comm, options, &store));
    body(store);
    DISTDL_SUCCEEDS(distdl_store_close(store));
  }
  static std::vector<std::int64_t> steps_of(distdl_store* store) {
    std::vector<std::int64_t> steps(10);
    std::size_t count = 0;
    EXPECT_EQ(DISTDL_OK, distdl_store_steps(store, steps.data(), steps.size(), &count));
    steps.resize(count);
    return steps;
  }
};

TEST_F(Checkpoints, AreReadByAnyNumberOfRanksInOtherBoxes) {
  on_ranks(3, [&](distdl_comm* comm) {
    with_store(comm, nullptr, [&](distdl_store* store) {
      distdl_load* load = nullptr;
      expect_error(distdl_load_begin(store, -1, &load), DISTDL_NOT_FOUND, {"no checkpoint"});
      save(comm, store, 10);
      save(comm, store, 20);
      EXPECT_THAT(steps_of(store), ElementsAre(10, 20));
    });
  });
  on_ranks(2, [&](distdl_comm* comm) {
    with_store(comm, "checkpoint.keep=2", [&](distdl_store* store) {
      for (const std::int64_t step : {20, 10}) {
        distdl_load* load = nullptr;
        DISTDL_SUCCEEDS(distdl_load_begin(store, step == 20 ? -1 : 20, &load));
        std::int64_t found = 0;
        DISTDL_SUCCEEDS(distdl_load_step(load, &found));
        EXPECT_EQ(step, found);
        expect_columns(load, step, rank_of(comm) == 0 ? 0 : 2, rank_of(comm) == 0 ? 2 : 3);
        DISTDL_SUCCEEDS(distdl_load_close(load));
      }
    });
  });
}

/// The format that the manifest of the newest checkpoint has.
std::string format_in(const std::string& folder) {
  std::ifstream file(folder + "/step-000000000001/MANIFEST");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto at = text.find("\"format\":");
  return at == std::string::npos ? text : text.substr(at + 9, 1);
}

TEST_F(Checkpoints, HaveAllTypesAndArraysWithoutElements) {
  constexpr std::int64_t kCount = 6, kNothing[] = {0, 3};
  const auto bytes_of = [](int type, char salt) {
    std::vector<char> bytes(kCount * distdl_type_size(type));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<char>(type == DISTDL_BOOL ? i % 2 : i * 3 + salt);
    return bytes;
  };
  const std::vector all{DISTDL_U8,  DISTDL_F32, DISTDL_F64, DISTDL_F16,  DISTDL_BF16, DISTDL_I32,
                        DISTDL_I64, DISTDL_I8,  DISTDL_I16, DISTDL_BOOL, DISTDL_C64,  DISTDL_C128};
  for (const auto& each : {std::pair(std::vector(all.begin(), all.begin() + 7), "1"), std::pair(all, "3")}) {
    const auto& types = each.first;
    const std::string format = each.second, folder = path(format);
    on_ranks(2, [&](distdl_comm* comm) {
      distdl_store* store = nullptr;
      distdl_save* save = nullptr;
      DISTDL_SUCCEEDS(distdl_store_open(folder.c_str(), comm, nullptr, &store));
      DISTDL_SUCCEEDS(distdl_save_begin(store, 1, &save));
      const std::int64_t offset = kCount / 2 * rank_of(comm), extent = kCount / 2, nowhere[] = {0, 0};
      std::deque<std::vector<char>> kept;
      for (const int type : types) {
        const auto own = std::to_string(type);
        const auto& bytes = kept.emplace_back(bytes_of(type, 1));
        DISTDL_SUCCEEDS(distdl_save_add(save, ("boxes/" + own).c_str(), type, 1, &kCount, &offset, &extent,
                                        bytes.data() + static_cast<std::size_t>(offset) * distdl_type_size(type)));
        DISTDL_SUCCEEDS(distdl_save_add_replicated(save, ("same/" + own).c_str(), type, 1, &kCount, bytes.data()));
        DISTDL_SUCCEEDS(distdl_save_add_replicated(save, ("none/" + own).c_str(), type, 2, kNothing, nullptr));
      }
      DISTDL_SUCCEEDS(distdl_save_add(save, "no/boxes", DISTDL_F32, 2, kNothing, nowhere, kNothing, nullptr));
      DISTDL_SUCCEEDS(distdl_save_add_bytes(save, "no/bytes", nullptr, 0));
      DISTDL_SUCCEEDS(distdl_save_commit(save, DISTDL_BESIDE));
      DISTDL_SUCCEEDS(distdl_store_close(store));
    });
    EXPECT_EQ(format, format_in(folder));
    distdl_load* load = nullptr;
    DISTDL_SUCCEEDS(distdl_load_open(folder.c_str(), 1, &load));
    for (const int type : types) {
      int found = -1, dimensions = 0;
      std::int64_t shape[2] = {};
      std::size_t number = 0;
      DISTDL_SUCCEEDS(distdl_load_find(load, ("none/" + std::to_string(type)).c_str(), &number));
      DISTDL_SUCCEEDS(distdl_load_array(load, number, nullptr, &found, &dimensions, shape, 2));
      EXPECT_EQ(type, found);
      EXPECT_THAT(shape, ElementsAre(0, 3));
      const auto expected = bytes_of(type, 1);
      std::vector<char> boxes(expected.size()), same(expected.size());
      DISTDL_SUCCEEDS(
          distdl_load_add(load, ("boxes/" + std::to_string(type)).c_str(), type, nullptr, nullptr, boxes.data()));
      DISTDL_SUCCEEDS(
          distdl_load_add(load, ("same/" + std::to_string(type)).c_str(), type, nullptr, nullptr, same.data()));
      DISTDL_SUCCEEDS(distdl_load_add(load, ("none/" + std::to_string(type)).c_str(), type, nullptr, nullptr, nullptr));
      DISTDL_SUCCEEDS(distdl_load_read(load));
      EXPECT_EQ(expected, boxes) << type;
      EXPECT_EQ(expected, same) << type;
    }
    for (const char* name : {"no/boxes", "no/bytes"}) {
      std::size_t number = 0;
      DISTDL_SUCCEEDS(distdl_load_find(load, name, &number));
    }
    DISTDL_SUCCEEDS(distdl_load_close(load));
  }
}

TEST_F(Checkpoints, TellWhatIsInThem) {
  with_store(nullptr, nullptr, [&](distdl_store* store) { save(nullptr, store, 7); });
  distdl_load* load = nullptr;
  DISTDL_SUCCEEDS(distdl_load_open(path("checkpoints").c_str(), 7, &load));
  std::size_t count = 0, number = 0;
  DISTDL_SUCCEEDS(distdl_load_count(load, &count));
  EXPECT_EQ(4U, count);
  const char *name = nullptr, *source = nullptr;
  int type = -1, dimensions = -1;
  std::int64_t shape[4] = {};
  DISTDL_SUCCEEDS(distdl_load_find(load, "matrix", &number));
  DISTDL_SUCCEEDS(distdl_load_array(load, number, &name, &type, &dimensions, shape, 4));
  EXPECT_STREQ("matrix", name);
  EXPECT_EQ(DISTDL_F64, type);
  EXPECT_EQ(2, dimensions);
  EXPECT_THAT(shape, ElementsAre(kRows, kColumns, 0, 0));
  DISTDL_SUCCEEDS(distdl_load_source(load, &source));
  EXPECT_STREQ("the file system", source);
  expect_columns(load, 7, 1, 3);
  DISTDL_SUCCEEDS(distdl_load_close(load));
  expect_error(distdl_load_open(path("checkpoints").c_str(), 8, &load), DISTDL_NOT_FOUND, {"step-000000000008"});
  expect_error(distdl_load_open(path("nothing").c_str(), -1, &load), DISTDL_NOT_FOUND, {"nothing"});
}

TEST_F(Checkpoints, AreWrittenBesideTheProgram) {
  on_ranks(2, [&](distdl_comm* comm) {
    with_store(comm, "checkpoint.keep=2", [&](distdl_store* store) {
      for (std::int64_t step = 1; step <= 5; ++step) {
        save(comm, store, step, DISTDL_BESIDE);
        DISTDL_SUCCEEDS(distdl_store_wait(store));
      }
      int busy = 1;
      DISTDL_SUCCEEDS(distdl_store_busy(store, &busy));
      EXPECT_EQ(0, busy);
      distdl_outcome outcome{};
      outcome.size = sizeof outcome;
      for (std::int64_t step = 1; step <= 5; ++step) {
        DISTDL_SUCCEEDS(distdl_store_outcome(store, &outcome));
        EXPECT_EQ(step, outcome.step);
        EXPECT_EQ(DISTDL_OK, outcome.code);
        EXPECT_EQ(1, outcome.is_checkpoint);
        EXPECT_GT(outcome.bytes, 0);
      }
      expect_error(distdl_store_outcome(store, &outcome), DISTDL_NOT_FOUND, {"no save"});
      save(comm, store, 6, DISTDL_BESIDE);  // closing waits for it
    });
    with_store(comm, nullptr, [&](distdl_store* store) {
      distdl_load* load = nullptr;
      DISTDL_SUCCEEDS(distdl_load_begin(store, -1, &load));
      expect_columns(load, 6, 0, kColumns);
      DISTDL_SUCCEEDS(distdl_load_close(load));
    });
  });
}

TEST_F(Checkpoints, AreWrittenInEachMode) {
  for (const char* options : {"checkpoint.mode=sync", "checkpoint.mode=lazy; checkpoint.compression=zstd"})
    on_ranks(2, [&](distdl_comm* comm) {
      with_store(comm, options, [&](distdl_store* store) {
        distdl_save* begun = nullptr;
        const std::int64_t shape = 1000;
        DISTDL_SUCCEEDS(distdl_save_begin(store, 0, &begun));
        DISTDL_SUCCEEDS(distdl_save_add_replicated(begun, "a", DISTDL_F32, 1, &shape, &shape));
        DISTDL_SUCCEEDS(distdl_save_prepare(begun));
        expect_error(distdl_save_discard(begun), DISTDL_INVALID, {"save was closed"});
        save(comm, store, 3, DISTDL_BESIDE);
        DISTDL_SUCCEEDS(distdl_store_wait(store));
        distdl_load* load = nullptr;
        DISTDL_SUCCEEDS(distdl_load_begin(store, -1, &load));
        expect_columns(load, 3, 0, kColumns);
        DISTDL_SUCCEEDS(distdl_load_close(load));
      });
    });
}

TEST_F(Checkpoints, SayWhatIsDue) {
  with_store(nullptr, "checkpoint.every = 10; checkpoint.memory_every = 4", [&](distdl_store* store) {
    std::vector<int> due;
    for (const std::int64_t step : {1, 4, 10, 20}) DISTDL_SUCCEEDS(distdl_store_due(store, step, &due.emplace_back()));
    EXPECT_THAT(due, ElementsAre(0, DISTDL_SNAPSHOT, DISTDL_BESIDE, DISTDL_BESIDE));
    save(nullptr, store, 4, DISTDL_SNAPSHOT);
    DISTDL_SUCCEEDS(distdl_store_wait(store));
    EXPECT_TRUE(steps_of(store).empty());
    distdl_outcome outcome{};
    outcome.size = sizeof outcome;
    DISTDL_SUCCEEDS(distdl_store_outcome(store, &outcome));
    EXPECT_EQ(0, outcome.is_checkpoint);
  });
}

TEST_F(Checkpoints, RefuseArraysThatAreNotWhole) {
  on_ranks(2, [&](distdl_comm* comm) {
    with_store(comm, nullptr, [&](distdl_store* store) {
      distdl_save* save = nullptr;
      const std::int64_t shape = 4, offset = rank_of(comm), extent = 1;
      const float value = 1;
      DISTDL_SUCCEEDS(distdl_save_begin(store, 1, &save));
      DISTDL_SUCCEEDS(distdl_save_add(save, "a", DISTDL_F32, 1, &shape, &offset, &extent, &value));
      expect_error(distdl_save_commit(save, DISTDL_NOW), DISTDL_INCOMPATIBLE, {"distdl_save_commit", "\"a\""});
      EXPECT_TRUE(steps_of(store).empty());
      expect_error(distdl_save_discard(save), DISTDL_INVALID, {"save was closed"});
      DISTDL_SUCCEEDS(distdl_save_begin(store, 1, &save));
      DISTDL_SUCCEEDS(distdl_save_add(save, "a", DISTDL_F32, 1, &shape, &offset, &extent, &value));
      DISTDL_SUCCEEDS(distdl_save_commit(save, DISTDL_BESIDE));
      expect_error(distdl_store_wait(store), DISTDL_INCOMPATIBLE, {"distdl_store_wait", "\"a\""});
      Checkpoints::save(comm, store, 2);
      EXPECT_THAT(steps_of(store), ElementsAre(2));
    });
  });
}

TEST_F(Checkpoints, FallBackIfTheNewestIsDamaged) {
  with_store(nullptr, nullptr, [&](distdl_store* store) {
    save(nullptr, store, 1);
    save(nullptr, store, 2);
  });
  std::fstream file(path("checkpoints/step-000000000002/node0000.h5"), std::ios::in | std::ios::out);
  file.seekp(-100, std::ios::end);
  file.write("damaged", 7);
  file.close();
  with_store(nullptr, nullptr, [&](distdl_store* store) {
    distdl_load* load = nullptr;
    DISTDL_SUCCEEDS(distdl_load_begin(store, -1, &load));
    expect_columns(load, 1, 0, 1);
    DISTDL_SUCCEEDS(distdl_load_close(load));
  });
}

TEST_F(Checkpoints, OfAStartThatLostItsFolderAreRefused) {
  distdl_store *zombie = nullptr, *store = nullptr;
  DISTDL_SUCCEEDS(distdl_store_open(path("checkpoints").c_str(), nullptr, "", &zombie));
  DISTDL_SUCCEEDS(distdl_store_open(path("checkpoints").c_str(), nullptr, "", &store));
  distdl_save* save = nullptr;
  DISTDL_SUCCEEDS(distdl_save_begin(zombie, 1, &save));
  DISTDL_SUCCEEDS(distdl_save_add_bytes(save, "a", "b", 1));
  expect_error(distdl_save_commit(save, DISTDL_NOW), DISTDL_SUPERSEDED, {"distdl_save_commit"});
  EXPECT_EQ(73, distdl_error_exit_code());
  expect_error(distdl_store_close(zombie), DISTDL_SUPERSEDED, {"distdl_store_close"});
  DISTDL_SUCCEEDS(distdl_store_close(store));
}

}  // namespace
}  // namespace distdl::capi
