#include "paceline/torch/optimizers/curvature_pairs.h"

#include "tests/torch/optimizers/problems.h"

namespace paceline::optimizers {
namespace {

using UpdateOfInverse = void (*)(at::Tensor&, const at::Tensor&, const at::Tensor&);

// Minimises w^T A w / 2 - b w with exact line searches; returns the iterates.
struct ExactDescent {
  at::Tensor a, b;
  at::Tensor h = at::eye(8, at::kDouble), w = at::zeros({8}, at::kDouble);
  std::vector<at::Tensor> iterates = {};

  explicit ExactDescent(std::uint64_t seed) {
    at::Generator generator = at::detail::createCPUGenerator(seed);
    const auto f64 = at::TensorOptions().dtype(at::kDouble);
    const at::Tensor q = at::randn({8, 8}, generator, f64);
    a = q.matmul(q.t()) + at::eye(8, f64);
    b = at::randn({8}, generator, f64);
  }
  at::Tensor gradient() const { return at::mv(a, w) - b; }
  void run(UpdateOfInverse update) {
    for (int k = 0; k < 8; ++k) {
      const at::Tensor direction = -at::mv(h, gradient());
      const at::Tensor s =
          direction * (-at::dot(gradient(), direction) / at::dot(direction, at::mv(a, direction)));
      const at::Tensor y = at::mv(a, s);
      w = w + s;
      update(h, s, y);
      iterates.push_back(w);
      EXPECT_LE((at::mv(h, y) - s).norm().item<double>(), 1e-10 * s.norm().item<double>());
      EXPECT_LE(difference(h.t(), h), 1e-12);
      EXPECT_NO_THROW(at::linalg_cholesky((h + h.t()) / 2));
    }
  }
};

TEST(InverseHessian, BothUpdatesKeepSecantSymmetryAndDefinitenessAndEndInAsManyStepsAsDimensions) {
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    ExactDescent bfgs(seed), dfp(seed);
    bfgs.run(update_by_bfgs);
    dfp.run(update_by_dfp);
    // With exact line searches both go the same way.
    for (std::size_t k = 0; k < 8; ++k)
      EXPECT_LE((bfgs.iterates[k] - dfp.iterates[k]).abs().max().item<double>(), 1e-9);
    for (const ExactDescent* one : {&bfgs, &dfp}) {
      EXPECT_LE(one->gradient().abs().max().item<double>(), 1e-8);
      EXPECT_LE((at::matmul(one->h, one->a) - at::eye(8, at::kDouble)).abs().max().item<double>(),
                1e-6);
    }
  }
}

}  // namespace
}  // namespace paceline::optimizers
