// DownpourCourse: when a worker of Downpour SGD pushes what it has accrued, and when it fetches. It
// counts steps from the last rest, at which all workers have the values of the table.
//
//   if (course.waits()) rest();                    // another worker makes the warm start alone
//   if (course.asks()) ask_for_values();           // they come while the step computes
//   accrue(gradient), descend(gradient);
//   course.step_made();
//   take_values_asked_for();                       // from the next step on
//   if (course.pushes()) push_what_is_accrued();   // times course.factor()
//   if (course.fetches()) wait_for_values();
//   if (course.ends_warm_start()) rest();          // with what is accrued
#pragma once

#include <cstdint>

#include "paceline/core/settings/settings.h"

namespace paceline::server {

struct DownpourPlan {
  std::int64_t push = 1, fetch = 1;  // steps from one to the next
  bool is_blocking = true;           // else the values of a fetch are used from the next step on
  std::int64_t warm_start = 0;       // steps that one worker makes alone
};

// `settings`: those of the synchrony `downpour`.
DownpourPlan downpour_plan(const Settings& settings);

// A value.
class DownpourCourse {
 public:
  // `leads`: this one of the `workers` makes the warm start, if there is one.
  DownpourCourse(const DownpourPlan& plan, bool leads, int workers);

  // --- before a step ---

  bool waits() const { return is_warming_ && !leads_; }
  bool asks() const { return !plan_.is_blocking && steps_ % plan_.fetch == 0; }

  // --- after a step, which has accrued its gradient ---

  void step_made() { ++steps_; }
  bool pushes() const { return steps_ % plan_.push == 0; }
  // A push counts by its share of all weights, and workers that have said none count as the mean of
  // those that have: alone it counts whole.
  double factor() const { return is_warming_ ? workers_ : 1; }
  bool fetches() const { return plan_.is_blocking && steps_ % plan_.fetch == 0; }
  bool ends_warm_start() const { return is_warming_ && leads_ && steps_ >= plan_.warm_start; }

  // --- between steps ---

  // A push has not had all gradients.
  bool has_accrued() const { return steps_ % plan_.push != 0; }
  // All have pushed what they accrued, and have the same values. It ends the warm start.
  void rested();
  bool is_warming() const { return is_warming_; }

 private:
  DownpourPlan plan_;
  bool leads_, is_warming_;
  int workers_;
  std::int64_t steps_ = 0;  // since the last rest
};

}  // namespace paceline::server
