#include "paceline/core/collective/building/circulant.h"

namespace paceline::collective {

Program circulant_reduce_scatter(const Shape& shape) {
  const int n = shape.ranks, own = shape.rank;
  if (n == 1) return {.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}};
  Program program{.chunks = n};
  int summed = 0;  // of the chunks from the own one on, these are partial sums already
  for (int reach = n; reach > 1;) {
    const int distance = (reach + 1) / 2, arriving = reach - distance;
    const int ahead = (own + distance) % n, behind = (own + n - distance) % n;
    const auto held = [&](int offset) {
      const int chunk = (own + offset) % n;
      return offset < summed ? output(chunk) : input(chunk);
    };
    Round round;
    for (int offset = distance; offset < reach; ++offset)
      round.push_back(send(ahead, held(offset)));
    for (int offset = 0; offset < arriving; ++offset) {
      const Slot sum = output((own + offset) % n);
      round.push_back(recv_reduce(behind, held(offset), sum, /*operand_is_left=*/true));
      round.back().completes = distance == 1;
    }
    program.rounds.push_back(round);
    summed = arriving > summed ? arriving : summed;
    reach = distance;
  }
  return program;
}

}  // namespace paceline::collective
