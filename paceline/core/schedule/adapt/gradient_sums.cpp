#include "paceline/core/schedule/adapt/gradient_sums.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/base/reduce.h"
#include "paceline/core/compress/menu/ratio_choice.h"

namespace paceline::schedule {
namespace {

double squared_norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

std::size_t elements_of(const Tensor& tensor) {
  return tensor.bytes / sizeof(float);
}

bool is_of(const Offers& offers, const std::vector<compress::Menu>& menus) {
  for (std::size_t i = 0; i < menus.size(); ++i) {
    if (offers[i] < 0 || offers[i] >= static_cast<int>(menus[i].size())) return false;
  }
  return true;
}

}  // namespace

GradientSums::GradientSums(compress::Compression compression, std::vector<Tensor> tensors)
    : compression_(std::move(compression)), tensors_(std::move(tensors)), sums_(tensors_.size()) {}

bool GradientSums::is_open() const {
  return steps_ + kSteps >= compression_.choose_every;
}

void GradientSums::add(std::size_t tensor, std::span<const float> gradient) {
  std::vector<float>& sum = sums_.at(tensor);
  if (sum.empty()) {
    sum.assign(gradient.begin(), gradient.end());
    return;
  }
  reduce(ReduceOp::sum, Dtype::f32, std::as_bytes(std::span(sum)), std::as_bytes(gradient),
         std::as_writable_bytes(std::span(sum)));
}

bool GradientSums::end_step() {
  if (++steps_ < compression_.choose_every) return false;
  steps_ = 0;
  return true;
}

compress::AveragedTensor GradientSums::part_of(std::size_t tensor) const {
  const std::size_t rows = std::max<std::size_t>(1, tensors_[tensor].rows);
  return {.tensor = static_cast<std::uint32_t>(tensor),
          .rows = rows,
          .columns = elements_of(tensors_[tensor]) / rows};
}

Look GradientSums::look(Communicator& group) {
  Look look;
  std::vector<double> all;  // for each tensor its squared norm, then the error of each offer
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    std::vector<float> sum = std::exchange(sums_[i], {});
    sum.resize(elements_of(tensors_[i]));
    look.menus.push_back(compress::tried_offers(compression_, part_of(i), sum));
    all.push_back(squared_norm(sum));
    for (const compress::Offer& offer : look.menus.back()) all.push_back(offer.error);
  }
  group.all_reduce(buffer_of(all)).wait();
  auto next = all.begin();
  for (compress::Menu& menu : look.menus) {
    look.norms.push_back(std::sqrt(*next++));
    for (compress::Offer& offer : menu) offer.error = *next++;
  }
  return look;
}

Look GradientSums::look_at_nothing() const {
  Look look{.menus = {}, .norms = std::vector<double>(tensors_.size())};
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::vector<float> ones(elements_of(tensors_[i]), 1.0F);
    look.menus.push_back(compress::tried_offers(compression_, part_of(i), ones));
  }
  return look;
}

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
