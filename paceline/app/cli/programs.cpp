#include "paceline/app/cli/programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/app/cli/programs/drawing.h"
#include "paceline/app/cli/programs/programs_proof.h"
#include "paceline/app/cli/programs/programs_table.h"
#include "paceline/app/cli/programs/programs_text.h"
#include "paceline/app/cli/programs/shape_options.h"
#include "paceline/app/cli/shared/output_file.h"
#include "paceline/app/cli/shared/parse.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/split_command.h"
#include "paceline/app/cli/shared/terminal.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/processors.h"
#include "paceline/core/base/suggestion.h"
#include "paceline/core/collective/proof/matching.h"

namespace paceline::cli {
namespace {

using collective::Algorithm;
using collective::Catalogue;
using collective::Program;
using collective::Shape;

constexpr const char* kProgramsAbout =
    "Shows the programs that collectives run: `list` lists them, `show NAME` prints and draws the "
    "steps of each rank,\n"
    "`verify` proves them all, without a network.";

constexpr const char* kProgramsMore =
    R"(Examples:
  paceline programs                                       the whole catalogue, with costs for 8 ranks
  paceline programs list --operation all_reduce --ranks 64
  paceline programs show ring --operation all_reduce --ranks 4 --rank 1
  paceline programs show ring --operation all_reduce --svg ring.svg
  paceline programs verify --ranks 1..64

BALANCED: the rank counts for which an algorithm sums by the balanced tree in rank order, so that `reproducible` may choose it.
CLASS: D2 gives the same bits on every rank and in every run; D3 also for every place of an element and fusion of tensors.

Exit codes: 0 done; 1 verify: a proof failed; 2 wrong usage
)";

constexpr const char* kShowMore =
    R"(In the picture each rank is a column, and rounds follow each other downwards; it follows the viewer's light or dark scheme.
)";

constexpr const char* kVerifyMore =
    R"(It proves, in place and out of place: every rank ends with each contribution exactly once, summed in the same order;
each send meets its receive; nothing can deadlock, however little a transport buffers; no rank overwrites data that another
one still reads; rounds, messages and chunks are those of the closed forms. Each rank count is proven without and with hosts
and grids if they change the program; with every root up to 16 ranks, with more ranks the first two, the middle and the last.
)";

struct List {
  List() {
    app.add_option("--operation", operation, "only this operation")->type_name("NAME");
    app.add_option("--ranks", ranks, "number of ranks for which costs are shown (8)")
        ->type_name("N");
    app.add_option("--json", json, "write the list as JSON; - is stdout")->type_name("FILE");
  }
  CLI::App app{"Lists the algorithms of the catalogue.", "list"};
  std::string operation, ranks = "8", json;
};

struct Show {
  Show() {
    app.footer(kShowMore);
    app.add_option("NAME", name, "the algorithm");
    app.add_option("--operation", operation,
                   "the operation; needed if several have an algorithm NAME")
        ->type_name("NAME");
    shape.add_to(app);
    app.add_option("--rank", rank, "only this rank's steps")->type_name("R");
    app.add_option("--svg", svg, "draw all ranks into this file; - is stdout")->type_name("FILE");
  }
  CLI::App app{"Prints and draws the programs of one algorithm.", "show"};
  ShapeOptions shape;
  std::string name, operation, rank, svg;
};

struct Verify {
  Verify() {
    app.footer(kVerifyMore);
    app.add_option("--ranks", ranks, "rank counts: 1..64, or 8, or 2,4,8 (1..64)")->type_name("N");
    app.add_option("--operation", operation, "only this operation")->type_name("NAME");
    app.add_option("--algorithm", algorithm, "only this algorithm")->type_name("NAME");
  }
  CLI::App app{"Proves the programs of the catalogue.", "verify"};
  std::string ranks = "1..64", operation, algorithm;
};

struct ProgramsLine {
  ProgramsLine() {
    app.footer(kProgramsMore);
    for (CLI::App* part : {&list.app, &show.app, &verify.app})
      app.add_subcommand(std::shared_ptr<CLI::App>(std::shared_ptr<void>(), part));
  }
  List list;
  Show show;
  Verify verify;
  CLI::App app{kProgramsAbout, "paceline programs"};
};

std::shared_ptr<const CLI::App> described_programs() {
  const auto line = std::make_shared<ProgramsLine>();
  return {line, &line->app};
}

// False when --help was asked for. THROWS Error (misuse), with a suggestion for an unknown option.
bool take_options(CLI::App& app, const std::vector<std::string>& arguments) {
  for (std::vector<std::string> rest = arguments; !rest.empty(); rest.erase(rest.begin())) {
    rest = split_command(app, rest).command;
    if (rest.empty()) break;
  }
  return parse(app, arguments);
}

Catalogue of_operation(Catalogue catalogue, const std::string& name) {
  if (name.empty()) return catalogue;
  const Operation operation = parse_operation("--operation", name);
  std::erase_if(catalogue, [&](const Algorithm& a) { return a.operation != operation; });
  return catalogue;
}

int list_main(const List& given) {
  const int ranks = parse_count("--ranks", given.ranks, 1, kMostRanks);
  const Catalogue catalogue = of_operation(collective::built_in_algorithms(), given.operation);
  const auto rows = programs_rows(catalogue, ranks);
  if (given.json != "-") fmt::print("{}", programs_table(rows, ranks));
  if (!given.json.empty()) write_output("--json", given.json, programs_json(rows, ranks));
  return 0;
}

