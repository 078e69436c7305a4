#include "options.h"

#include <CLI/CLI.hpp>

namespace click_through {
namespace {

const auto kPositive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40U, "at least 1");

void add_data(CLI::App& app, RunOptions& options) {
  auto* const train =
      app.add_option("--train", options.train,
                     "File of lines in Criteo's format: 0 or 1, 13 whole numbers, 26 hexadecimal "
                     "categories, with tabs between; each worker holds all of it in memory "
                     "[lines are drawn, by a teacher who looks at pairs of categories]")
          ->check(CLI::ExistingFile);
  app.add_option("--test", options.test, "File of held-out lines [the last tenth of the others]")
      ->check(CLI::ExistingFile)
      ->needs(train);
  app.add_option("--lines", options.lines, "How many lines are drawn")
      ->check(CLI::Range(std::int64_t{20}, std::int64_t{1} << 32U))
      ->capture_default_str()
      ->excludes(train);
  app.add_option("--generate", options.generate,
                 "Write the drawn lines into this file, and train nothing")
      ->excludes(train);
}

void add_model(CLI::App& app, RunOptions& options) {
  app.add_flag("--wide-only", options.is_wide_only,
               "Leave the deep part out: a linear model, which cannot know pairs");
  app.add_option("--width", options.width, "Elements of a row of the deep part's table")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--synchrony", options.synchrony,
                 "When workers see each other's updates of rows: bsp (after each step: the bits "
                 "do not depend on chance), ssp:staleness=N, or asp (whatever is there). The other "
                 "parameters are always averaged in each step")
      ->capture_default_str();
  app.add_option("--table-rate", options.table_rate,
                 "Learning rate of the rows (AdaGrad with one number a row, on the servers)")
      ->check(CLI::Range(1e-9, 1e3))
      ->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate,
                 "Learning rate of all other parameters (Adam, on the workers)")
      ->check(CLI::Range(1e-9, 1e3))
      ->capture_default_str();
}

void add_run(CLI::App& app, RunOptions& options) {
  app.add_option(
         "--epochs", options.epochs,
         "Passes over the lines; of a second one such models learn rare categories by heart")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--batch", options.batch, "Lines in a step, all workers together")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--seed", options.seed,
                 "Seed of drawn lines, initial parameters and rows, and the order of lines")
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "Threads that compute in each worker [OMP_NUM_THREADS]")
      ->check(kPositive);
  app.add_option("--metrics", options.metrics,
                 "Write JSON lines to this file; the last one is the summary");
}

}  // namespace

int read_options(int argc, char** argv, RunOptions& options) {
  CLI::App app(
      "Learns which advertisements are clicked, by a wide and deep model: a linear one of all\n"
      "categories, and a network over embeddings of them. Rows of both lie in sparse tables, on\n"
      "the servers of the job, or without servers on its workers. It ends with the area under the\n"
      "curve (AUC: the probability that a clicked line gets a higher score than another) and the\n"
      "log loss of lines that were held out.\n\n"
      "  click_through                                       alone, on lines that it draws\n"
      "  paceline run -n 4 --servers 2 -- click_through      four workers, rows on two servers\n"
      "  click_through --wide-only                           what a linear model makes of them\n"
      "  click_through --generate clicks.txt --lines 1000000\n"
      "  paceline run -n 4 --servers 2 -- click_through --train clicks.txt --synchrony bsp");
  add_data(app, options);
  add_model(app, options);
  add_run(app, options);
  auto* const checkpoint_dir = app.add_option(
      "--checkpoint-dir", options.checkpoint_dir,
      "Save checkpoints into this folder, rows too, from which a later run can go on with any "
      "number of workers and servers; the last step is saved too");
  app.add_option("--checkpoint-every", options.checkpoint_every, "Steps between two checkpoints")
      ->check(kPositive)
      ->needs(checkpoint_dir)
      ->capture_default_str();
  std::string resume;
  app.add_flag("--resume", resume,
               "Go on from the newest checkpoint in --checkpoint-dir; --resume=new begins at step "
               "0 and sets the checkpoints there aside")
      ->check(CLI::IsMember({"true", "new"}))
      ->type_name("")
      ->needs(checkpoint_dir);
  try {
    app.parse(argc, argv);
    if (!resume.empty())
      options.resume = resume == "new" ? paceline::Resume::anew : paceline::Resume::yes;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // 0: --help
  }
  return -1;
}

}  // namespace click_through
