// Trains a linear model on sparse data. Alone:       linear_models
//                                       On workers:  paceline run -n 4 -- linear_models
// Everything about Paceline in it is the solver, which is told the group of workers.
#include <cmath>
#include <cstdio>
#include <optional>

#include "../support/king_james.h"
#include "options.h"
#include "paceline/linear.h"

namespace linear = paceline::linear;
namespace observe = paceline::observe;

namespace {

struct DataSet {
  linear::Samples training, held_out;
};

DataSet load(const Options& options) {
  if (options.data == "kjv") {
    examples::KingJames verses =
        examples::king_james(options.label.empty() ? "testament" : options.label).value();
    return {std::move(verses.training), std::move(verses.held_out)};
  }
  if (!options.label.empty())
    paceline::throw_misuse("--label is for --data kjv; a file has labels of its own");
  const linear::Samples all =
      linear::read_libsvm(options.data, {.zero_based = options.zero_based}).value();
  std::vector<std::size_t> training, held_out;
  for (std::size_t i = 0; i < all.size(); ++i) (i % 10 == 9 ? held_out : training).push_back(i);
  return {select(all, training), select(all, held_out)};
}

struct Figures {
  linear::Objective objective;
  std::optional<double> test_accuracy;
  double bytes = 0, seconds = 0;  // of the rounds so far, of the worker with most bytes

  observe::Metrics metrics() const {
    return {{"primal", objective.primal},
            {"dual", objective.dual},
            {"gap", objective.gap()},
            {"test_accuracy", test_accuracy.value_or(NAN)},
            {"bytes", static_cast<std::int64_t>(bytes)},
            {"seconds", seconds}};
  }
};

// Rank 0 tells people and programs how the rounds go.
class Story {
 public:
  explicit Story(const Options& options, bool tells) : tells_(tells) {
    if (tells && !options.metrics.empty()) file_.emplace(options.metrics);
  }

  void round(std::int64_t round, const Figures& now) {
    if (!tells_) return;
    std::printf("round %4lld  %s\n", static_cast<long long>(round), text_of(now).c_str());
    std::fflush(stdout);
    write({{"event", "round"}, {"round", round}}, now);
  }
  void summary(observe::Metrics facts, const Figures& now, const std::string& remark) {
    if (!tells_) return;
    if (!remark.empty()) {
      std::printf("%s\n", remark.c_str());
      facts.emplace_back("remark", remark);
    }
    write(std::move(facts), now);
  }

 private:
  static std::string text_of(const Figures& now) {
    char text[160];
    std::snprintf(text, sizeof text, "primal %.7f  gap %.2e  test accuracy %.4f  %.0f kB  %.2f s",
                  now.objective.primal, now.objective.gap(), now.test_accuracy.value_or(NAN),
                  now.bytes / 1000, now.seconds);
    return text;
  }
  void write(observe::Metrics facts, const Figures& now) {
    if (!file_) return;
    for (auto& one : now.metrics()) facts.push_back(std::move(one));
    file_->write(facts);
  }

  const bool tells_;
  std::optional<observe::MetricsFile> file_;
};

int train(paceline::Job& job, const Options& options) {
  paceline::Communicator& world = job.world();
  const linear::Problem problem{
      .loss = linear::parse_loss(options.loss).value(), .l2 = options.l2, .l1 = options.l1};
  const linear::SolverChoice choice = linear::parse_solver(options.solver).value();
  const linear::Split split = linear::parse_split(options.split).value();
  const DataSet data = load(options);
  const linear::SolverContext context{problem, data.training, split, world, options.seed};
  // Each worker measures its samples, and its share of those that were held out.
  const linear::Samples own = select(data.training, context.own_samples());
  const linear::Samples held_out =
      select(data.held_out, part_of(data.held_out.size(), linear::Split::contiguous, options.seed,
                                    world.rank(), world.size()));
  const auto solver = make_solver(choice, context);

  Story story(options, job.rank() == 0);
  Figures now;
  std::int64_t round = 0;
  bool is_close = false;
  while (round < options.rounds && !is_close) {
    ++round;
    const paceline::Stopwatch watch;
    solver->round();
    now.seconds += watch.seconds();
    const std::vector<double> weights = solver->weights();
    now.objective =
        objective(problem, own, data.training.size(), weights, solver->dual_variables(), world);
    now.test_accuracy = accuracy(held_out, weights, world);
    now.bytes =
        world.all_reduce(static_cast<double>(solver->bytes_brought()), paceline::ReduceOp::max);
    job.report(round, static_cast<double>(own.size()) * static_cast<double>(round),
               now.objective.primal);
    story.round(round, now);
    is_close = now.objective.gap() <= options.until_gap;
  }
  story.summary({{"event", "summary"},
                 {"world_size", std::int64_t{job.world_size()}},
                 {"solver", choice.text()},
                 {"loss", problem.loss.text()},
                 {"l2", problem.l2},
                 {"l1", problem.l1},
                 {"split", std::string(name_of(split))},
                 {"samples", static_cast<std::int64_t>(data.training.size())},
                 {"features", static_cast<std::int64_t>(data.training.rows.width)},
                 {"entries", static_cast<std::int64_t>(data.training.rows.entries())},
                 {"rounds", round}},
                now, solver->remark());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const int code = read_options(argc, argv, options); code >= 0) return code;
  return paceline::run_main([&](paceline::Job& job) { return train(job, options); });
}
