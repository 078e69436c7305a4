#include "paceline/core/transport/shared/memory_offers.h"

#include <algorithm>
#include <thread>

namespace paceline::transport {
namespace {

RingPair& pair_in(MutableBytes region) {
  return *reinterpret_cast<RingPair*>(region.data());
}

}  // namespace

MemoryOffers::~MemoryOffers() {
  if (timer_) poller_.cancel(*timer_);
}

void MemoryOffers::add(std::uint64_t segment, Memory memory) {
  Offer& offer = offers_[segment];
  offer = {.patience = Deadline::in(kPatience), .memory = std::move(memory)};
  if (offer.memory) make(segment, offer);
  else end(segment, offer, Offered::withheld);
  arm();
}

void MemoryOffers::remove(std::uint64_t segment) {
  offers_.erase(segment);
  lost_.erase(segment);
}

void MemoryOffers::answered(std::uint64_t segment, bool has_it) {
  const auto found = offers_.find(segment);
  if (found == offers_.end() || found->second.state != Offered::awaited) return;
  if (has_it) pause_ = kSoonest;
  if (has_it) end(segment, found->second, Offered::had);
  else lose(segment, found->second);
  arm();
}

void MemoryOffers::make_due() {
  if (lost_.empty() || !timer_ || Clock::now() < due_) return;
  poller_.cancel(*timer_);
  make_again();
}

Offered MemoryOffers::state(std::uint64_t segment) const {
  const auto found = offers_.find(segment);
  return found == offers_.end() ? Offered::withheld : found->second.state;
}

void MemoryOffers::make(std::uint64_t segment, Offer& offer) {
  lost_.erase(segment);
  switch (try_(segment, offer.memory)) {
    case SharedMedium::Offering::had: return end(segment, offer, Offered::had);
    case SharedMedium::Offering::on_its_way: return;
    case SharedMedium::Offering::later:
      lost_.insert(segment);
      if (offer.patience.passed()) end(segment, offer, Offered::withheld);
      return;
    case SharedMedium::Offering::refused: return lose(segment, offer);
  }
}

void MemoryOffers::lose(std::uint64_t segment, Offer& offer) {
  lost_.insert(segment);
  if (++offer.losses >= kMostLost) end(segment, offer, Offered::withheld);
}

void MemoryOffers::end(std::uint64_t segment, Offer& offer, Offered state) {
  offer.state = state;
  lost_.erase(segment);
  offer.memory.reset();
  if (state == Offered::withheld) withhold_(segment);
}

void MemoryOffers::arm() {
  if (lost_.empty() || timer_) return;
  due_ = Clock::now() + pause_;
  timer_ = poller_.after(pause_, [this] { make_again(); });
  pause_ = std::min(2 * pause_, kLatest);
}

void MemoryOffers::make_again() {
  timer_.reset();
  for (const std::uint64_t segment : std::set(lost_)) make(segment, offers_.at(segment));
  arm();
}

MemoryLeases::MemoryLeases(MutableBytes region, int side, bool in_one_process)
    : own_(pair_in(region).sides[side]),
      peer_(pair_in(region).sides[1 - side]),
      in_one_process_(in_one_process) {}

bool MemoryLeases::begin_use() {
  if (!in_one_process_) return peer_.failed.load(std::memory_order_acquire) == 0;
  // It is said before it is asked, and fail() does so the other way round: one sees the other.
  own_.uses.store(++uses_, std::memory_order_seq_cst);
  if (peer_.failed.load(std::memory_order_seq_cst) == 0) return true;
  end_use();
  return false;
}

bool MemoryLeases::end_use() {
  if (in_one_process_) {
    own_.uses.store(--uses_, std::memory_order_release);
    return true;  // the peer has waited
  }
  std::atomic_thread_fence(std::memory_order_acquire);  // what was read was read before
  return peer_.failed.load(std::memory_order_relaxed) == 0;
}

void MemoryLeases::fail() {
  own_.failed.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the memory is used again
  if (!in_one_process_) return;
  while (peer_.uses.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
}

}  // namespace paceline::transport
