#include "paceline/linear/threads/team.h"

#include <fmt/format.h>

#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::linear {

void run_team(int threads, const std::function<void(int thread)>& work) {
  std::promise<bool> all_are_here;
  const std::shared_future<bool> may_begin = all_are_here.get_future().share();
  std::vector<std::jthread> others;  // their destructors join
  try {
    for (int thread = 1; thread < threads; ++thread)
      others.emplace_back([&, thread] {
        if (may_begin.get()) work(thread);
      });
  } catch (const std::system_error& error) {
    all_are_here.set_value(false);
    throw Error(
        {Fault::io,
         fmt::format("the system starts only {} of {} threads ({}): ask for fewer, or raise "
                     "`ulimit -u`",
                     others.size() + 1, threads, error.what()),
         {}});
  }
  all_are_here.set_value(true);
  work(0);
}

}  // namespace paceline::linear
