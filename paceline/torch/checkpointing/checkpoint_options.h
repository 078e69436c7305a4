// The choices of a program about its checkpoints.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace paceline {

// A run may find checkpoints in its directory: the choice what becomes of them. A bool: no or yes.
class Resume {
 public:
  enum Choice : std::uint8_t {
    no,   // refuses the directory, unless the launcher has started this job again
    yes,  // goes on from the newest one
    // Begins at step 0 and moves the old ones into a folder beside them, `aside-1` and so on, which
    // stderr names; none is removed. A job that the launcher has started again goes on from its
    // own.
    anew
  };
  constexpr Resume(Choice choice) : choice_(choice) {}
  // A pointer makes none: a text such as "new" would be true.
  template <typename Bool>
  requires(std::convertible_to<Bool, bool> && !std::is_pointer_v<std::decay_t<Bool>> &&
           !std::same_as<std::decay_t<Bool>, Choice>) constexpr Resume(const Bool& goes_on)
      : choice_(static_cast<bool>(goes_on) ? yes : no) {}
  constexpr Choice choice() const { return choice_; }
  constexpr bool operator==(const Resume&) const = default;

 private:
  Choice choice_;
};

struct CheckpointOptions {
  std::int64_t every = 0;        // steps between saves; 0: only those that are asked for
  std::uint64_t keep_last = 2;   // of the newest checkpoints stay; at least 1
  std::uint64_t keep_every = 0;  // those of all multiples of this step stay too; 0: none
  // Goes on from the newest checkpoint in the directory. Without it a directory that holds
  // checkpoints is refused, except when the launcher has started this job again: then it goes on.
  Resume resume = Resume::no;
  // The items that resume() loads, by their names; empty: all. Those that are left out begin as the
  // program has made them. A job that the launcher has started again loads all items of its own
  // checkpoints. One of the two may be given.
  std::vector<std::string> only = {};
  std::vector<std::string> ignore = {};  // those that it does not load
};

}  // namespace paceline
