// StagedCalls: the calls of a group that wait for a device: for their input to come to the host, for
// their output to be back, or for what it does without the host. A device has no descriptor that
// tells of progress, so it is asked at each look of the reactor's driver.
//
// THREAD: reactor's driver only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/collective/call/work_state.h"
#include "paceline/core/collective/staging/staged_call.h"
#include "paceline/core/transport/reactor/naps.h"

namespace paceline::collective {

class StagedCalls final : private transport::Pollable {
 public:
  // `on_passed`: moments have passed that calls awaited, or pieces of inputs have come.
  // `on_failure`: the device has failed, or a call waited for it until its deadline. Both may call
  // this.
  StagedCalls(transport::Reactor& reactor, std::function<void()> on_passed,
              std::function<void(Failure)> on_failure);
  ~StagedCalls() override;

  void await(std::shared_ptr<StagedCall> call, StagedCall::Moment moment, const Work::State& work,
             Deadline deadline);
  // Brings the output back, and ends the work.
  void bring_back(std::shared_ptr<StagedCall> call, std::shared_ptr<Work::State> work,
                  Deadline deadline);

  bool idle() const { return waits_.empty(); }
  Deadline next_deadline() const;
  // A call whose deadline has passed.
  std::optional<Failure> overdue(Clock::time_point now) const;
  // The calls that have waited for `patience`, each once, in words.
  std::vector<std::string> stalled(Clock::time_point now, Clock::duration patience);
  // Ends all works with `why`.
  void failed(const Failure& why);

 private:
  struct Wait {
    std::shared_ptr<StagedCall> call;
    StagedCall::Moment moment;
    std::shared_ptr<Work::State> work = {};  // that ends when its output is back
    std::string description = {};
    Deadline deadline = {};
    Clock::time_point since = Clock::now();
    bool is_told = false;
  };
  void add(Wait wait);
  void stop_looking();
  bool poll() override;
  void set_asleep(bool asleep) override { naps_.set_asleep(asleep); }
  static std::string text_of(const Wait& wait);
  static Failure broken(const Wait& wait, const Failure& why);

  transport::Reactor& reactor_;
  const std::function<void()> on_passed_;
  const std::function<void(Failure)> on_failure_;
  transport::Naps naps_;
  std::vector<Wait> waits_;
};

}  // namespace paceline::collective
