// LbfgsCourse: the iterations of L-BFGS with a line search, as lists of commands for servers that
// hold the vectors. It sees inner products and losses alone.
//
// An iteration has 2m + 1 lists for the direction, m pairs being kept, two for each evaluation of
// the search (one before it, one behind) and one for the new pair: what is done to a vector travels
// with the inner product behind it. The operations and their order are those of
// paceline::optimizers::QuasiNewton with l_bfgs.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/quasi_newton/quasi_newton.h"
#include "paceline/core/server/vectors/vector_packet.h"
#include "paceline/core/server/vectors/vector_shape.h"

namespace paceline::server {

struct LbfgsOptions {
  double first_step = 1;  // that a line search tries
  int max_evaluations = 25;
  double tolerance = 1e-9;  // an iteration does nothing at this largest |g|
};

// THREAD: one.
class LbfgsCourse {
 public:
  // `samples`: losses and gradients are sums over so many.
  LbfgsCourse(std::int64_t samples, int history, const LbfgsOptions& options);

  // A list of commands, behind which an evaluation may begin: its loss is told to evaluated(), the
  // values of all other lists to answered().
  struct Step {
    std::vector<VectorCommand> commands = {};
    bool evaluates = false;
  };
  // Each returns the step that comes next; nothing: the iteration has ended. begin() begins one.
  std::optional<Step> begin();
  std::optional<Step> evaluated(double loss_sum);
  std::optional<Step> answered(std::span<const double> values);

  bool is_somewhere() const { return is_somewhere_; }        // there is a loss and a gradient
  double loss() const { return loss_; }                      // the mean, where it stands
  std::int64_t iterations() const { return iterations_; }    // that have succeeded
  std::int64_t evaluations() const { return evaluations_; }  // since the beginning
  // Why the iteration that has ended did nothing; empty: it went on, or stands at the end.
  const std::string& failure() const { return failure_; }

 private:
  enum class Phase : std::uint8_t { rests, measures_first, turns, measures, learns, returns };

  Step direct();
  Step turn(const quasi_newton::TwoLoop::Step& step, std::vector<VectorCommand> commands);
  std::uint8_t vector_of(const quasi_newton::TwoLoop::Vector& one) const;
  Step begin_search(double slope);
  Step evaluate_at(double step);
  std::optional<Step> searched();
  Step learn();
  void take_pair(std::span<const double> values);

  const double samples_;
  const std::size_t history_;
  const LbfgsOptions options_;
  Phase phase_ = Phase::rests;
  std::optional<quasi_newton::TwoLoop> loops_;
  std::optional<quasi_newton::WolfeSearch> search_;
  bool is_somewhere_ = false;
  double loss_ = 0, largest_gradient_ = 0, gradient_sum_ = 0;
  double trial_loss_ = 0, trial_step_ = 0;
  struct Pair {
    std::uint8_t move = 0, change = 0;  // vectors
    double sy = 0, yy = 0;
  };
  std::deque<Pair> pairs_;    // the newest first
  bool pair_is_new_ = false;  // the newest pair has yet to be copied to its vectors
  std::int64_t iterations_ = 0, evaluations_ = 0;
  std::string failure_;
};

}  // namespace paceline::server
