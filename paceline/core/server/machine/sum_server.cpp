#include "paceline/core/server/machine/sum_server.h"

#include <fmt/format.h>

#include <utility>

#include "paceline/core/collective/carrier/combine.h"

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Drop;
using machine::Message;
using machine::Send;
using machine::Time;

}  // namespace

SumServer::SumServer(int workers, RegionUser* user)
    : workers_(workers),
      user_(user),
      tree_(workers, collective::kReductionBlock),
      held_(static_cast<std::size_t>(workers)) {}

Actions SumServer::on_message(int from, const Message& message, Time) {
  if (from >= workers_ || is_over_) return {};
  const auto drop = [from](std::string why) {
    return Actions{Drop{from, {Fault::io, std::move(why), {from}}}};
  };
  const auto kind = static_cast<SumKind>(message.kind);
  if (const auto asked = parse_missing_parts(message); kind == SumKind::ask && asked)
    return tell_missing(from, *asked);
  if (kind != SumKind::push && kind != SumKind::shared)
    return drop("a message that no worker sends");
  const auto read = parse_sum_piece(message);
  if (!read) return drop(read.error().what);
  if (!may_hold(from, read.value().piece.channel))
    return drop(fmt::format("more than {} parts of {} channels without an answer", kMostHeld,
                            kMostChannels));
  auto part = held_part(from, message, read.value());
  if (!part) return drop(part.error().what);
  return take(from, read.value().piece, *std::move(part));
}

Actions SumServer::tell_missing(int to, const MissingParts& asked) const {
  std::set<std::int32_t> missing;
  const auto begin = open_.lower_bound({asked.channel, asked.call, 0}),
             end = open_.lower_bound({asked.channel, asked.call + 1, 0});
  for (auto at = begin; at != end; ++at)
    for (std::int32_t worker = 0; worker < workers_; ++worker)
      if (at->second.parts.contains(to) && !at->second.parts.contains(worker))
        missing.insert(worker);
  const MissingParts answer = {asked.channel, asked.call, {missing.begin(), missing.end()}};
  return {Send{to, encode(SumKind::missing, answer)}};
}

bool SumServer::may_hold(int worker, std::uint32_t channel) const {
  const auto& channels = held_[static_cast<std::size_t>(worker)];
  const auto held = channels.find(channel);
  return held == channels.end() ? channels.size() < kMostChannels : held->second < kMostHeld;
}

Result<HeldPart> SumServer::held_part(int from, const Message& message, const ReadPiece& read) {
  if (static_cast<SumKind>(message.kind) == SumKind::push) return HeldPart(read.rest);
  const auto lent = parse_shared_part(read);
  if (!lent) return lent.error();
  if (user_ == nullptr) return Failure{Fault::io, "a part lent to whom shares no memory", {}};
  return HeldPart::shared(*user_, from, read.piece, lent.value());
}

Actions SumServer::take(int from, const SumPiece& piece, HeldPart part) {
  const Key key = {piece.channel, piece.call, piece.begin};
  Gathering& gathering = open_.try_emplace(key, Gathering{piece, {}}).first->second;
  if (gathering.piece != piece)
    return refuse(
        fmt::format("the workers differ in call {} of push_pull: rank {} has {}, rank {} "
                    "has {}; all workers make the same calls in the same order",
                    piece.call, gathering.parts.begin()->first, describe(gathering.piece), from,
                    describe(piece)));
  if (!gathering.parts.try_emplace(from, std::move(part)).second)
    return {Drop{from, {Fault::io, "a part of a push_pull that came twice", {from}}}};
  ++held_[static_cast<std::size_t>(from)][piece.channel];
  ++pushes_;
  if (const auto why = missed(gathering)) return refuse(*why);
  if (static_cast<int>(gathering.parts.size()) < workers_) return {};
  return answer(std::move(open_.extract(key).mapped()));
}

// A worker whose call has failed while its part was read ends the generation, so nobody waits for
// the sum.
Actions SumServer::answer(Gathering gathering) {
  std::vector<int> owners;
  std::vector<HeldPart> parts;
  for (auto& [worker, part] : gathering.parts) {
    if (part.is_lent()) owners.push_back(worker);
    parts.push_back(std::move(part));
  }
  std::vector<std::vector<std::byte>> told;
  const auto sum = [&] { told = sum_up(gathering.piece, parts, tree_); };
  if (owners.empty()) sum();
  else if (!user_->use_regions(owners, sum)) return {};
  Actions actions;
  for (std::size_t worker = 0; worker < parts.size(); ++worker) {
    const auto held = held_[worker].find(gathering.piece.channel);
    if (--held->second == 0) held_[worker].erase(held);
    const SumKind kind = parts[worker].is_lent() ? SumKind::stored : SumKind::sum;
    actions.push_back(Send{static_cast<int>(worker), encode(kind, gathering.piece, told[worker])});
  }
  return actions;
}

// A worker that has left pushes nothing any more.
std::optional<std::string> SumServer::missed(const Gathering& gathering) const {
  for (const int worker : left_)
    if (!gathering.parts.contains(worker))
      return fmt::format("rank {} has left the job and rank {} calls push_pull of {}", worker,
                         gathering.parts.begin()->first, describe(gathering.piece));
  return std::nullopt;
}

Actions SumServer::on_lost(int peer, Time) {
  if (peer >= workers_ || is_over_) return {};
  left_.insert(peer);
  for (const auto& [key, gathering] : open_)
    if (const auto why = missed(gathering)) return refuse(*why);
  return {};
}

Actions SumServer::refuse(const std::string& why) {
  is_over_ = true;
  open_.clear();
  const Bytes text = std::as_bytes(std::span(why));
  Actions actions;
  for (int worker = 0; worker < workers_; ++worker)
    actions.push_back(Send{worker,
                           {.kind = static_cast<std::uint32_t>(SumKind::refused),
                            .payload = {text.begin(), text.end()}}});
  return actions;
}

}  // namespace paceline::server
