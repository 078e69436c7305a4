#include "paceline/core/job/leaving.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <vector>

namespace paceline::job {
namespace {

constexpr std::chrono::milliseconds kLookAgain{1};
constexpr std::chrono::milliseconds kTell{500};  // a process that dies does not wait for longer

// std::terminate has one handler for the whole process, so what it looks at is the process's too.
struct Handler {
  std::mutex mutex;
  std::vector<UncaughtExceptions*> jobs;
  std::terminate_handler before = nullptr;
};

Handler& handler() {
  static Handler& only = *new Handler;  // destructors of statics may throw as well
  return only;
}

[[noreturn]] void tell_and_terminate() {
  static std::atomic_flag entered;
  Handler& all = handler();
  if (!entered.test_and_set() && all.mutex.try_lock()) {
    const std::string text = text_of_current_exception();
    for (UncaughtExceptions* job : all.jobs) job->tell(text);
    all.mutex.unlock();
  }
  if (all.before != nullptr) all.before();
  std::abort();
}

}  // namespace

std::string text_of_current_exception() {
  if (std::current_exception() == nullptr) return "std::terminate was called";
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an object that is no std::exception";
  }
}

void flush(transport::Reactor& reactor, membership::Generation& generation, Deadline deadline) {
  std::atomic<bool> flushed = false;
  const auto is_flushed = [&] {
    if (reactor.driven_by_this_thread())
      flushed = generation.flushed();  // the links are the driver's
    return flushed.load();
  };
  // No descriptor tells that a peer's host has taken the last bytes.
  while (!deadline.passed() &&
         !reactor.drive_until(is_flushed, deadline.sooner(Deadline::in(kLookAgain)))) {
  }
}

UncaughtExceptions::UncaughtExceptions(transport::Reactor& reactor,
                                       membership::Generation& generation)
    : reactor_(reactor), generation_(generation) {
  Handler& all = handler();
  const std::lock_guard lock(all.mutex);
  if (std::get_terminate() != &tell_and_terminate)
    all.before = std::set_terminate(tell_and_terminate);
  all.jobs.push_back(this);
}

UncaughtExceptions::~UncaughtExceptions() {
  Handler& all = handler();
  const std::lock_guard lock(all.mutex);
  std::erase(all.jobs, this);
}

void tell_exception(transport::Reactor& reactor, membership::Generation& generation,
                    std::string_view did, const std::string& text) {
  if (!reactor.is_of_this_process()) return;
  const membership::GenerationIdentity& own = generation.identity();
  const int rank = own.rank;
  const Failure why{
      Fault::cancelled, fmt::format("{} {}: {}", own.name_of(rank), did, text), {rank}};
  const auto fail = [&generation, why] { generation.fail(why); };
  if (reactor.driven_by_this_thread()) return fail();  // nobody else can drive
  reactor.post(fail);
  flush(reactor, generation, Deadline::in(kTell));
}

void UncaughtExceptions::tell(const std::string& what) {
  tell_exception(reactor_, generation_, "threw an exception that nobody caught, and ended", what);
}

}  // namespace paceline::job
