#include "paceline/app/cli/programs/programs_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "paceline/app/cli/programs/shape_options.h"
#include "paceline/app/cli/shared/quantities.h"

namespace paceline::cli {
namespace {

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
