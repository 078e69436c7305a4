#include "paceline/core/job/job_links.h"

#include "paceline/core/job/job_impl.h"

namespace paceline::job {

JobLinks links_of(Job& job) {
  const Job::Impl& impl = job.impl();
  return {impl.reactor, impl.generation, impl.environment.operation_timeout,
          impl.environment.stall_time};
}

void check_alive(const JobLinks& links) {
  constexpr std::chrono::seconds kLongestEnd{5};  // it waits for no other rank
  links.reactor->check_process();
  if (!links.generation->is_failing()) return;
  links.reactor->drive_until([&] { return links.generation->failure().has_value(); },
                             Deadline::in(kLongestEnd));
  if (const auto failure = links.generation->failure()) throw Error(*failure);
}

}  // namespace paceline::job
