// The layouts of gradients that a schedule decides on, one after the other, and the path of the
// present one. What its codecs keep from step to step goes on from path to path, and into
// checkpoints.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/base/json_reader.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/gradient/gradient_schedule.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/step_report.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::gradient {

class ScheduledPath {
 public:
  // `dense` outlive this. `carries`: gradients travel by it; if not, there is no path, and it only
  // keeps what checkpoints have. `drain` waits until nothing is under way; it is called before
  // another path takes this one's place. Collective.
  ScheduledPath(std::span<const replica::Parameter> dense, Communicator& group, Job* job,
                const DataParallelOptions& options, bool carries, std::function<void()> drain);

  GradientSchedule& schedule() { return schedule_; }
  // REQUIRES: it carries. Of the next layout, once that was decided.
  schedule::GradientPath& path() { return *path_; }
  const GradientLayout& layout() const { return layout_; }
  // The one with which the next step begins, if the schedule wants another one.
  const std::optional<GradientLayout>& next_layout() const { return next_layout_; }
  // REQUIRES: there is one.
  void take_next_layout();

  // Tells how gradients travelled since the last report.
  void report(StepReport& step);
  // Collective: the schedule learns from a step that has ended, and may decide on another layout.
  void end_step(schedule::ObservedStep step);

  // See Synchrony.
  replica::SynchronyState state();
  void restore(const replica::SavedSynchrony& saved);

 private:
  void go_on_with(GradientLayout layout);
  const GradientLayout& layout_of_path() const { return next_layout_ ? *next_layout_ : layout_; }
  std::vector<std::byte> codec_state();
  void restore_codecs(std::vector<std::byte> state);
  std::vector<std::byte> own_part_of(const replica::SavedSynchrony& saved) const;

  const std::span<const replica::Parameter> dense_;
  Communicator& group_;
  Job* const with_servers_;  // whose servers may form the means; null: the group does
  GradientSchedule schedule_;
  const std::function<void()> drain_;
  GradientLayout layout_;
  std::optional<GradientLayout> next_layout_;     // of the path already; none: `layout_` goes on
  std::unique_ptr<schedule::GradientPath> path_;  // none: it does not carry
  std::vector<std::byte> codec_state_;            // kept while nothing is compressed
  double under_way_before_ = 0;
  schedule::GradientPath::CodecWork coded_before_;
};

// The state of gradient averaging that goes from step to step, as a value and as that of a
// checkpoint.
struct TrainingState {
  // The options by which the schedule was decided; it is taken up again only under the same.
  std::string options;
  std::optional<ScheduleDecision> decision = {};
};

JsonReader::Json json_of(const TrainingState& state);
// THROWS Error (io): it is not what json_of() makes.
TrainingState training_state_of(const JsonReader::Json& json);

}  // namespace paceline::gradient
