#include "paceline/torch/bridge/own_thread.h"

#include <c10/util/StringUtil.h>
#include <unistd.h>

#include <atomic>

#include "paceline/core/base/base.h"

namespace paceline {
namespace {

std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> threads = 0;
  static thread_local const std::uint64_t number = ++threads;
  return number;
}

}  // namespace

OwnThread::OwnThread() : thread_(this_thread()), system_thread_(::gettid()) {}

bool OwnThread::is_here() const {
  return thread_ == this_thread();
}

void OwnThread::refuse(const char* call) const {
  throw_misuse(
      c10::str(call, "() was called in thread ", ::gettid(),
               ", and what it belongs to was made in thread ", system_thread_,
               ": libtorch keeps the number of threads and other modes for each thread by itself, "
               "so that the result would have other bits. Make it in the thread that trains, and "
               "run the backward passes there"));
}

}  // namespace paceline
