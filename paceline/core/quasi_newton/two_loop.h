// The two-loop recursion of L-BFGS as a machine (Nocedal and Wright, "Numerical Optimization", 2nd
// edition, algorithm 7.4): it multiplies a vector q by the inverse Hessian that pairs of moves s
// and changes y of the gradient tell. It asks for one inner product with q after the other, and
// says what is done to q before each, so that whoever holds the vectors needs one round for both.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::quasi_newton {

// Whether a pair tells a positive curvature. Others are skipped, since they would take the inverse
// Hessian its definiteness. The arguments: s.y, s.s and y.y.
bool has_curvature(double sy, double ss, double yy);

// THREAD: one.
class TwoLoop {
 public:
  // A vector of a pair; the newest pair has the age 0.
  struct Vector {
    enum class Of : std::uint8_t { move, change } of = Of::move;
    std::size_t age = 0;
    bool operator==(const Vector&) const = default;
  };
  // They are carried out in this order; those that are empty are left out.
  struct Step {
    std::optional<Vector> added = {};    // q += factor * added
    double factor = 0;                   // of that
    std::optional<double> scale = {};    // q *= scale
    std::optional<Vector> product = {};  // its product with q is told to next(); none: the end
  };

  // `products`: s.y of each pair, the newest first. `scale`: the recursion begins with so many
  // times the identity; empty: with the identity.
  TwoLoop(std::vector<double> products, std::optional<double> scale);

  // `product`: the one that the last step has asked for; the first call takes none. REQUIRES: the
  // last step asked for a product.
  Step next(double product = 0);

 private:
  Step descend(std::size_t age, double product);
  Step climb(std::size_t age, double product);

  const std::vector<double> products_;
  const std::optional<double> scale_;
  std::vector<double> shares_;  // of the first loop, by age
  std::size_t asked_ = 0;       // products
};

}  // namespace paceline::quasi_newton
