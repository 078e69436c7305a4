#include "paceline/torch/replica/watch/standstill_machine.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstring>

namespace paceline::replica {
namespace {

using machine::Actions;
using machine::Message;
using machine::Send;

void write(std::vector<std::byte>& payload, std::int64_t number) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&number);
  payload.insert(payload.end(), bytes, bytes + sizeof(number));
}

std::int64_t read(const std::vector<std::byte>& payload, std::size_t place) {
  std::int64_t number = 0;
  if ((place + 1) * sizeof(number) <= payload.size())
    std::memcpy(&number, payload.data() + place * sizeof(number), sizeof(number));
  return number;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

std::string text_of(const std::vector<std::byte>& bytes, std::size_t from = 0) {
  const std::size_t begin = std::min(from, bytes.size());
  return {reinterpret_cast<const char*>(bytes.data()) + begin, bytes.size() - begin};
}

// Four numbers and those of the lanes, then the text.
WaitingPlace place_in(const Message& message) {
  WaitingPlace place{.lane = static_cast<std::uint32_t>(read(message.payload, 0)),
                     .call = read(message.payload, 1)};
  const auto lanes = static_cast<std::size_t>(read(message.payload, 2));
  for (std::size_t lane = 0; lane < lanes; ++lane)
    place.calls.push_back(read(message.payload, 3 + lane));
  place.where = text_of(message.payload, (3 + lanes) * sizeof(std::int64_t));
  return place;
}

}  // namespace

StandstillMachine::StandstillMachine(int rank, int ranks)
    : rank_(rank), places_(static_cast<std::size_t>(ranks)) {}

Message StandstillMachine::waits(const WaitingPlace& place) {
  Message message{.kind = kWaits};
  write(message.payload, place.lane);
  write(message.payload, place.call);
  write(message.payload, static_cast<std::int64_t>(place.calls.size()));
  for (const std::int64_t calls : place.calls) write(message.payload, calls);
  const auto text = bytes_of(place.where);
  message.payload.insert(message.payload.end(), text.begin(), text.end());
  return message;
}

std::optional<Failure> StandstillMachine::verdict() const {
  const std::lock_guard lock(mutex_);
  if (!verdict_) return std::nullopt;
  return Failure{Fault::mismatch, *verdict_, {}};
}

Actions StandstillMachine::on_message(int from, const Message& message, machine::Time) {
  const std::lock_guard lock(mutex_);
  if (verdict_) return {};
  if (message.kind == kVerdict) {
    verdict_ = text_of(message.payload);
    return to_others(message);  // they hear it before the end of this rank's calls
  }
  places_[static_cast<std::size_t>(from)] = place_in(message);
  Actions actions;
  if (from == rank_) actions = to_others(message);
  const auto still = standing_still();
  if (still.empty()) return actions;
  verdict_ = text_on(still);
  append(actions, to_others({.kind = kVerdict, .payload = bytes_of(*verdict_)}));
  return actions;
}

Actions StandstillMachine::to_others(const Message& message) const {
  Actions actions;
  for (int rank = 0; rank < static_cast<int>(places_.size()); ++rank)
    if (rank != rank_) actions.push_back(Send{rank, message});
  return actions;
}

// Those that wait, without any that waits only for ranks that may go on.
std::vector<int> StandstillMachine::standing_still() const {
  std::vector<int> still;
  for (std::size_t rank = 0; rank < places_.size(); ++rank)
    if (places_[rank]) still.push_back(static_cast<int>(rank));
  while (std::erase_if(still, [&](int rank) { return !waits_for_one_of(rank, still); }) > 0) {
  }
  return still;
}

bool StandstillMachine::waits_for_one_of(int rank, const std::vector<int>& others) const {
  const WaitingPlace& place = *places_[static_cast<std::size_t>(rank)];
  return std::ranges::any_of(others, [&](int other) {
    const auto& calls = places_[static_cast<std::size_t>(other)]->calls;
    return place.lane < calls.size() && calls[place.lane] < place.call;
  });
}

// "rank 0 waits in A, rank 1 in B"
std::string StandstillMachine::text_on(const std::vector<int>& ranks) const {
  std::string text;
  std::vector<std::string> told;
  for (const int rank : ranks) {
    const std::string& where = places_[static_cast<std::size_t>(rank)]->where;
    if (std::ranges::find(told, where) != told.end()) continue;
    told.push_back(where);
    text += c10::str(text.empty() ? "" : ", ", "rank ", rank, " waits ", where);
  }
  return text;
}

}  // namespace paceline::replica
