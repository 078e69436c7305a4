#include "paceline/torch/checkpointing/saving.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "paceline/core/base/base.h"
#include "paceline/core/base/log.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/agreement.h"
#include "paceline/torch/replica/equal/replica_check.h"

namespace paceline::checkpointing {
namespace {

using checkpoint::Manifest;
using checkpoint::SaveAgreement;
using checkpoint::StoredFile;

// While all ranks wait for a save, each looks so often whether its own part of it has ended.
constexpr auto kLook = std::chrono::milliseconds(5);
constexpr auto kTellSlowAfter = std::chrono::minutes(1);

bool is_ready(const std::future<Result<>>& future) {
  return future.valid() && future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

Saving::Saving(Communicator& group, Disk& disk, checkpoint::CheckpointDirectory& directory, Run run,
               checkpoint::Keep keep)
    : group_(group), directory_(directory), run_(std::move(run)), keep_(keep), writer_(disk) {}

void Saving::tell_failure(const std::string& why) const {
  warn(
      fmt::format("rank {}: no checkpoint of step {}: {}. Training goes on; the newest checkpoint "
                  "stays as it is",
                  group_.rank(), step_, why));
}

// --- a save --------------------------------------------------------------------------------------

void Saving::require_same_on_all(const std::vector<NamedState>& states, std::uint64_t step) {
  if (group_.size() == 1) return;
  std::vector<replica::Parameter> tensors;
  std::vector<std::string> lines;
  for (const ItemTensor& one : common_tensors(states)) {
    tensors.push_back({one.name, one.tensor});
    lines.push_back(fmt::format("{} {}", one.name, describe(one.tensor)));
  }
  replica::require_agreement(group_, lines);
  replica::require_equal_replicas(group_, tensors, static_cast<std::int64_t>(step) + 1);
}

// Rank 0 makes the directory into which all ranks write. False, on all: it could not.
bool Saving::make_place(std::uint64_t step) {
  std::string told;
  if (group_.rank() == 0) {
    const auto begun = directory_.begin(step);
    if (!begun) tell_failure(begun.error().what);
    else told = begun.value();
  }
  place_ = broadcast_bytes(group_, told);
  return !place_.empty();
}

void Saving::begin(std::uint64_t step, const std::vector<NamedState>& states) {
  step_ = step;
  was_committed_ = false;
  OwnShare share = own_share(
      states,
      {.step = step, .job = run_.job, .generation = run_.generation, .world_size = group_.size()},
      group_.rank());
  require_same_on_all(states, step);
  if (!make_place(step)) return;
  own_ = std::move(share.manifest);
  agreement_.begin();
  writer_.start(place_, share.tensors);
}

void Saving::share_ended(Result<std::vector<StoredFile>> result) {
  agreement_.wrote(result.has_value());
  if (result) own_.files = *std::move(result);
  else tell_failure(result.error().what);
}

void Saving::look_at_own_work() {
  if (writer_.is_done()) share_ended(writer_.result());
  if (!is_ready(closing_)) return;
  const Result<> closed = closing_.get();
  if (closed) {
    log_debug(fmt::format("the checkpoint of step {} is committed", step_));
    run_.on_committed(step_);
  } else {
    tell_failure(closed.error().what);
  }
  agreement_.closed(closed.has_value());
}

// All shares have ended. COST: two small messages, if all went well.
void Saving::close(bool some_share_failed) {
  std::vector<std::string> shares;
  if (!some_share_failed) shares = gather_bytes(group_, checkpoint::to_json(own_));
  if (group_.rank() != 0) return;
  closing_ = std::async(std::launch::async, [this, some_share_failed, all = std::move(shares)] {
    Result<> done = some_share_failed
                        ? Failure{Fault::io, "a rank could not write its share of it", {}}
                        : commit(all);
    if (!done) {
      if (const auto gone = directory_.abandon(step_); !gone)
        done = Failure{Fault::io, done.error().what + "; " + gone.error().what, {}};
    }
    return done;
  });
}

Result<> Saving::commit(const std::vector<std::string>& shares) {
  std::vector<Manifest> manifests;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    auto share = checkpoint::parse_share(fmt::format("the share of rank {}", rank), shares[rank]);
    if (!share) return share.error();
    manifests.push_back(*std::move(share));
  }
  auto whole = checkpoint::merged(std::move(manifests));
  if (!whole) return whole.error();
  if (auto done = directory_.commit(*std::move(whole)); !done) return done;
  verified_.insert(step_);
  // The new one is there; an old one that cannot be removed is no reason to say that it is not.
  if (const auto pruned = directory_.prune(keep_, verified_); !pruned)
    warn(fmt::format("cannot remove old checkpoints: {}", pruned.error().what));
  return Done{};
}

// --- rounds --------------------------------------------------------------------------------------

void Saving::begin_round() {
  look_at_own_work();
  round_ = agreement_.news();
  round_is_open_ = true;
  if (group_.size() == 1) return;
  round_work_ = group_.all_reduce(buffer_of(round_), {.op = ReduceOp::max});
}

void Saving::read_round() {
  if (!round_is_open_) return;
  if (group_.size() > 1) run_.wait(round_work_);
  round_is_open_ = false;
  hear(round_);
}

void Saving::hear(const SaveAgreement::News& all) {
  const SaveAgreement::Decision decision = agreement_.hear(all);
  save_asked_ = save_asked_ || decision.save;
  stop_asked_ = stop_asked_ || decision.stop;
  if (decision.close) close(decision.failed);
  if (decision.over) was_committed_ = !decision.failed;
}

void Saving::await_own_work(Deadline deadline) {
  while (!deadline.passed() && (writer_.is_writing() || closing_.valid()) && !writer_.is_done() &&
         !is_ready(closing_))
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

// Rounds go on while all wait, so that a slow disk is not taken for a lost rank.
bool Saving::wait() {
  read_round();
  Deadline tell = Deadline::in(kTellSlowAfter);
  while (!is_idle()) {
    await_own_work(Deadline::in(kLook));
    begin_round();
    read_round();
    if (!tell.passed()) continue;
    tell = Deadline::in(kTellSlowAfter);
    if (writer_.is_writing() || closing_.valid())
      warn(
          fmt::format("rank {} has been writing the checkpoint of step {} for more than a minute, "
                      "and all ranks "
                      "wait: look at the disk of {}",
                      group_.rank(), step_, directory_.path()));
  }
  return was_committed_;
}

}  // namespace paceline::checkpointing
