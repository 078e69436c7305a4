// All ranks' programs as what has to be paid: messages and local work, in an order in which they
// can happen. Made once for an algorithm and a shape, and then priced for any length.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

struct Timetable {
  // The side that pays for a chunk of a message when ranks share memory.
  enum class Payer : std::uint8_t {
    nobody,    // it is read where it lies: by the reduction that the receive is, or a later one
    sender,    // a store
    the_sum,   // a store in the same pass as the reduction that made it (compiled_program.h)
    receiver,  // a receive into its own memory
  };
  struct Load {
    int chunk;
    Payer payer;
    bool is_relayed = false;  // the sender itself has it from another rank
  };

  // The chunks that one rank sends another in one round of both: they count as one message.
  struct Message {
    int from = 0, to = 0;
    int wave = 0;  // messages of a wave depend on those of earlier waves alone
    int step = 0;  // the place of its first send in the sender's round
    std::vector<Load> loads = {};
  };

  // The work that a rank does by itself at the end of a round.
  struct Work {
    int messages = 0;               // of the round, in and out
    std::vector<int> reduced = {};  // chunks
    std::vector<int> copied = {};
  };

  int chunks = 0;
  std::vector<Message> messages;          // by wave, then step, then sender
  std::vector<std::vector<Work>> rounds;  // by rank and round
};

// REQUIRES: the programs meet (THROWS Error, misuse), as verified ones do. In place, a copy onto
// itself costs nothing. COST: with_payers takes most of the time.
Timetable timetable_of(std::span<const Program> programs, bool with_payers = true);
Timetable timetable_of(const Algorithm& algorithm, const Shape& shape, bool with_payers = true);

}  // namespace paceline::collective
