#include "paceline/core/server/vectors/portion_deal.h"

#include <algorithm>
#include <cmath>

namespace paceline::server {

PortionDeal::PortionDeal(std::int64_t portions, std::int64_t window)
    : portions_(portions), window_(window), is_done_(place(portions)), losses_(place(portions)) {}

void PortionDeal::begin() {
  is_done_.assign(place(portions_), false);
  missing_ = portions_;
  lowest_ = undealt_ = 0;
  returned_.clear();
  open_.clear();
}

std::optional<std::int64_t> PortionDeal::next(int worker) {
  if (const auto portion = fresh()) {
    if (returned_.erase(*portion) == 0) ++undealt_;
    open_[*portion].insert(worker);
    return portion;
  }
  const auto portion = copy_for(worker);
  if (!portion) return std::nullopt;
  open_[*portion].insert(worker);
  ++copies_;
  return portion;
}

// Portions that came back lie below all that were not dealt.
std::optional<std::int64_t> PortionDeal::fresh() const {
  if (!returned_.empty()) return *returned_.begin();
  if (undealt_ < std::min(portions_, lowest_ + window_)) return undealt_;
  return std::nullopt;
}

std::optional<std::int64_t> PortionDeal::copy_for(int worker) const {
  const auto* best = static_cast<const std::pair<const std::int64_t, std::set<int>>*>(nullptr);
  for (const auto& one : open_)
    if (!one.second.contains(worker) &&
        (best == nullptr || one.second.size() < best->second.size()))
      best = &one;
  return best == nullptr ? std::nullopt : std::optional(best->first);
}

bool PortionDeal::take(std::int64_t portion, double loss) {
  if (portion < 0 || portion >= portions_ || missing_ == 0 || is_done_[place(portion)])
    return false;
  is_done_[place(portion)] = true;
  losses_[place(portion)] = loss;
  --missing_;
  open_.erase(portion);
  returned_.erase(portion);
  while (lowest_ < portions_ && is_done_[place(lowest_)]) ++lowest_;
  return true;
}

void PortionDeal::lose(int worker) {
  for (auto one = open_.begin(); one != open_.end();) {
    one->second.erase(worker);
    if (!one->second.empty()) {
      ++one;
      continue;
    }
    returned_.insert(one->first);
    one = open_.erase(one);
  }
}

double PortionDeal::sum() const {
  double sum = 0;
  for (const double loss : losses_) sum += loss;
  return sum;
}

std::optional<std::int64_t> PortionDeal::first_not_finite() const {
  const auto found = std::ranges::find_if(losses_, [](double one) { return !std::isfinite(one); });
  if (found == losses_.end()) return std::nullopt;
  return found - losses_.begin();
}

}  // namespace paceline::server
