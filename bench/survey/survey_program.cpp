#include "bench/survey/survey_program.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "bench/survey/survey_page.h"
#include "bench/survey/survey_report.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/text.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/suggestion.h"

namespace paceline::survey {
namespace {

constexpr const char* kSurveyAbout =
    "Simulates the survey's cluster (Shi et al., arXiv 2005.13247): seven methods and Paceline's "
    "general schedule on 4 to 32\n"
    "GPUs, three networks and three models, beside the measured throughputs.";

constexpr const char* kSurveyMore = R"(Examples:
  bench_survey
  bench_survey --json survey.json --html survey.html
  bench_survey --bytescheduler paper          across the barrier, at no cost of its own
  bench_survey --calibration mine.csv         of another cluster: network,model,local_batch,method,single,n4,n8,n16,n32

The cost of a byte on each network is calibrated on the rows of BSP-PS and BSP-A2A alone; all other methods are forecast,
with the same constants for all models (docs/guide/simulate.md), and compared with their measured rows.

Exit codes: 0 done; 2 wrong usage
)";

struct Options {
  Options() {
    app.footer(kSurveyMore);
    app.add_option("--calibration", calibration, "measured throughputs as CSV (the survey's own)")
        ->type_name("FILE");
    app.add_option("--bytescheduler", bytescheduler,
                   "scripts: ByteScheduler as the survey's scripts ran it; paper: as its paper "
                   "describes it (scripts)")
        ->type_name("HOW");
    app.add_option("--json", json, "write every simulated throughput as JSON; - is stdout")
        ->type_name("FILE");
    app.add_option("--html", html, "write a page with tables and plots; - is stdout")
        ->type_name("FILE");
  }
  CLI::App app{kSurveyAbout, "bench_survey"};
  std::string calibration, bytescheduler = "scripts", json, html;
};

SurveyTable table_of(const std::string& file) {
  if (file.empty()) return survey_table();
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  PACELINE_CHECK(in.good(), "--calibration: {} cannot be read; give a CSV of measured throughputs",
                 file);
  return parse_survey_table(text, file).value();
}

}  // namespace

int survey_main(const std::vector<std::string>& arguments) {
  Options given;
  if (!cli::parse(given.app, arguments)) return 0;
  const std::vector<std::string> ways = {"scripts", "paper"};
  PACELINE_CHECK(given.bytescheduler == "scripts" || given.bytescheduler == "paper",
                 "--bytescheduler: \"{}\" is none of scripts, paper{}", given.bytescheduler,
                 suggestion(given.bytescheduler, ways));
  SurveyConstants constants = survey_constants();
  constants.bytescheduler_by_the_paper = given.bytescheduler == "paper";
  SurveyRun run{.measured = table_of(given.calibration), .simulated = {}};
  run.simulated = simulate_survey(run.measured, constants);
  if (given.json != "-" && given.html != "-") fmt::print("{}", survey_text(run));
  if (!given.json.empty()) cli::write_output("--json", given.json, survey_json(run));
  if (!given.html.empty()) cli::write_output("--html", given.html, survey_page(run));
  return 0;
}

}  // namespace paceline::survey
