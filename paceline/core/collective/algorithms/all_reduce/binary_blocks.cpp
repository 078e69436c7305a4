// Binary blocks all_reduce: blocks of a power of two of ranks each halve the buffer, the sums of
// the smaller blocks join those of the next larger one, and all goes back the same way.
//
// 7 ranks are blocks 0-3, 4-5 and 6; chunks 0..3:
//     halving    in 0-3: chunk 0 on 0, 1 on 2, 2 on 1, 3 on 3; in 4-5: chunks 0, 1 on 4, 2, 3 on 5
//     join       6 --chunks 0, 1--> 4     6 --chunks 2, 3--> 5
//     join       4 --chunk 0--> 0   4 --chunk 1--> 2   5 --chunk 2--> 1   5 --chunk 3--> 3
//     part       the same backwards
//     doubling   in 4-5 and in 0-3
//
// Rounds: 2 floor(lg n) + 2, for a power of two 2 lg n: small blocks have ended before the larger
// one needs them. Bytes: twice the buffer from a rank of a middle block, of the first and the last
// one 1/(size of the block) less. Messages a rank of a block of B: 2 lg B, and B'/B of them to the
// larger block of B', one back to the smaller one; many where the smallest block is much smaller.
// Ranks: any n >= 1.
// Order of summation: the balanced tree in rank order for any count (class D3).
// Reference: Rabenseifner's all-reduce protocols, as in Chahal et al., A hitchhiker's guide on
// distributed training (2018); docs/algorithms/binary_blocks.md.
#include <bit>

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/building/halving.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

struct Block {
  int first = 0;
  int size = 0;
};

// The blocks, the largest one first.
std::vector<Block> blocks_of(int ranks) {
  std::vector<Block> blocks;
  for (int first = 0; first < ranks; first += blocks.back().size) {
    const auto left = static_cast<unsigned>(ranks - first);
    blocks.push_back({first, static_cast<int>(std::bit_floor(left))});
  }
  return blocks;
}

// The chunks are those of the largest block; a smaller block takes several of them as one piece.
CompositionPart pieces_of(const Block& block, int chunks) {
  CompositionPart part{{}, {}, chunks};
  for (int i = 0; i < block.size; ++i) {
    part.ranks.push_back(block.first + i);
    auto& piece = part.chunks.emplace_back();
    for (int chunk = i * chunks / block.size; chunk < (i + 1) * chunks / block.size; ++chunk)
      piece.push_back(chunk);
  }
  return part;
}

// The rank that has the block's sum of a chunk when the block has halved the buffer.
int owner(const Block& block, int chunk, int chunks) {
  return block.first + reversed_bits(chunk * block.size / chunks, block.size);
}

// The steps until every chunk is complete in the largest block.
Program sums(const Shape& shape) {
  const std::vector<Block> blocks = blocks_of(shape.ranks);
  std::size_t number = 0;
  while (shape.rank >= blocks[number].first + blocks[number].size) ++number;
  const Block& own = blocks[number];
  const bool is_last = number + 1 == blocks.size();

  const int chunks = blocks[0].size;
  const Program halving = halving_reduce_scatter(
      {.ranks = own.size, .rank = shape.rank - own.first}, Partners::nearest_first);
  Round from_smaller, to_larger;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (owner(own, chunk, chunks) != shape.rank) continue;
    const Slot sum = own.size == 1 ? input(chunk) : output(chunk);
    if (!is_last) {
      const int peer = owner(blocks[number + 1], chunk, chunks);
      from_smaller.push_back(recv_reduce(peer, sum, output(chunk), /*operand_is_left=*/true));
      from_smaller.back().completes = number == 0;
    }
    if (number > 0) to_larger.push_back(send(owner(blocks[number - 1], chunk, chunks), sum));
  }
  Program all{.chunks = chunks};
  if (own.size > 1 || shape.ranks == 1) {
    const Program in_block = on(pieces_of(own, chunks), halving);
    all = blocks.size() == 1 ? in_block : partial(in_block);
  }
  all.rounds.insert(all.rounds.end(), {from_smaller, to_larger});
  return without_empty_rounds(all);
}

Program build(const Shape& shape) {
  const Program there = sums(shape);
  return in_sequence({there, way_back(there)});
}

Counters closed_form(const Shape& shape) {
  const std::vector<Block> blocks = blocks_of(shape.ranks);
  const int largest = blocks[0].size;
  Counters all{.depth = 2 * tree_levels(largest) + (blocks.size() > 1 ? 2 : 0)};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    all.messages += 2L * blocks[i].size * tree_levels(blocks[i].size);
    if (i > 0) all.messages += 2L * blocks[i - 1].size;
  }
  // A rank of a middle block sends two buffers, one of the first block its own piece less.
  all.chunks = blocks.size() == 1 ? 2 * (largest - 1) : 2 * largest - (blocks.size() == 2 ? 1 : 0);
  return all;
}

}  // namespace

Algorithm binary_blocks() {
  return {.operation = Operation::all_reduce,
          .name = "binary_blocks",
          .purpose = "long buffers for any rank count, summed by the balanced tree",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
