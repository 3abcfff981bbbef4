// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <thread>

#include <distdl/base/clock.hpp>
#include <distdl/capi/library/arguments.hpp>
#include <distdl/capi/library/request.hpp>

namespace distdl::capi {

std::shared_ptr<RequestObject> finish_or_open(const std::shared_ptr<CommunicatorObject>& object, Begun begun,
                                              distdl_request** request) {
  if (request == nullptr) {
    begun.request.wait();
    if (begun.finish) begun.finish();
    return nullptr;
  }
  auto made = std::make_shared<RequestObject>(object, std::move(begun));
  *request = open_handle(made);
  return made;
}

namespace {
using namespace std::chrono_literals;
constexpr auto kTurn = 500us;  ///< a wait with a limit keeps the communicator for so long, unless another call wants it

/// Calls done(request) and closes the handle if that says that the operation is done, or throws. Returns whether it is.
template <class Done>
bool look(distdl_request** request, Done&& done) {
  const auto object = object_of<RequestObject>(*request, "request");
  const auto family = object->communicator->family;
  const auto lock = family->lock();
  const auto close = [&] {
    object->end();
    close_handle(*request);
    *request = nullptr;
  };
  try {
    family->check();
    need(!object->is_done, "request was closed");
    if (!done(*object)) return false;
    if (object->finish) object->finish();
  } catch (const CommError& error) {
    family->set_failed(error.what());
    close();
    throw;
  } catch (...) {
    close();
    throw;
  }
  close();
  return true;
}

/// Large arrays go through shared memory in many small pieces, each of which needs this rank: it sleeps only while
/// nothing comes.
bool take_turn(RequestObject& object, const Deadline& end) {
  comm::Communicator& communicator = object.communicator->get();
  const auto turn = Deadline::after(std::min<Clock::duration>(kTurn, end.remaining()));
  while (!object.request.test()) {
    if (turn.expired() || object.communicator->family->is_wanted()) return false;
    communicator.await_messages(turn.remaining());
  }
  return true;
}

bool look_until(distdl_request** request, Deadline end) {
  while (!look(request, [&](RequestObject& object) { return take_turn(object, end); })) {
    if (end.expired()) return false;
    std::this_thread::sleep_for(1us);  // or the mutex would be taken again before another thread has it
  }
  return true;
}
}  // namespace
}  // namespace distdl::capi

using namespace distdl;        // NOLINT(google-build-using-namespace)
using namespace distdl::capi;  // NOLINT(google-build-using-namespace)

int distdl_wait(distdl_request** request, double seconds) {
  return guarded(__func__, [&] {
    constexpr double kLongest = 1e9;
    need(seconds == seconds, "seconds is not a number");
    if (written(request, "request") == nullptr) return;
    if (seconds < 0) {
      look(request, [](RequestObject& object) {
        object.request.wait();
        return true;
      });
      return;
    }
    const std::chrono::duration<double> limit(std::min(seconds, kLongest));
    if (!look_until(request, Deadline::after(std::chrono::duration_cast<Clock::duration>(limit))))
      fail(DISTDL_TIMEOUT, "the operation is not done after {} seconds", seconds);
  });
}

int distdl_test(distdl_request** request, int* done) {
  return guarded(__func__, [&] {
    written(done, "done") = 0;
    *done = written(request, "request") == nullptr ||
            look(request, [](RequestObject& object) { return object.request.test(); });
  });
}

int distdl_cancel(distdl_request** request) {
  return guarded(__func__, [&] {
    if (written(request, "request") == nullptr) return;
    const auto object = object_of<RequestObject>(*request, "request");
    const auto lock = object->communicator->family->lock();
    object->end();
    close_handle(*request);
    *request = nullptr;
  });
}
