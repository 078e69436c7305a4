// torch's learning-rate schedules as items. libtorch has no way to save them: what they keep is
// opened by name.
#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/checkpointing/checkpoint_part.h"

namespace paceline::opened {

using torch::optim::LRScheduler;
using Plateau = torch::optim::ReduceLROnPlateauScheduler;

struct ScheduleCount {
  using Type = unsigned LRScheduler::*;
  friend Type member(ScheduleCount);
};
struct ScheduleRates {
  using Type = std::vector<double> (LRScheduler::*)() const;
  friend Type member(ScheduleRates);
};
struct ScheduleSetRates {
  using Type = void (LRScheduler::*)(const std::vector<double>&);
  friend Type member(ScheduleSetRates);
};
struct PlateauBest {
  using Type = float Plateau::*;
  friend Type member(PlateauBest);
};
struct PlateauEpoch {
  using Type = int Plateau::*;
  friend Type member(PlateauEpoch);
};
struct PlateauBadEpochs {
  using Type = int Plateau::*;
  friend Type member(PlateauBadEpochs);
};
struct PlateauCooldown {
  using Type = int Plateau::*;
  friend Type member(PlateauCooldown);
};

template struct Member<ScheduleCount, &LRScheduler::step_count_>;
template struct Member<ScheduleRates, &LRScheduler::get_current_lrs>;
template struct Member<ScheduleSetRates, &LRScheduler::set_optimizer_lrs>;
template struct Member<PlateauBest, &Plateau::best>;
template struct Member<PlateauEpoch, &Plateau::last_epoch>;
template struct Member<PlateauBadEpochs, &Plateau::num_bad_epochs>;
template struct Member<PlateauCooldown, &Plateau::cooldown_counter>;

}  // namespace paceline::opened

namespace paceline::checkpointing {
namespace {

using torch::optim::LRScheduler;
using torch::optim::ReduceLROnPlateauScheduler;

// The count of a schedule, and the rates that it has made of those with which it began: they stand
// in its optimizer, which need not be an item.
struct ScheduleState {
  std::uint64_t steps = 0;
  std::vector<double> rates;

  static ScheduleState of(const LRScheduler& schedule) {
    return {schedule.*member(opened::ScheduleCount{}),
            (schedule.*member(opened::ScheduleRates{}))()};
  }
  void set(LRScheduler& schedule) const {
    schedule.*member(opened::ScheduleCount{}) = static_cast<unsigned>(steps);
    (schedule.*member(opened::ScheduleSetRates{}))(rates);
  }
  void visit(CheckpointFields& fields) {
    fields("steps", steps);
    fields("rates", rates);
  }
  std::string difference(const LRScheduler& schedule) const {
    const std::size_t own = of(schedule).rates.size();
    if (own == rates.size()) return {};
    return c10::str("it has the rates of ", rates.size(),
                    " groups of parameters, and this program's optimizer has ", own);
  }
};

struct PlateauState {
  float best = 0;
  int epoch = 0, bad_epochs = 0, cooldown = 0;

  static PlateauState of(const ReduceLROnPlateauScheduler& schedule) {
    return {schedule.*member(opened::PlateauBest{}), schedule.*member(opened::PlateauEpoch{}),
            schedule.*member(opened::PlateauBadEpochs{}),
            schedule.*member(opened::PlateauCooldown{})};
  }
  void set(ReduceLROnPlateauScheduler& schedule) const {
    schedule.*member(opened::PlateauBest{}) = best;
    schedule.*member(opened::PlateauEpoch{}) = epoch;
    schedule.*member(opened::PlateauBadEpochs{}) = bad_epochs;
    schedule.*member(opened::PlateauCooldown{}) = cooldown;
  }
  void visit(CheckpointFields& fields) {
    fields("best", best);
    fields("last_epoch", epoch);
    fields("bad_epochs", bad_epochs);
    fields("cooldown", cooldown);
  }
  static std::string difference(const ReduceLROnPlateauScheduler&) { return {}; }
};

template <typename State, typename Schedule>
class SchedulerPart final : public CheckpointPart {
 public:
  explicit SchedulerPart(Schedule& schedule) : schedule_(schedule) {}

  ItemState state() override {
    CheckpointFields fields;
    State::of(schedule_).visit(fields);
    return std::move(fields.state());
  }
  void check(const SavedItem& saved) override {
    if (const std::string difference = read(saved).difference(schedule_); !difference.empty())
      refuse_item(saved, difference);
  }
  void load(const SavedItem& saved) override { read(saved).set(schedule_); }

 private:
  static State read(const SavedItem& saved) {
    CheckpointFields fields(saved, /*only_checks=*/false);
    State state;
    state.visit(fields);
    fields.require_no_other();
    return state;
  }

  Schedule& schedule_;
};

}  // namespace

PartPtr scheduler_part(LRScheduler& schedule) {
  return std::make_unique<SchedulerPart<ScheduleState, LRScheduler>>(schedule);
}
PartPtr scheduler_part(ReduceLROnPlateauScheduler& schedule) {
  return std::make_unique<SchedulerPart<PlateauState, ReduceLROnPlateauScheduler>>(schedule);
}

}  // namespace paceline::checkpointing
