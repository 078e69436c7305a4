#include "paceline/linear/solver/solver_catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::linear {
namespace {

// The names of the entries for which a predicate holds: "admm, scd".
template <typename Entry, typename Predicate>
std::string names_of(const std::vector<Entry>& catalogue, const Predicate& holds) {
  std::vector<std::string_view> names;
  for (const Entry& one : catalogue)
    if (holds(one)) names.push_back(one.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<SolverChoice> parse_solver(std::string_view text) {
  return parse_named("solver", text, built_in_solvers());
}

Result<> check_solver(const SolverMethod& method, const Problem& problem, const Samples& samples,
                      int ranks) {
  const auto refused = [](std::string what) { return Failure{Fault::misuse, std::move(what), {}}; };
  const auto all = built_in_solvers();
  if (method.parts == SolverMethod::Parts::one && ranks > 1) {
    return refused(fmt::format(
        "{} runs in one process, and there are {} ranks: start it alone, or choose a solver that "
        "splits the data among ranks: {}",
        method.name, ranks,
        names_of(all, [](const auto& one) { return one.parts != SolverMethod::Parts::one; })));
  }
  if (method.parts == SolverMethod::Parts::features &&
      samples.rows.width < static_cast<std::size_t>(ranks)) {
    return refused(fmt::format(
        "{} splits the features among the ranks, and there are {} ranks but {} features: start at "
        "most {} ranks, or choose a solver that splits samples: {}",
        method.name, ranks, samples.rows.width, samples.rows.width,
        names_of(all, [](const auto& one) { return one.parts == SolverMethod::Parts::samples; })));
  }
  if (problem.l1 > 0 && !method.takes_l1) {
    return refused(fmt::format("{} has no l1, which is {}: set it to 0, or choose one of {}",
                               method.name, problem.l1,
                               names_of(all, [](const auto& one) { return one.takes_l1; })));
  }
  if (method.needs_l2 && problem.l2 == 0) {
    return refused(fmt::format("{} needs an l2 above 0: set it, or choose one of {}", method.name,
                               names_of(all, [](const auto& one) { return !one.needs_l2; })));
  }
  if (method.needs_smooth && !problem.loss.is_smooth()) {
    return refused(fmt::format(
        "{} needs a smooth loss, and {} is not: choose the loss {}, or one of the solvers {}",
        method.name, problem.loss.name(),
        names_of(built_in_losses(),
                 [](const Loss& one) {
                   return ChosenLoss({one, standard_settings(one.settings)}).is_smooth();
                 }),
        names_of(all, [](const auto& one) { return !one.needs_smooth; })));
  }
  return Done{};
}

std::unique_ptr<Solver> make_solver(const SolverChoice& choice, const SolverContext& context) {
  check_problem(context.problem, context.samples).value();
  check_solver(choice.entry, context.problem, context.samples, context.group.size()).value();
  return choice.entry.make(choice.settings, context);
}

}  // namespace paceline::linear
