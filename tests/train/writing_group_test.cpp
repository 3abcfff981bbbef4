// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/train/writing_group.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::train {
namespace {

TEST(WritersMeeting, DoesNotWaitForEverForAThreadThatDoesNotCome) {
  world::run_threads(2, [](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    WritersMeeting meeting(world.rank(), 2, {}, std::chrono::seconds(4));
    try {
      meeting.introduce(*communicator);  // and nobody calls connect()
      ADD_FAILURE() << "they met";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the thread that writes checkpoints"), std::string::npos)
          << error.what();
    }
    communicator->close();
  });
}

}  // namespace
}  // namespace distdl::train
