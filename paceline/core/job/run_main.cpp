#include "paceline/core/job/run_main.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "paceline/core/job/job_impl.h"
#include "paceline/core/job/leaving.h"

namespace paceline {

int run_main(const std::function<int(Job&)>& main_of_job) {
  try {
    Job job = init();
    try {
      return main_of_job(job);
    } catch (...) {
      job::tell_exception(*job.impl().reactor, *job.impl().generation,
                          "threw an exception, and ended", job::text_of_current_exception());
      throw;
    }
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return error.fault() == Fault::misuse ? 2 : 1;
  } catch (...) {
    fmt::print(stderr, "error: {}\n", job::text_of_current_exception());
    return 1;
  }
}

}  // namespace paceline
