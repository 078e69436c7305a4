#include "paceline/core/collective/building/halving.h"

namespace paceline::collective {

Program halving_reduce_scatter(const Shape& shape, Partners partners) {
  const int n = shape.ranks, own = shape.rank;
  if (n == 1) return {.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}};
  Program program{.chunks = n};
  int first = 0;
  for (int half = n / 2; half >= 1; half /= 2) {
    const bool is_first_round = half == n / 2;
    const int distance = partners == Partners::nearest_first ? n / (2 * half) : half;
    const int partner = own ^ distance;
    const int kept = own < partner ? first : first + half, given = 2 * first + half - kept;
    const auto held = [&](int chunk) { return is_first_round ? input(chunk) : output(chunk); };
    Round round;
    for (int i = 0; i < half; ++i) round.push_back(send(partner, held(given + i)));
    for (int i = 0; i < half; ++i) {
      const int chunk = kept + i;
      round.push_back(recv_reduce(partner, held(chunk), output(chunk),
                                  /*operand_is_left=*/own < partner));
      round.back().completes = half == 1;
    }
    program.rounds.push_back(round);
    first = kept;
  }
  return program;
}

int reversed_bits(int number, int count) {
  int reversed = 0;
  for (int bit = 1; bit < count; bit *= 2) {
    reversed = 2 * reversed + number % 2;
    number /= 2;
  }
  return reversed;
}

}  // namespace paceline::collective
