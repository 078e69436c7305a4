// Asynchronous consensus ADMM: common weights follow from whoever has fitted its samples, and slow
// ranks hold up the others no longer than a bounded delay.
// Zhang, Kwok, Asynchronous Distributed ADMM for Consensus Optimization, ICML 2014.
#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/coordination/machine_run.h"
#include "paceline/linear/machines/machines.h"
#include "paceline/linear/solver/consensus.h"
#include "paceline/linear/solver/solver_catalogue.h"

namespace paceline::linear::catalogue {
namespace {

AdmmMaster::Consensus consensus_for(const Problem& problem, int ranks, double penalty) {
  return [&problem, ranks, penalty](std::span<double> sum) {
    consensus_of(problem, ranks, penalty, sum);
  };
}

// Unless the user says otherwise, a round has as many updates as take a contribution of each rank.
std::int64_t updates_in(const Settings& settings, int ranks) {
  const auto barrier = settings.as<int>("barrier");
  return static_cast<std::int64_t>(
      settings.or_auto("updates", std::max(1, (ranks + barrier - 1) / barrier)));
}

// Steps are those of Admm, in the same order of additions, so that a barrier of all ranks has its
// bits.
class AsyncAdmmSolver final : public Solver {
 public:
  AsyncAdmmSolver(const Settings& settings, const SolverContext& context)
      : group_(context.group),
        own_(select(context.samples, context.own_samples())),
        local_(context.problem, own_, context.samples.size(), penalty_in(settings, context.problem),
               seed_of(context.seed, context.group.rank(), 0), local_solve_in(settings)),
        multipliers_(context.samples.rows.width),
        machine_(context.group.rank(), context.group.size(), context.samples.rows.width,
                 {settings.as<int>("barrier"), settings.as<int>("delay")},
                 updates_in(settings, context.group.size()),
                 consensus_for(context.problem, context.group.size(),
                               penalty_in(settings, context.problem))),
        run_(context.group, machine_) {}

  void round() override {
    run_.tell(AsyncAdmm::begin());
    while (const auto common = next()) {
      for (std::size_t j = 0; j < x_.size(); ++j) multipliers_[j] += x_[j] - (*common)[j];
      std::vector<double> centre(common->size());
      for (std::size_t j = 0; j < centre.size(); ++j) centre[j] = (*common)[j] - multipliers_[j];
      x_ = local_.solve(centre);
      std::vector<double> sum(x_.size());
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] = x_[j] + multipliers_[j];
      run_.tell(AsyncAdmm::contribution(sum));
      if (group_.size() > 1) bytes_ += sum.size() * sizeof(double);
    }
  }

  std::vector<double> weights() override { return machine_.common(); }
  std::span<const double> dual_variables() const override { return local_.dual_variables(); }
  std::uint64_t bytes_brought() const override { return bytes_; }
  std::string remark() const override { return {}; }

 private:
  // The common weights to go on with; nothing at the end of the round.
  std::optional<std::vector<double>> next() {
    run_.wait(
        "a round of asynchronous ADMM", [this] { return machine_.is_settled(); },
        {.ask = [this] { run_.tell(machine_.ask_who_is_missing()); },
         .are_answered = [this] { return machine_.missing_ranks().are_known(); },
         .awaited =
             [this] { return machine_.missing_ranks().awaited(group_, "brought its solution"); },
         .movement = [this] { return run_.pieces(); }});
    if (const auto lost = machine_.lost()) {
      job::check_alive(run_.links());
      const int rank = group_.world_rank(*lost);
      throw Error({Fault::peer_lost,
                   fmt::format("rank {} has ended asynchronous ADMM while others go on; all ranks "
                               "must have the same features and make the same number of rounds",
                               rank),
                   {rank}});
    }
    return machine_.take();
  }

  Communicator& group_;
  const Samples own_;
  LocalProblem local_;
  std::vector<double> x_;            // of the last solution; empty: there was none
  std::vector<double> multipliers_;  // this rank's u
  std::uint64_t bytes_ = 0;
  AsyncAdmm machine_;
  coordination::MachineRun run_;
};

}  // namespace

SolverMethod async_admm() {
  std::vector<Setting> settings = consensus_settings();
  settings.push_back({.name = "barrier",
                      .standard = 2,
                      .least = 1,
                      .most = 4096,
                      .meaning = "ranks that must have brought something new before the common "
                                 "weights change; more than there are means all",
                      .whole = true});
  settings.push_back({.name = "delay",
                      .standard = 5,
                      .least = 1,
                      .most = 1e6,
                      .meaning = "changes of the common weights within which each rank brings "
                                 "something new; 1 waits for all",
                      .whole = true});
  settings.push_back({.name = "updates",
                      .standard = kAutomatic,
                      .least = 1,
                      .most = 1e9,
                      .meaning = "changes of the common weights in a round; auto: the ranks "
                                 "divided by the barrier",
                      .whole = true,
                      .may_be_auto = true});
  return {
      .name = "async_admm",
      .summary = "ADMM whose common weights wait for some ranks only, and for each within a delay",
      .reference = "Zhang, Kwok, ICML 2014",
      .settings = std::move(settings),
      .takes_l1 = true,
      .make = [](const Settings& chosen, const SolverContext& context) -> std::unique_ptr<Solver> {
        return std::make_unique<AsyncAdmmSolver>(chosen, context);
      }};
}

}  // namespace paceline::linear::catalogue
