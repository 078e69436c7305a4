#include "paceline/core/server/machine/downpour_course.h"

namespace paceline::server {

DownpourPlan downpour_plan(const Settings& settings) {
  return {.push = settings.as<std::int64_t>("push"),
          .fetch = settings.as<std::int64_t>("fetch"),
          .is_blocking = settings.on("fetching"),
          .warm_start = settings.as<std::int64_t>("warm_start")};
}

DownpourCourse::DownpourCourse(const DownpourPlan& plan, bool leads, int workers)
    : plan_(plan),
      leads_(leads),
      is_warming_(plan.warm_start > 0 && workers > 1),
      workers_(workers) {}

void DownpourCourse::rested() {
  steps_ = 0;
  is_warming_ = false;
}

}  // namespace paceline::server
