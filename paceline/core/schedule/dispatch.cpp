#include "paceline/core/schedule/dispatch.h"

#include <algorithm>

#include "paceline/core/base/check.h"

namespace paceline::schedule {

Dispatch::Dispatch(const Model& model, Plan plan) : plan_(std::move(plan)) {
  check(plan_, model.size());
  for (const Group& group : plan_.groups) {
    State state{.first_message = static_cast<int>(messages_.size()),
                .parts = parts_of(model, group)};
    for (int place = group.begin; place < group.end; ++place) {
      group_of_.push_back(static_cast<int>(groups_.size()));
      offset_.push_back(state.elements);
      state.elements += model.sent(place).bytes / sizeof(float);
    }
    const auto parts = static_cast<std::size_t>(state.parts);
    for (std::size_t part = 0; part < parts; ++part) {
      messages_.push_back({.group = static_cast<int>(groups_.size()),
                           .begin = state.elements * part / parts,
                           .end = state.elements * (part + 1) / parts});
    }
    has_priorities_ |= group.priority.has_value();
    groups_.push_back(state);
  }
  begin_step();
}

void Dispatch::begin_step() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].missing = plan_.groups[g].end - plan_.groups[g].begin;
    groups_[g].sent = groups_[g].returned = 0;
  }
  credit_ = static_cast<std::ptrdiff_t>(plan_.window_bytes);
  ready_gradients_ = handed_over_ = returned_ = 0;
}

std::ptrdiff_t Dispatch::bytes_of(int message) const {
  const Message& m = messages_[static_cast<std::size_t>(message)];
  return static_cast<std::ptrdiff_t>((m.end - m.begin) * sizeof(float));
}

void Dispatch::ready(int place) {
  State& group = state(group_of(place));
  PACELINE_CHECK(group.missing > 0, "place {} of the send order is ready twice in a step", place);
  --group.missing;
  ++ready_gradients_;
}

bool Dispatch::is_ready(int message) const {
  const int group = messages_[static_cast<std::size_t>(message)].group;
  return groups_[static_cast<std::size_t>(group)].missing == 0;
}

// Without priorities nothing overtakes: a group that is not ready holds up those after it.
std::optional<int> Dispatch::most_urgent() const {
  std::optional<int> best;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const State& group = groups_[g];
    if (group.sent == group.parts) continue;
    const int message = group.first_message + group.sent;
    if (!has_priorities_) return group.missing == 0 ? std::optional(message) : std::nullopt;
    if (group.missing > 0) continue;
    const auto urgency = [&](int m) {
      const auto owner = static_cast<std::size_t>(messages_[static_cast<std::size_t>(m)].group);
      return plan_.groups[owner].priority.value_or(0);
    };
    if (!best || urgency(message) < urgency(*best)) best = message;
  }
  return best;
}

std::optional<int> Dispatch::next() {
  if (plan_.window_bytes > 0 && credit_ <= 0) return std::nullopt;
  const auto message = most_urgent();
  if (message) follow(*message);
  return message;
}

void Dispatch::follow(int message) {
  credit_ -= bytes_of(message);
  ++state(messages_[static_cast<std::size_t>(message)].group).sent;
  ++handed_over_;
}

bool Dispatch::back(int message) {
  State& group = state(messages_[static_cast<std::size_t>(message)].group);
  credit_ += bytes_of(message);
  const bool is_whole = ++group.returned == group.parts;
  if (++returned_ == static_cast<int>(messages_.size())) begin_step();
  return is_whole;
}

}  // namespace paceline::schedule
