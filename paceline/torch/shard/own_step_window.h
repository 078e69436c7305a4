// OwnStepWindow: which values code reads between synchronize() and the step of the caller's own
// optimizer, where each rank's optimizer steps a piece of the parameters.
//
// Before that step the old values count; after it, each rank's piece alone is new, and all ranks
// must gather. No rank knows of another whether it has stepped, and one
// without gradients in its pieces does not even know it of itself. So each read in the window is a
// round: every rank tells a word, hears all of them joined, and does what the answer says. A rank
// that reads alone waits for the next read of the others, as it does for any gather.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::shard {

// A value without communication. THREAD: one.
class OwnStepWindow {
 public:
  // A rank reads outside of training; or in a forward pass, or where that cannot be told from one;
  // or it does something before which all of the caller's steps were made, as a backward pass.
  enum class Use : std::uint8_t { evaluation, forward, end };
  // A rank's word has bits, so that words are joined by bitwise or.
  using Word = std::int32_t;
  struct Answer {
    bool is_refused = false;   // some ranks read after their step, others before theirs
    bool gathers = false;      // all ranks gather before this rank goes on
    bool is_closed = false;    // no step is awaited any more
    bool is_repeated = false;  // this rank tells and hears once more
    bool operator==(const Answer&) const = default;
  };

  // A step has ended whose gradients the caller's optimizers take. `has_gradient`: by leaf of this
  // rank.
  void open(const std::vector<bool>& has_gradient);
  void close() { is_open_ = false; }
  bool is_open() const { return is_open_; }
  // No gradient lies in this rank's pieces, so it cannot see the caller's optimizers step.
  bool is_blind() const { return awaited_ == 0; }
  // An operator writes to this leaf.
  void written(std::size_t leaf);

  // REQUIRES: is_open().
  Word word(Use use) const;
  Answer hear(Word all, Use use);

 private:
  bool waits() const { return awaited_ > 0 && written_ == 0; }
  bool is_between() const { return written_ > 0 && written_ < awaited_; }
  bool may_still_step(Use use) const { return use != Use::end && (waits() || is_between()); }
  bool goes_on(Use use) const { return use == Use::evaluation || may_still_step(use); }

  bool is_open_ = false;
  std::vector<bool> awaits_;  // by leaf
  std::size_t awaited_ = 0, written_ = 0;
  bool is_new_ = false;  // something was written since the last gather
};

}  // namespace paceline::shard
