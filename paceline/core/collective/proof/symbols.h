// Sums as symbols: every distinct summation tree over ranks has one number.
//
// Numbers are shared ("hash-consing"), so that asking whether two ranks summed by the same tree
// compares two integers, and 64 ranks are proven in milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace paceline::collective {

class Symbols {
 public:
  using Id = std::int32_t;

  explicit Symbols(int ranks);

  Id leaf(int rank) const { return rank; }  // the contribution of one rank
  Id sum(Id left, Id right);                // left OP right. REQUIRES: !shared_rank(left, right)
  Id balanced();                            // every rank, by the balanced tree in rank order

  std::optional<int> shared_rank(Id left, Id right) const;  // the first rank that both hold
  bool is_whole(Id id) const;                               // holds every rank
  std::string text(Id id) const;                            // "((0+1)+2)"

 private:
  std::size_t word(Id id, std::size_t i) const { return static_cast<std::size_t>(id) * words_ + i; }
  void append(Id id, std::string& text) const;

  struct Sum {
    Id left = -1;
    Id right = -1;
  };
  int ranks_;
  std::size_t words_;                          // 64-bit words for a set of ranks
  std::vector<Sum> sums_;                      // by id; the first `ranks_` are leaves
  std::vector<std::uint64_t> held_;            // words_ for each id: which ranks it holds
  std::unordered_map<std::uint64_t, Id> ids_;  // (left, right) -> id
};

}  // namespace paceline::collective
