// How ranks that go in step agree on saves: a state machine without clock, file or network.
//
// In each round, once a step, every rank tells news(), and all hear() their maximum; so all ranks
// decide the same in the same round. A save goes through three stages: each rank writes its share,
// until the last has; then rank 0 closes it (commits it, or gives it up where a share failed); then
// it is over. One save is under way at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::checkpoint {

class SaveAgreement {
 public:
  // The news of one rank: whether a save (1), or a save and then the end of the run (2) was asked
  // for; the number of saves of which its share is written, negated; and, from rank 0, of those
  // that are over; the last save that failed here.
  using News = std::array<std::int32_t, 4>;

  struct Decision {
    bool save = false;  // at this step
    bool stop = false;  // and then end the run
    // All shares of the save under way have ended: rank 0 closes it. `failed`: some share did.
    bool close = false;
    bool over = false;    // the save is over: committed, unless `failed`
    bool failed = false;  // with `close` or `over`
    bool operator==(const Decision&) const = default;
  };

  // --- what happens on this rank ---

  void ask(bool stop);  // told in the next round
  // All ranks begin a save at the same step. REQUIRES: is_idle().
  void begin();
  // This rank's share has ended.
  void wrote(bool well);
  // Rank 0 has closed the save.
  void closed(bool well);

  // --- rounds ---

  News news();
  Decision hear(const News& all);

  bool is_idle() const { return stage_ == Stage::idle; }
  bool is_writing() const { return stage_ == Stage::writing; }

 private:
  enum class Stage : std::uint8_t { idle, writing, closing };
  Stage stage_ = Stage::idle;
  std::int32_t begun_ = 0;  // saves so far
  std::int32_t asked_ = 0, written_ = 0, over_ = 0, failed_ = 0;
};

// Shares the tensors that all ranks have alike among the ranks that write them. The rank of each
// tensor, from the tensors' bytes: the largest first, each to the rank that has least so far
// (Graham 1969, LPT). So the ranks' shares differ by at most the largest tensor, and all ranks find
// the same.
std::vector<int> deal(std::span<const std::uint64_t> bytes, int ranks);

}  // namespace paceline::checkpoint
