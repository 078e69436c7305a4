#include "paceline/torch/replica/equal/told_replicas.h"

#include <cstring>
#include <utility>

#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/equal/replica_check.h"

namespace paceline::replica {
namespace {

enum Kind : std::uint32_t { kOwn = 1, kOthers };

// The step, then the fingerprints.
std::vector<std::byte> payload_of(std::int64_t step, const std::vector<std::int64_t>& values) {
  std::vector<std::byte> payload((values.size() + 1) * sizeof step);
  std::memcpy(payload.data(), &step, sizeof step);
  if (!values.empty())
    std::memcpy(payload.data() + sizeof step, values.data(), values.size() * sizeof step);
  return payload;
}

}  // namespace

ToldReplicas::ToldReplicas(Communicator& group)
    : rank_(group.rank()),
      ranks_(group.size()),
      lost_(static_cast<std::size_t>(group.size())),
      run_(group, *this) {}

std::optional<Failure> ToldReplicas::compare(const std::vector<Parameter>& parameters,
                                             std::int64_t step, std::chrono::milliseconds within) {
  std::vector<std::int64_t> own;
  for (const Parameter& parameter : parameters)
    own.push_back(static_cast<std::int64_t>(fingerprint_of(parameter.tensor)));
  last_step_ = step;
  {
    const std::lock_guard lock(mutex_);
    told_[rank_] = {step, own};
  }
  run_.tell({.kind = kOwn, .payload = payload_of(step, own)});
  try {
    run_.wait_within(
        "the parameters of the other ranks", [&] { return have_all_told(step); }, within);
  } catch (const Error& error) {
    if (error.fault() != Fault::timed_out) throw;
  }
  const std::lock_guard lock(mutex_);
  std::map<int, std::vector<std::int64_t>> of_step;
  for (const auto& [rank, told] : told_)
    if (told.step == step && told.fingerprints.size() == own.size())
      of_step.emplace(rank, told.fingerprints);
  return difference_of(of_step, parameters, c10::str("after step ", step));
}

bool ToldReplicas::have_all_told(std::int64_t step) const {
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto told = told_.find(rank);
    const bool is_there = told != told_.end() && told->second.step >= step;
    if (!is_there && !lost_[static_cast<std::size_t>(rank)]) return false;
  }
  return true;
}

machine::Actions ToldReplicas::on_message(int from, const machine::Message& message,
                                          machine::Time) {
  machine::Actions actions;
  if (message.kind == kOwn && from == rank_) {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank != rank_)
        actions.push_back(machine::Send{rank, {.kind = kOthers, .payload = message.payload}});
    }
    return actions;
  }
  Told told;
  const std::size_t size = sizeof told.step, words = message.payload.size() / size;
  if (message.kind != kOthers || words == 0) return actions;
  std::memcpy(&told.step, message.payload.data(), size);
  told.fingerprints.resize(words - 1);
  if (words > 1)
    std::memcpy(told.fingerprints.data(), message.payload.data() + size, (words - 1) * size);
  const std::lock_guard lock(mutex_);
  told_[from] = std::move(told);
  return actions;
}

machine::Actions ToldReplicas::on_lost(int peer, machine::Time) {
  const std::lock_guard lock(mutex_);
  lost_[static_cast<std::size_t>(peer)] = true;
  return {};
}

}  // namespace paceline::replica
