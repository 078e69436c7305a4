// Workers of asynchronous ADMM in virtual time, on problems whose local solution is a closed form.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/machine/virtual_network.h"
#include "paceline/linear/machines/async_admm.h"

namespace paceline::test {

// x = argmin f_r(x) + penalty/2 |x - centre|^2 of worker r.
using LocalSolution =
    std::function<std::vector<double>(std::size_t worker, const std::vector<double>& centre)>;

struct AdmmProblem {
  std::size_t workers = 1, width = 1;
  LocalSolution solution;
  linear::AdmmMaster::Consensus consensus;
};

// A worker's vectors and its step, which is the same in the serial form and in virtual time.
struct AdmmVectors {
  std::vector<double> x, u;

  // Goes on with z, and returns x + u.
  std::vector<double> step(const AdmmProblem& problem, std::size_t worker,
                           const std::vector<double>& z) {
    if (u.empty()) u.resize(z.size());
    for (std::size_t j = 0; j < x.size(); ++j) u[j] += x[j] - z[j];
    std::vector<double> centre(z.size());
    for (std::size_t j = 0; j < z.size(); ++j) centre[j] = z[j] - u[j];
    x = problem.solution(worker, centre);
    std::vector<double> sum(z.size());
    for (std::size_t j = 0; j < z.size(); ++j) sum[j] = x[j] + u[j];
    return sum;
  }
};

// z of consensus ADMM after each iteration, by one loop; contributions are added in the tree
// ((0 + 1) + (2 + 3)) + ...
inline std::vector<std::vector<double>> serial_admm(const AdmmProblem& problem, int iterations) {
  std::vector<AdmmVectors> workers(problem.workers);
  std::vector<double> z(problem.width);
  std::vector<std::vector<double>> all;
  for (int k = 0; k < iterations; ++k) {
    std::vector<std::vector<double>> sums;
    for (std::size_t r = 0; r < problem.workers; ++r)
      sums.push_back(workers[r].step(problem, r, z));
    for (std::size_t stride = 1; stride < sums.size(); stride *= 2)
      for (std::size_t r = 0; r + stride < sums.size(); r += 2 * stride)
        for (std::size_t j = 0; j < z.size(); ++j) sums[r][j] += sums[r + stride][j];
    z = sums[0];
    problem.consensus(z);
    all.push_back(z);
  }
  return all;
}

// A rank whose solutions take a random time about its own pace.
class AdmmWorker final : public machine::Machine {
 public:
  AdmmWorker(const AdmmProblem& problem, int rank, const linear::AdmmPace& pace,
             std::int64_t updates, int rounds, machine::Time time, std::uint64_t seed)
      : admm(rank, static_cast<int>(problem.workers), problem.width, pace, updates,
             problem.consensus),
        problem_(problem),
        rank_(rank),
        rounds_(rounds),
        pace_(time),
        numbers_(seed) {}

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override {
    machine::Actions actions;
    if (from < 0) {
      // An empty message acquaints it with all, so that they hear of its loss.
      for (int peer = 0; peer < static_cast<int>(problem_.workers); ++peer)
        actions.push_back(machine::Send{peer, {}});
      append(actions, admm.on_message(rank_, linear::AsyncAdmm::begin(), now));
    } else {
      append(actions, admm.on_message(from, message, now));
    }
    return go_on(std::move(actions), now);
  }
  machine::Actions on_timer(std::uint32_t, machine::Time now) override {
    solves_ = false;
    const auto sum = vectors_.step(problem_, static_cast<std::size_t>(rank_), z_);
    return go_on(admm.on_message(rank_, linear::AsyncAdmm::contribution(sum), now), now);
  }
  machine::Actions on_lost(int peer, machine::Time now) override {
    return go_on(admm.on_lost(peer, now), now);
  }

  linear::AsyncAdmm admm;
  std::vector<std::vector<double>> ends;  // z at the end of each round
  int solutions = 0;
  int most_age = 0;  // on rank 0
  bool is_done() const { return static_cast<int>(ends.size()) == rounds_; }

 private:
  machine::Actions go_on(machine::Actions actions, machine::Time now) {
    if (const auto master = admm.master())
      most_age = std::max(most_age, std::ranges::max(master->ages()));
    while (!solves_ && !is_done() && admm.is_settled() && !admm.lost()) {
      if (auto z = admm.take()) {
        z_ = *std::move(z);
        solves_ = true;
        ++solutions;
        const double time = (.5 + numbers_.unit()) * static_cast<double>(pace_.count());
        actions.push_back(
            machine::Arm{0, now + machine::Time(static_cast<machine::Time::rep>(time))});
      } else {
        ends.push_back(admm.common());
        if (!is_done()) append(actions, admm.on_message(rank_, linear::AsyncAdmm::begin(), now));
      }
    }
    return actions;
  }

  const AdmmProblem& problem_;
  const int rank_, rounds_;
  const machine::Time pace_;
  SeededNumbers numbers_;
  AdmmVectors vectors_;
  std::vector<double> z_;
  bool solves_ = false;
};

// A network of workers, which have all begun.
struct AdmmWorld {
  std::vector<std::unique_ptr<AdmmWorker>> workers;
  machine::VirtualNetwork network;

  AdmmWorld(const AdmmProblem& problem, const linear::AdmmPace& pace, std::int64_t updates,
            int rounds, const std::vector<machine::Time>& times,
            const machine::NetworkFaults& weather, std::uint64_t seed)
      : network(seed, weather) {
    for (std::size_t r = 0; r < problem.workers; ++r) {
      const int rank = static_cast<int>(r);
      workers.push_back(std::make_unique<AdmmWorker>(problem, rank, pace, updates, rounds, times[r],
                                                     mix(seed, r)));
      network.add(rank, *workers.back());
      network.tell(rank, -1, {});
    }
  }
};

}  // namespace paceline::test
