#include "paceline/core/membership/generation/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "paceline/core/base/log.h"
#include "paceline/core/membership/generation/generation_frames.h"

namespace paceline::membership {

using transport::FrameHeader;
using transport::FrameType;

namespace {

constexpr std::size_t kMostEarlyBytes = std::size_t{64} << 20;

bool is_text(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

bool Hosts::has_company(int rank) const {
  return share_memory &&
         std::ranges::count(of_ranks, of_ranks.at(static_cast<std::size_t>(rank))) > 1;
}

bool Hosts::is_crowded(int rank) const {
  return std::ranges::any_of(pools, [rank](const ProcessorPool& pool) {
    return pool.is_crowded() && std::ranges::binary_search(pool.ranks, rank);
  });
}

Hosts Hosts::this_one(int ranks, bool share_memory) {
  const std::vector<Processors> same(static_cast<std::size_t>(ranks), own_processors());
  return {.of_ranks = std::vector<int>(same.size()),
          .pools = pools_of(same),
          .share_memory = share_memory};
}

Generation::Generation(const GenerationIdentity& identity,
                       std::span<const transport::FrameKind> frames)
    : identity_(identity),
      kinds_(kGenerationFrames),
      links_(static_cast<std::size_t>(identity.size)),
      hosts_(Hosts::this_one(identity.size, false)) {
  kinds_.add(frames);
}

transport::StreamIdentity Generation::stream_identity(int peer) const {
  return {.job = identity_.job,
          .generation = identity_.generation,
          .own_rank = static_cast<std::uint32_t>(identity_.rank),
          .peer_rank = static_cast<std::uint32_t>(peer),
          .kinds = &kinds_};
}

void Generation::attach_late(int peer, std::unique_ptr<transport::Link> link) {
  const auto place = static_cast<std::size_t>(peer);
  if (place >= links_.size()) links_.resize(place + 1);
  links_[place] = std::move(link);
  late_.insert(peer);
  if (const auto own = devices_.find(identity_.rank); own != devices_.end())
    links_[place]->send({.type = frame::kDevice}, std::as_bytes(std::span(own->second)));
  borne_.insert(peer);
  const auto sinks = sinks_;
  for (const auto& [group, sink] : sinks)
    if (sinks_.contains(group)) sink->arrived(peer);
}

void Generation::name_device(std::string_view device) {
  const std::string_view name = device.substr(0, kLongestDeviceName);
  if (leaving_ || failure() || !is_text(name) ||
      std::exchange(devices_[identity_.rank], name) == name)
    return;
  for (const auto& link : links_)
    if (link) link->send({.type = frame::kDevice}, std::as_bytes(std::span(name)));
}

void Generation::fail_as_told(Failure verdict) {
  if (verdict.ranks.size() == 1) verdict.what += device_of(verdict.ranks.front());
  fail(std::move(verdict));
}

std::string Generation::device_of(int peer) const {
  const auto found = devices_.find(peer);
  return found == devices_.end() ? "" : fmt::format(" (on {})", found->second);
}

void Generation::subscribe(std::uint32_t group, FrameSink* sink) {
  if (sink == nullptr) {
    sinks_.erase(group);
    return;
  }
  sinks_[group] = sink;
  auto early = early_.extract(group);
  if (const auto failed = failure())
    return sink->failed(*failed);  // what came early may lie in memory that is gone
  if (early.empty()) return;
  for (Early& frame : early.mapped()) {
    if (!sinks_.contains(group)) {  // it took what it wanted; the rest is the next one's
      early_[group].push_back(std::move(frame));
      continue;
    }
    early_bytes_ -= frame.payload.size() + sizeof(Early);
    auto taken = frame.borrowed.empty()
                     ? sink->received(frame.peer, frame.header, frame.payload, false)
                     : sink->borrowed(frame.peer, frame.header, frame.borrowed);
    if (!taken) return fail(taken.error());
  }
}

Result<> Generation::keep(int peer, const FrameHeader& header, Bytes payload, bool borrowed) {
  early_bytes_ += (borrowed ? 0 : payload.size()) + sizeof(Early);
  if (early_bytes_ > kMostEarlyBytes) {
    return Failure{
        Fault::io,
        fmt::format("too many frames for group {}, which this rank has not made", header.group),
        {peer}};
  }
  Early& early = early_[header.group].emplace_back(Early{peer, header, {}, {}});
  if (borrowed) early.borrowed = payload;
  else early.payload.assign(payload.begin(), payload.end());
  return Done{};
}

std::string Generation::pending_call_of(int peer) const {
  for (const auto& [group, sink] : sinks_) {
    if (std::string call = sink->pending_call_of(peer); !call.empty()) return call;
  }
  return {};
}

bool Generation::reserve_group(std::uint32_t group) {
  const std::lock_guard lock(mutex_);
  return groups_.insert(group).second;
}

void Generation::release_group(std::uint32_t group) {
  const std::lock_guard lock(mutex_);
  groups_.erase(group);
}

void Generation::on_failure(std::function<void(const Failure&)> callback) {
  on_failure_ = std::move(callback);
  if (const auto failed = failure()) on_failure_(*failed);
}

FrameSink* Generation::sink(std::uint32_t group) const {
  const auto found = sinks_.find(group);
  return found == sinks_.end() ? nullptr : found->second;
}

void Generation::fail(Failure why) {
  if (std::exchange(untold_, {})) return tell(why);
  if (failing_.exchange(true)) return;
  abandon_links();
  tell(why);
  end(std::move(why));
}

void Generation::unwind(const std::optional<Failure>& thrown) {
  if (failing_.exchange(true)) return;
  const std::string own = identity_.name_of(identity_.rank);
  const std::string text = thrown ? thrown->what
                                  : fmt::format(
                                        "its text is in the log of {}; a main function that calls "
                                        "paceline::run_main has it told here",
                                        own);
  untold_ = Failure{Fault::cancelled,
                    fmt::format("{} left by an exception, which its program caught: {}", own, text),
                    {identity_.rank}};
  abandon_links();
  end(*untold_);
}

void Generation::tell_unwound() {
  if (const auto why = std::exchange(untold_, {})) tell(*why);
}

void Generation::abandon_links() {
  for (const auto& link : links_)
    if (link) link->abandon();
}

void Generation::tell(const Failure& why) {
  for (const auto& link : links_)
    if (link && !leaving_) link->send({.type = FrameType::failure}, transport::encode(why));
  if (on_failure_) on_failure_(why);
}

void Generation::end(Failure why) {
  const auto sinks = sinks_;
  for (const auto& [group, sink] : sinks) {
    if (sinks_.contains(group)) sink->failed(why);  // one sink's end may be another's
  }
  // Callers that find it throw it at once, and may free what they have lent.
  const std::lock_guard lock(mutex_);
  failure_ = std::move(why);
}

std::optional<Failure> Generation::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Generation::share(std::uint64_t segment,
                       std::shared_ptr<const transport::SharedMemory> memory) {
  segments_.add(segment, memory);
  for (const auto& link : links_) {
    if (link) link->offer(segment, memory);
  }
}

void Generation::withhold(std::uint64_t segment) {
  for (const auto& link : links_) {
    if (link) link->offer(segment, nullptr);
  }
}

void Generation::unshare(std::uint64_t segment) {
  segments_.remove(segment);
  for (const auto& link : links_) {
    if (link) link->withdraw(segment);
  }
}

void Generation::take_back(const transport::SharedRegion& lent) {
  const auto found = segments_.segments().find(lent.place.segment);
  if (found == segments_.segments().end() || lent.writable.is_empty()) return;
  if (!found->second->take_back(lent.writable)) {
    warn(
        fmt::format("the system refuses {} bytes of memory to take a buffer back from other ranks: "
                    "they may still write to it, though its call has failed",
                    lent.writable.size()));
  }
}

void Generation::leave() {
  tell_unwound();
  leaving_ = true;
  for (const auto& link : links_) {
    if (link) link->send({.type = FrameType::goodbye}, {});
  }
}

bool Generation::flushed() const {
  for (const auto& link : links_) {
    if (link && !losses_.contains(link->peer()) && !link->flushed()) return false;
  }
  return true;
}

void Generation::close() {
  on_failure_ = nullptr;
  leaving_ = true;
  fail({Fault::misuse,
        fmt::format("{} has ended its Job, which must outlive the groups that come from it",
                    identity_.name_of(identity_.rank)),
        {identity_.rank}});
  for (auto& link : links_) link.reset();
}

MutableBytes Generation::place(int peer, const FrameHeader& header) {
  FrameSink* const to = sink(header.group);
  const bool dead = to == nullptr || failure();
  return dead ? MutableBytes() : to->place(peer, header);
}

Result<> Generation::received(int peer, const FrameHeader& header, Bytes payload, bool placed) {
  if (header.type == FrameType::goodbye) {
    depart(peer);
    return Done{};
  }
  if (header.type == FrameType::failure) {
    auto told = transport::decode_failure(payload);
    if (!told) return Failure{Fault::io, "a malformed failure frame", {peer}};
    fail(std::move(*told));
    return Done{};
  }
  if (header.type == frame::kDevice) {
    const std::string name(reinterpret_cast<const char*>(payload.data()), payload.size());
    if (!is_text(name)) return Failure{Fault::io, "a malformed name of a device", {peer}};
    devices_[peer] = name;
    return Done{};
  }
  if (failure()) return Done{};  // the generation is over: what is still on its way is of no use
  FrameSink* const to = sink(header.group);
  if (to == nullptr) {
    const transport::FrameKind* const kind = kinds_.find(header.type);
    const bool waits = kind == nullptr || kind->waits_for_receiver;
    return waits ? keep(peer, header, payload, false) : Done{};
  }
  auto taken = to->received(peer, header, payload, placed);
  if (!taken) fail(taken.error());
  return Done{};
}

Result<> Generation::borrowed(int peer, const FrameHeader& header, Bytes payload) {
  if (failure()) return Done{};
  FrameSink* const to = sink(header.group);
  if (to == nullptr) return keep(peer, header, payload, true);
  auto taken = to->borrowed(peer, header, payload);
  if (!taken) fail(taken.error());
  return Done{};
}

void Generation::lost(int peer, const Failure& why) {
  if (departed_.contains(peer) || leaving_) return;
  Failure loss{
      Fault::peer_lost,
      fmt::format("{}{} was lost: {} (its process was killed, has crashed or was cut "
                  "off; look for the first failure in "
                  "the launcher's verdict and in the log of {})",
                  identity_.name_of(peer), device_of(peer), why.what, identity_.name_of(peer)),
      {peer}};
  if (!borne_.contains(peer)) return fail(std::move(loss));
  losses_.emplace(peer, std::move(loss));
  depart(peer);
}

void Generation::depart(int peer) {
  departed_.insert(peer);
  const auto sinks = sinks_;
  for (const auto& [group, sink] : sinks)
    if (sinks_.contains(group)) sink->departed(peer);
}

std::optional<Failure> Generation::loss_of(int peer) const {
  const auto found = losses_.find(peer);
  return found == losses_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace paceline::membership
