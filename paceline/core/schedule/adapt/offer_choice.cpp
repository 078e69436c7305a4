#include "paceline/core/schedule/adapt/offer_choice.h"

#include <algorithm>
#include <utility>

#include "paceline/core/base/check.h"

namespace paceline::schedule {

namespace {

bool is_of(const Offers& offers, const std::vector<compress::Menu>& menus) {
  for (std::size_t i = 0; i < menus.size(); ++i) {
    if (offers[i] < 0 || offers[i] >= static_cast<int>(menus[i].size())) return false;
  }
  return true;
}

}  // namespace

OfferChoice::OfferChoice(compress::Compression compression, std::vector<Tensor> tensors)
    : sums_(std::move(compression), std::move(tensors)) {
  const Look look = sums_.look_at_nothing();
  state_ = {.offers = least_compressed(look), .norms = look.norms};
}

bool OfferChoice::end_step(Communicator& group, const Choose& choose) {
  if (!sums_.end_step()) return false;
  ++looks_;
  const Look look = sums_.look(group);
  // A step in the sum overflowed, so it shows nothing.
  if (!look.is_finite()) return false;
  Offers offers =
      group.rank() == 0 ? choose(allowance(look, state_.norms), state_.offers) : state_.offers;
  std::vector<std::int64_t> told(offers.begin(), offers.end());
  group.broadcast(buffer_of(told)).wait();
  offers.assign(told.begin(), told.end());
  PACELINE_CHECK(is_of(offers, look.menus),
                 "rank 0 chose an offer that does not exist: a bug, please report it");
  state_.norms = look.norms;
  return std::exchange(state_.offers, offers) != offers;
}

OfferChoice::State OfferChoice::state() const {
  State state = state_;
  state.steps = sums_.steps();
  return state;
}

void OfferChoice::restore(const State& state) {
  const int offers = sums_.compression().offers();
  const bool fits =
      state.offers.size() == state_.offers.size() && state.norms.size() == state_.norms.size() &&
      std::ranges::all_of(state.offers, [=](int offer) { return offer >= 0 && offer < offers; });
  PACELINE_CHECK(fits,
                 "the saved choice is of {} tensors of another model, and this one has {}: "
                 "load another checkpoint, or none",
                 state.offers.size(), state_.offers.size());
  state_ = state;
  sums_.go_on_at(state.steps);
}

}  // namespace paceline::schedule
