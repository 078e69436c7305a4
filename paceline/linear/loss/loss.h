// Losses of linear models, and the catalogue of them: l(z, y) of a prediction z = x.w and a label.
//
// Each loss comes with what the dual methods need: its conjugate, and the dual step in closed form
// (Shalev-Shwartz and Zhang, "Stochastic Dual Coordinate Ascent Methods for Regularized Loss
// Minimization", JMLR 14, 2013). CMake lists loss/*.cpp and generates built_in_losses(); file
// <name>.cpp defines `Loss <name>()` in namespace paceline::linear::catalogue.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "paceline/core/settings/named_choice.h"

namespace paceline::linear {

// The labels that a loss can take.
enum class Labels : std::uint8_t { numbers, signs };  // any finite number; -1 and 1 alone

// One coordinate of the dual: the variable `dual` of a sample with this label, at this prediction.
// `curvature` is |x|^2 / (lambda n), times CoCoA's sigma'; it is 0 for a row without entries.
struct DualCoordinate {
  double dual = 0, label = 0, prediction = 0, curvature = 0;
};

// `setting` is the value of the loss's one setting; losses without settings ignore it.
struct Loss {
  std::string_view name;
  std::string_view summary;            // one line
  std::vector<Setting> settings = {};  // at most one
  Labels labels = Labels::numbers;

  double (*value)(double setting, double prediction, double label) = nullptr;
  // The derivative by the prediction; where it has a kink, one between those of the two sides.
  double (*derivative)(double setting, double prediction, double label) = nullptr;
  // -l*(-a) at the dual variable a, by which a sample contributes to the dual objective; a must be
  // in the conjugate's domain, in which start() and dual_maximum() lie.
  double (*dual_value)(double setting, double dual, double label) = nullptr;
  // The dual variable that maximises the dual objective along this coordinate:
  // -l*(-a) - (a - dual) prediction - curvature (a - dual)^2 / 2.
  double (*dual_maximum)(double setting, const DualCoordinate& at) = nullptr;
  // The dual variable at which dual methods start.
  double (*start)(double label) = nullptr;
  // The Lipschitz constant of the derivative; infinite where that has jumps.
  double (*smoothness)(double setting) = nullptr;
};

std::vector<Loss> built_in_losses();  // sorted by name

inline constexpr double kNotSmooth = std::numeric_limits<double>::infinity();

// A loss with its setting: what a problem holds. A value.
class ChosenLoss {
 public:
  explicit ChosenLoss(NamedChoice<Loss> choice);

  double value(double prediction, double label) const {
    return choice_.entry.value(setting_, prediction, label);
  }
  double derivative(double prediction, double label) const {
    return choice_.entry.derivative(setting_, prediction, label);
  }
  double dual_value(double dual, double label) const {
    return choice_.entry.dual_value(setting_, dual, label);
  }
  double dual_maximum(const DualCoordinate& at) const {
    return choice_.entry.dual_maximum(setting_, at);
  }
  double start(double label) const { return choice_.entry.start(label); }
  double smoothness() const { return choice_.entry.smoothness(setting_); }
  bool is_smooth() const { return smoothness() < kNotSmooth; }
  Labels labels() const { return choice_.entry.labels; }
  std::string_view name() const { return choice_.entry.name; }
  std::string text() const { return choice_.text(); }  // "smooth_hinge:gamma=1"

 private:
  NamedChoice<Loss> choice_;
  double setting_ = 0;
};

// Parses "NAME" or "NAME:SETTING=VALUE". A failure (misuse) says what is wrong and lists the valid
// names.
Result<ChosenLoss> parse_loss(std::string_view text);

}  // namespace paceline::linear