// The algorithm of that name: of the given operation, or of the only one that has it.
const Algorithm& algorithm_of(const Catalogue& catalogue, const std::string& operation,
                              const std::string& name) {
  if (!operation.empty())
    return parse_algorithm(catalogue, parse_operation("--operation", operation), name);
  std::vector<std::string> all, operations;
  const Algorithm* found = nullptr;
  for (const Algorithm& algorithm : catalogue) {
    all.emplace_back(algorithm.name);
    if (algorithm.name != name) continue;
    operations.emplace_back(name_of(algorithm.operation));
    found = &algorithm;
  }
  PACELINE_CHECK(found != nullptr, "there is no algorithm \"{}\"{}; `paceline programs` lists all",
                 name, suggestion(name, all));
  PACELINE_CHECK(operations.size() == 1, "{} of which operation? Give --operation with one of {}",
                 name, fmt::join(operations, ", "));
  return *found;
}

std::string command_of(const Algorithm& algorithm, const Shape& shape) {
  return fmt::format("paceline programs show {} --operation {} {} --svg", algorithm.name,
                     name_of(algorithm.operation), as_options(shape));
}

std::string drawing_of(const Algorithm& algorithm, const Shape& shape,
                       const std::vector<Program>& programs, const collective::Proof& proof) {
  const std::string title = fmt::format("{} {}, {}", name_of(algorithm.operation), algorithm.name,
                                        shape_text(algorithm.operation, shape));
  const std::string cost = to_string(counters_of(proof)), command = command_of(algorithm, shape);
  auto meeting = meet(programs);
  return draw(programs, meeting.value(), {title, cost, command});
}

int show_main(const Show& given) {
  PACELINE_CHECK(!given.name.empty(),
                 "which algorithm? Give one name, as in `paceline programs show ring --operation "
                 "all_reduce`; `paceline programs` lists them");
  const Catalogue catalogue = collective::built_in_algorithms();
  const Algorithm& algorithm = algorithm_of(catalogue, given.operation, given.name);
  Shape shape = given.shape.shape();
  const int rank = given.rank.empty() ? -1 : parse_count("--rank", given.rank, 0, shape.ranks - 1);
  check_fit(algorithm, shape);
  const collective::Proof proof = verify(algorithm, shape).value();
  std::vector<Program> programs;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank)
    programs.push_back(algorithm.build(shape));
  if (given.svg != "-") {
    constexpr std::size_t kNoTerminal = 160;
    fmt::print("{}\n{}", programs_header(algorithm, shape, proof),
               rank < 0 ? programs_text(programs, terminal_columns(kNoTerminal))
                        : to_string(programs[static_cast<std::size_t>(rank)]));
  }
  if (!given.svg.empty())
    write_output("--svg", given.svg, drawing_of(algorithm, shape, programs, proof));
  return 0;
}

Catalogue named(Catalogue catalogue, const std::string& name) {
  if (name.empty()) return catalogue;
  std::vector<std::string> all;
  for (const Algorithm& algorithm : catalogue) all.emplace_back(algorithm.name);
  std::erase_if(catalogue, [&](const Algorithm& a) { return a.name != name; });
  PACELINE_CHECK(!catalogue.empty(), "--algorithm: there is no \"{}\"{}; there are {}", name,
                 suggestion(name, all), fmt::join(all, ", "));
  return catalogue;
}

int verify_main(const Verify& given) {
  const std::vector<int> counts = parse_counts("--ranks", given.ranks, 1, kMostRanks);
  const Catalogue catalogue =
      named(of_operation(collective::built_in_algorithms(), given.operation), given.algorithm);
  const bool is_watched = ::isatty(STDERR_FILENO) == 1;
  const auto progress = [&](double part) {
    if (is_watched)
      fmt::print(stderr, "\r{:3.0f} % of {} algorithms ", 100 * part, catalogue.size());
  };
  const int threads = own_processors().count();
  const Proofs proofs = prove_all(catalogue, counts, threads, progress);
  if (is_watched) fmt::print(stderr, "\r\033[K");
  for (const std::string& failure : proofs.failed) fmt::print("FAILED {}\n", failure);
  fmt::print("{} passed, {} failed\n", proofs.passed, proofs.failed.size());
  return proofs.failed.empty() ? 0 : 1;
}

int programs_main(const std::vector<std::string>& arguments) {
  ProgramsLine line;
  const std::vector<std::string> parts = {"list", "show", "verify"};
  const bool names_part = !arguments.empty() && !arguments.front().starts_with('-');
  const std::string part = names_part ? arguments.front() : "list";
  PACELINE_CHECK(std::ranges::find(parts, part) != parts.end(), "\"{}\" is none of {}{}", part,
                 fmt::join(parts, ", "), suggestion(part, parts));
  const bool wants_help = arguments == std::vector<std::string>{"--help"} ||
                          arguments == std::vector<std::string>{"-h"};
  if (wants_help) {
    fmt::print("{}", line.app.help());
    return 0;
  }
  CLI::App& app = *line.app.get_subcommand(part);
  app.name("paceline programs " + part);  // the name in its help
  if (!take_options(app, {arguments.begin() + (names_part ? 1 : 0), arguments.end()})) return 0;
  if (part == "show") return show_main(line.show);
  return part == "list" ? list_main(line.list) : verify_main(line.verify);
}

}  // namespace

Subcommand programs() {
  return {"programs", "list, show, draw and prove the collectives", programs_main,
          described_programs};
}

}  // namespace paceline::cli
