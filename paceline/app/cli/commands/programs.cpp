// `paceline programs`: the catalogue of collectives to look at: listed, shown, drawn, proven.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <variant>

#include "paceline/app/cli/programs/drawing.h"
#include "paceline/app/cli/programs/graphs_table.h"
#include "paceline/app/cli/programs/programs_proof.h"
#include "paceline/app/cli/programs/programs_table.h"
#include "paceline/app/cli/programs/selection.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/text.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/processors.h"
#include "paceline/core/base/suggestion.h"
#include "paceline/core/collective/mixing/mixing_program.h"
#include "paceline/core/collective/proof/matching.h"
#include "paceline/core/collective/proof/mixing_proof.h"

namespace paceline::cli {
namespace {

using collective::Algorithm;
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
  paceline programs show one_peer --ranks 8               a mixing graph: who hears of whom, with which weights
  paceline programs show @edges.txt                       your own, a file with two ranks a line for each edge
  paceline programs verify --ranks 1..64

BALANCED: the rank counts for which an algorithm sums by the balanced tree in rank order, so that `reproducible` may choose it.
CLASS: D2 gives the same bits on every rank and in every run; D3 also for every place of an element and fusion of tensors.
neighbours: in a step each rank takes a weighted mean of its own vector and those of the ranks that a mixing graph names (gossip, push_sum).
RATE: 0 means that PERIOD steps average exactly; near 1, differences between ranks die slowly.

Exit codes: 0 done; 1 verify: a proof failed; 2 wrong usage
)";

constexpr const char* kShowMore =
    R"(NAME may be a mixing graph (--operation neighbours), also @FILE with two ranks a line for each edge; its weights come first.
In the picture each rank is a column, and rounds follow each other downwards; it follows the viewer's light or dark scheme.
)";

constexpr const char* kVerifyMore =
    R"(It proves, in place and out of place: every rank ends with each contribution exactly once, summed in the same order;
each send meets its receive; nothing can deadlock, however little a transport buffers; no rank overwrites data that another
one still reads; rounds, messages and chunks are those of the closed forms. Each rank count is proven without and with hosts
and grids if they change the program; with every root up to 16 ranks, with more ranks the first two, the middle and the last.
Of a mixing graph it proves: the weights are positive, rows and columns sum to 1, both ends weigh the same where it says symmetric;
each send meets its receive, and nothing can deadlock; over a period every rank hears of every other.
)";

struct List {
  List() {
    app.add_option("--operation", operation, "only this operation")->type_name("NAME");
    app.add_option("--ranks", ranks, "number of ranks for which costs are shown (8)")
        ->type_name("N");
    app.add_option("--json", json, "write the list as JSON; - is stdout")->type_name("FILE");
  }
  CLI::App app{"Lists the algorithms of the catalogue, and the mixing graphs.", "list"};
  std::string operation, ranks = "8", json;
};

struct Show {
  Show() {
    app.footer(kShowMore);
    app.add_option("NAME", name, "the algorithm, or the mixing graph");
    app.add_option("--operation", operation,
                   "the operation; needed if several have an algorithm NAME")
        ->type_name("NAME");
    shape.add_to(app);
    app.add_option("--rank", rank, "only this rank's steps")->type_name("R");
    app.add_option("--svg", svg, "draw all ranks into this file; - is stdout")->type_name("FILE");
  }
  CLI::App app{"Prints and draws the programs of one algorithm or mixing graph.", "show"};
  ShapeOptions shape;
  std::string name, operation, rank, svg;
};

