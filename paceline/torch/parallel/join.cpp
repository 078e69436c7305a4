#include "paceline/torch/parallel/join.h"

#include "paceline/core/base/base.h"

namespace paceline {

JoinedLoop::JoinedLoop(DataParallel& parallel)
    : parallel_(parallel), life_(parallel.life()), before_(parallel.said_weight()) {}

JoinedLoop::~JoinedLoop() {
  if (!life_.expired()) parallel_.restore_weight(before_);
}

void JoinedLoop::begin_turn(bool has_batch) {
  has_batch_ = has_batch;
  steps_ = parallel_.last_step().step;
  parallel_.weight(has_batch ? 1 : 0);
}

bool JoinedLoop::end_turn() {
  if (parallel_.last_step().step != steps_) return parallel_.last_step().total_weight > 0;
  if (!has_batch_) {
    throw_misuse(
        "DataParallel::join: a turn without a batch ended without parallel.step(optimizer), for "
        "which the other ranks wait: call it in every turn, also where `turn` is false. To "
        "accumulate, hand join() a loader of windows of batches: a turn is one step");
  }
  return true;
}

}  // namespace paceline
