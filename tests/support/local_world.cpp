#include "tests/support/local_world.h"

#include <exception>
#include <mutex>
#include <thread>

namespace paceline::test {

void run_ranks(int world_size, const std::function<void(Job&)>& body) {
  run_ranks(world_size, {}, body);
}

void run_ranks(int world_size, const LocalWorldOptions& options,
               const std::function<void(Job&)>& body) {
  std::vector<Job> jobs = make_local_world(world_size, options);
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (Job& job : jobs) {
      threads.emplace_back([&, own = std::move(job)]() mutable {
        Job ours = std::move(own);
        try {
          body(ours);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
      });
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace paceline::test
