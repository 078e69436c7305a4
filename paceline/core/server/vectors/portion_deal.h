// PortionDeal: which worker computes which portion of an evaluation.
//
// A worker that is free gets the lowest portion that nobody computes, as long as that lies in the
// window of the lowest one that is not done; else a copy of one that others compute, the one with
// the fewest copies. So a slow worker or a dead one delays the end by little. The first result of a
// portion counts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace paceline::server {

// A value.
class PortionDeal {
 public:
  // Its evaluation is over until begin() is called.
  PortionDeal(std::int64_t portions, std::int64_t window);

  void begin();
  bool is_over() const { return missing_ == 0; }  // all portions are done

  // Nothing: all that is not done, and may be dealt, this worker computes or has computed.
  std::optional<std::int64_t> next(int worker);
  // The worker's result is there. False: there was one before.
  bool take(std::int64_t portion, double loss);
  void lose(int worker);

  double sum() const;  // of the losses, in the order of the portions
  // The first one whose loss is no number, or infinite.
  std::optional<std::int64_t> first_not_finite() const;
  double loss_of(std::int64_t portion) const { return losses_.at(place(portion)); }
  std::int64_t copies() const { return copies_; }  // that were dealt in all
  // Those who compute portions that are not done.
  std::map<std::int64_t, std::set<int>> under_way() const { return open_; }

 private:
  static std::size_t place(std::int64_t portion) { return static_cast<std::size_t>(portion); }
  std::optional<std::int64_t> fresh() const;
  std::optional<std::int64_t> copy_for(int worker) const;

  std::int64_t portions_, window_;
  std::vector<bool> is_done_;
  std::vector<double> losses_;
  std::int64_t missing_ = 0;
  std::int64_t lowest_ = 0;                     // that is not done
  std::int64_t undealt_ = 0;                    // this one and all above
  std::set<std::int64_t> returned_;             // by workers that died
  std::map<std::int64_t, std::set<int>> open_;  // who computes it, by portion
  std::int64_t copies_ = 0;
};

}  // namespace paceline::server