struct Verify {
  Verify() {
    app.footer(kVerifyMore);
    app.add_option("--ranks", ranks, "rank counts: 1..64, or 8, or 2,4,8 (1..64)")->type_name("N");
    app.add_option("--operation", operation, "only this operation")->type_name("NAME");
    app.add_option("--algorithm", algorithm, "only this algorithm or mixing graph")
        ->type_name("NAME");
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

// False when --help was asked for. THROWS Error (misuse), with a suggestion for an unknown option.
bool take_options(CLI::App& app, const std::vector<std::string>& arguments) {
  for (std::vector<std::string> rest = arguments; !rest.empty(); rest.erase(rest.begin())) {
    rest = split_command(app, rest).command;
    if (rest.empty()) break;
  }
  return parse(app, arguments);
}

int list_main(const List& given) {
  const int ranks = parse_count("--ranks", given.ranks, 1, kMostRanks);
  const Selection selection = of_operation(given.operation);
  const auto rows = programs_rows(selection.algorithms, ranks);
  const auto graphs = graph_rows(selection.graphs, ranks);
  if (given.json != "-") {
    if (!rows.empty()) fmt::print("{}", programs_table(rows, ranks));
    if (!rows.empty() && !graphs.empty()) fmt::print("\n");
    if (!graphs.empty()) fmt::print("{}", graphs_table(graphs, ranks));
  }
  if (!given.json.empty()) write_output("--json", given.json, programs_json(rows, graphs, ranks));
  return 0;
}

std::string command_of(std::string_view operation, std::string_view name,
                       const std::string& options) {
  return fmt::format("paceline programs show {} --operation {} {} --svg", name, operation, options);
}

std::string drawing_of(const std::vector<Program>& programs, const Caption& caption) {
  auto meeting = meet(programs);
  return draw(programs, meeting.value(), caption);
}

constexpr std::size_t kNoTerminal = 160;

std::string steps_text(const std::vector<Program>& programs, int rank) {
  return rank < 0 ? programs_text(programs, terminal_columns(kNoTerminal))
                  : to_string(programs[static_cast<std::size_t>(rank)]);
}

int rank_of(const Show& given, int ranks) {
  return given.rank.empty() ? -1 : parse_count("--rank", given.rank, 0, ranks - 1);
}

int show(const Algorithm& algorithm, const Show& given) {
  Shape shape = given.shape.shape();
  const int rank = rank_of(given, shape.ranks);
  check_fit(algorithm, shape);
  const collective::Proof proof = verify(algorithm, shape).value();
  std::vector<Program> programs;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank)
    programs.push_back(algorithm.build(shape));
  if (given.svg != "-")
    fmt::print("{}\n{}", programs_header(algorithm, shape, proof), steps_text(programs, rank));
  if (given.svg.empty()) return 0;
  const std::string_view operation = name_of(algorithm.operation);
  const std::string title =
      fmt::format("{} {}, {}", operation, algorithm.name, shape_text(algorithm.operation, shape));
  const std::string cost = to_string(counters_of(proof));
  const std::string command = command_of(operation, algorithm.name, as_options(shape));
  write_output("--svg", given.svg, drawing_of(programs, {title, cost, command}));
  return 0;
}

int show(const collective::MixingGraph& graph, const Show& given) {
  const int ranks = given.shape.ranks_of(graph, given.app);
  const int rank = rank_of(given, ranks);
  const collective::MixingProof proof = verify(graph, ranks).value();
  const std::vector<Program> programs = mixing_programs(graph, ranks);
  if (given.svg != "-")
    fmt::print("{}\n{}\n{}", graph_header(graph, ranks, proof), graph_weights(graph, ranks, rank),
               steps_text(programs, rank));
  if (given.svg.empty()) return 0;
  const std::string title = fmt::format("{} {}, {} ranks", kNeighbours, graph.name, ranks);
  const std::string cost = graph_cost(proof);
  const std::string command = command_of(kNeighbours, graph.name, fmt::format("--ranks {}", ranks));
  write_output("--svg", given.svg, drawing_of(programs, {title, cost, command}));
  return 0;
}

int show_main(const Show& given) {
  PACELINE_CHECK(!given.name.empty(),
                 "which algorithm? Give one name, as in `paceline programs show ring --operation "
                 "all_reduce`; `paceline programs` lists them");
  return std::visit([&](const auto& shown) { return show(shown, given); },
                    the_one(given.operation, given.name));
}

int verify_main(const Verify& given) {
  const std::vector<int> counts = parse_counts("--ranks", given.ranks, 1, kMostRanks);
  const Selection selection = named(of_operation(given.operation), given.algorithm);
  const bool is_watched = ::isatty(STDERR_FILENO) == 1;
  const auto progress = [&](double part) {
    if (is_watched)
      fmt::print(stderr, "\r{:3.0f} % of {} algorithms ", 100 * part,
                 selection.algorithms.size() + selection.graphs.size());
  };
  const int threads = own_processors().count();
  const Proofs proofs = prove_all(selection, counts, threads, progress);
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

namespace catalogue {

Subcommand programs() {
  return {.name = "programs",
          .summary = "list, show, draw and prove the collectives",
          .main = programs_main,
          .described = described<ProgramsLine>,
          .place = 40};
}

}  // namespace catalogue
}  // namespace paceline::cli
