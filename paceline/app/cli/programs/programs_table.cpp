#include "paceline/app/cli/programs/programs_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/programs/drawing_plan.h"
#include "paceline/app/cli/programs/selection.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/text.h"
#include "paceline/core/collective/program/shapes.h"

namespace paceline::cli {
namespace {

using collective::Algorithm;

constexpr int kMostBalanced = 64;

std::vector<int> balanced_for(const Algorithm& algorithm) {
  std::vector<int> counts;
  for (int ranks = 1; ranks <= kMostBalanced; ++ranks)
    if (algorithm.has_balanced_tree({.ranks = ranks})) counts.push_back(ranks);
  return counts;
}

std::string balanced_text(const std::vector<int>& counts) {
  if (counts.size() == kMostBalanced) return "always";
  if (counts.size() == 1) return "no";
  constexpr std::size_t kTold = 16;
  const std::string text = chunk_list(counts);
  return text.size() <= kTold ? text : text.substr(0, text.rfind(',', kTold)) + ",..";
}

// all_to_all has a chunk for each pair of ranks, and a rank holds only its own. A barrier's chunks
// have no bytes.
double vectors(const Algorithm& algorithm, int chunks, const collective::Counters& counters,
               int ranks) {
  if (algorithm.operation == Operation::barrier) return 0;
  const int of_a_rank = algorithm.operation == Operation::all_to_all ? chunks / ranks : chunks;
  return static_cast<double>(counters.chunks) / of_a_rank;
}

ProgramsRow row_of(const Algorithm& algorithm, int ranks) {
  ProgramsRow row{.algorithm = algorithm, .balanced_for = balanced_for(algorithm)};
  const std::vector<collective::Shape> shapes = collective::shapes_of(algorithm, ranks);
  if (shapes.empty()) return row;
  row.fits = true;
  row.shape = shapes.front();
  const collective::Proof proof = verify(algorithm, row.shape).value();
  row.counters = counters_of(proof);
  row.sent = vectors(algorithm, algorithm.build(row.shape).chunks, row.counters, ranks);
  return row;
}

using Cells = std::vector<std::string>;

Cells cells_of(const ProgramsRow& row) {
  const Algorithm& algorithm = row.algorithm;
  const auto figure = [&](std::string text) { return row.fits ? text : std::string("-"); };
  return {std::string(name_of(algorithm.operation)),
          std::string(algorithm.name),
          fmt::format("D{}", static_cast<int>(algorithm.determinism)),
          balanced_text(row.balanced_for),
          figure(fmt::format("{}", row.counters.depth)),
          figure(fmt::format("{}", row.counters.messages)),
          figure(fmt::format("{:.2f}", row.sent)),
          std::string(algorithm.purpose)};
}

nlohmann::json entry_of(const GraphRow& row, int ranks) {
  nlohmann::json entry = {
      {"operation", kNeighbours}, {"graph", row.graph.name}, {"symmetric", row.graph.is_symmetric},
      {"for", row.graph.summary}, {"ranks", ranks},          {"fits", row.proof.has_value()}};
  if (row.proof) {
    entry["period"] = row.proof->period;
    entry["messages"] = row.messages();
    entry["sent"] = row.sent();
    entry["rate"] = row.proof->rate;
  }
  return entry;
}

using collective::Program;

constexpr std::size_t kMostLines = 100;
constexpr std::size_t kLongestTree = 72;

std::vector<std::string> lines_of(const Program& program, int rank) {
  std::vector<std::string> lines = split(to_string(program), '\n');
  lines.pop_back();  // the empty text after the last line break
  if (lines.empty()) lines.emplace_back("does nothing");
  lines.insert(lines.begin(), fmt::format("rank {}", rank));
  return lines;
}

std::string shortened_tree(const std::string& tree) {
  if (tree.size() <= kLongestTree) return tree;
  constexpr std::size_t kEnd = 20;
  return tree.substr(0, kLongestTree - kEnd) + " .. " + tree.substr(tree.size() - kEnd);
}

std::string beside_each_other(const std::vector<std::vector<std::string>>& blocks,
                              const std::vector<std::size_t>& widths) {
  std::size_t height = 0;
  for (const auto& block : blocks) height = std::max(height, block.size());
  std::string text;
  for (std::size_t i = 0; i < height; ++i) {
    std::string line;
    for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
      const auto& block = blocks[rank];
      line += fmt::format("{:<{}}", i < block.size() ? block[i] : "", widths[rank] + 3);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

}  // namespace

std::vector<ProgramsRow> programs_rows(const collective::Catalogue& catalogue, int ranks) {
  std::vector<ProgramsRow> rows;
  for (const Algorithm& algorithm : catalogue) rows.push_back(row_of(algorithm, ranks));
  return rows;
}

std::string programs_table(const std::vector<ProgramsRow>& rows, int ranks) {
  std::vector<Cells> lines = {
      {"OPERATION", "ALGORITHM", "CLASS", "BALANCED", "ROUNDS", "MESSAGES", "SENT", "FOR"}};
  for (const ProgramsRow& row : rows) lines.push_back(cells_of(row));
  return in_columns(lines, {4, 5, 6}) +
         fmt::format(
             "ROUNDS, MESSAGES and SENT for {} ranks. SENT: by the rank that sends "
             "most, in lengths of the vector.\n",
             ranks);
}

std::string programs_json(const std::vector<ProgramsRow>& rows, const std::vector<GraphRow>& graphs,
                          int ranks) {
  nlohmann::json list = nlohmann::json::array();
  for (const ProgramsRow& row : rows) {
    nlohmann::json entry = {{"operation", name_of(row.algorithm.operation)},
                            {"algorithm", row.algorithm.name},
                            {"class", static_cast<int>(row.algorithm.determinism)},
                            {"balanced_for", row.balanced_for},
                            {"for", row.algorithm.purpose},
                            {"ranks", ranks},
                            {"fits", row.fits}};
    if (row.fits) {
      entry["shape"] = to_string(row.shape);
      entry["rounds"] = row.counters.depth;
      entry["messages"] = row.counters.messages;
      entry["sent"] = row.sent;
    }
    list.push_back(entry);
  }
  for (const GraphRow& row : graphs) list.push_back(entry_of(row, ranks));
  return list.dump(2) + '\n';
}

std::string programs_header(const collective::Algorithm& algorithm, const collective::Shape& shape,
                            const collective::Proof& proof) {
  std::string text =
      fmt::format("{} {}, {}: {}\n", name_of(algorithm.operation), algorithm.name,
                  shape_text(algorithm.operation, shape), to_string(counters_of(proof)));
  if (proof.tree.empty()) return text + "sums nothing\n";
  const char* others = algorithm.determinism == collective::DeterminismClass::d3
                           ? "as every other"
                           : "others in other orders";
  return text + fmt::format("chunk 0 is summed as {} ({}){}\n", shortened_tree(proof.tree), others,
                            proof.balanced_tree ? ": the balanced tree" : "");
}

std::string programs_text(const std::vector<Program>& programs, std::size_t columns) {
  std::vector<std::vector<std::string>> blocks;
  std::vector<std::size_t> widths;
  std::size_t lines = 0;
  for (const Program& program : programs) {
    blocks.push_back(lines_of(program, static_cast<int>(blocks.size())));
    std::size_t width = 0;
    for (const std::string& line : blocks.back()) width = std::max(width, line.size());
    widths.push_back(width);
    lines += blocks.back().size() + 1;
  }
  if (std::reduce(widths.begin(), widths.end()) + 3 * widths.size() <= columns)
    return beside_each_other(blocks, widths);
  if (lines > kMostLines) {
    return fmt::format("{} lines for {} ranks: --rank R shows one of them, --svg F draws all\n",
                       lines, programs.size());
  }
  std::string text;
  for (const auto& block : blocks) {
    for (const std::string& line : block) text += line + '\n';
    if (&block != &blocks.back()) text += '\n';
  }
  return text;
}

}  // namespace paceline::cli
