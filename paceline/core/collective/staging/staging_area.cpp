#include "paceline/core/collective/staging/staging_area.h"

#include <algorithm>
#include <bit>
#include <thread>

#include "paceline/core/base/check.h"
#include "paceline/core/base/deadline.h"

namespace paceline::collective {
namespace {

constexpr std::size_t kShortest = 64 << 10;
constexpr std::size_t kWordBytes = 64;  // a line of its own
constexpr std::chrono::seconds kLongestWait{1};

template <typename Value>
Value must(Result<Value> result) {
  if (!result) throw Error(result.error());
  return *std::move(result);
}

bool has_passed_or_failed(device::Event& event) {
  auto passed = event.has_passed();
  return !passed || *passed;
}

}  // namespace

StagingArea::StagingArea(device::Device& device, Allocate allocate)
    : device_(device), allocate_(std::move(allocate)) {
  down_ = must(device_.make_stream());
  up_ = must(device_.make_stream());
  sums_ = must(device_.make_stream());
}

bool StagingArea::Place::is_quiet() const {
  return has_passed_or_failed(*here) && has_passed_or_failed(*returned);
}

bool StagingArea::Place::is_free() const {
  return is_quiet() && std::ranges::all_of(
                           ordered, [](const auto& event) { return has_passed_or_failed(*event); });
}

StagingArea::Place::Word& StagingArea::Place::word() const {
  return *reinterpret_cast<Word*>(memory.data() + memory.size() - sizeof(Word));
}

StagingArea::~StagingArea() {
  const Deadline deadline = Deadline::in(kLongestWait);
  bool are_quiet = true;
  for (auto& place : free_) {
    while (!place->is_free() && !deadline.passed()) std::this_thread::yield();
    if (place->is_free()) {
      device_.unregister_host(place->memory.bytes());
    } else {
      are_quiet = false;
      static_cast<void>(place.release());
    }
  }
  if (!are_quiet) return;
  device_.end_stream(down_);
  device_.end_stream(up_);
  device_.end_stream(sums_);
}

std::unique_ptr<StagingArea::Place> StagingArea::take(std::size_t bytes) {
  const std::size_t length = std::bit_ceil(std::max(bytes, kShortest)) + kWordBytes;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(free_, [length](const auto& one) {
      return one->memory.size() == length && one->is_free();
    });
    if (found != free_.end()) {
      auto place = std::move(*found);
      free_.erase(found);
      return place;
    }
  }
  auto place = std::make_unique<Place>();
  for (auto* event : {&place->called[0], &place->called[1], &place->here, &place->returned})
    *event = must(device_.make_event());
  place->memory = allocate_(length);
  must(device_.register_host(place->memory.bytes()));
  place->word().store(0, std::memory_order_release);
  return place;
}

void StagingArea::make_events(Place& place, std::size_t pieces) {
  while (place.pieces_here.size() < pieces) place.pieces_here.push_back(must(device_.make_event()));
}

void StagingArea::settle(const Place& place) {
  const Deadline deadline = Deadline::in(hangs_ ? std::chrono::seconds(0) : kLongestWait);
  bool is_quiet = place.is_quiet();
  while (!is_quiet && !deadline.passed()) {
    std::this_thread::yield();
    is_quiet = place.is_quiet();
  }
  hangs_ = !is_quiet;
}

void StagingArea::give_back(std::unique_ptr<Place> place) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(place));
}

}  // namespace paceline::collective
