// Small linear models for tests, drawn from a seed, and runs of solvers on worlds of threads.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "paceline/linear.h"

namespace paceline::test {

struct LinearCase {
  linear::Problem problem;
  linear::Samples samples;
};

// Dense unit rows; labels near a linear function of them, or the signs of it with errors.
LinearCase ridge_case(std::uint64_t seed, std::size_t samples = 200, std::size_t features = 20);
LinearCase sign_case(std::uint64_t seed, std::string_view loss, std::size_t samples = 512,
                     std::size_t features = 10);

struct LinearRun {
  std::vector<double> weights;                // after the last round
  std::vector<linear::Objective> objectives;  // after each round
  std::uint64_t bytes_brought = 0;            // by rank 0
};
// Runs a solver. All ranks' weights must be the same to the bit. THROWS Error.
LinearRun run_solver(const LinearCase& one, std::string_view solver, int ranks, int rounds,
                     linear::Split split = linear::Split::contiguous);

// The solution of a dense symmetric system, given by rows.
std::vector<double> solution_of(std::vector<std::vector<double>> matrix, std::vector<double> right);
// The optimum of a problem with the squared loss and l2 alone.
std::vector<double> ridge_optimum(const LinearCase& one);

double largest_difference(std::span<const double> a, std::span<const double> b);

}  // namespace paceline::test
