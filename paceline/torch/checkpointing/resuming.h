// How a run begins: anew, or from the newest checkpoint in its directory. Rank 0 decides, and all
// ranks do the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/checkpoint.h"
#include "paceline/core/collective/collective.h"
#include "paceline/torch/checkpointing/checkpoint_options.h"
#include "paceline/torch/checkpointing/checkpoint_part.h"

namespace paceline::checkpointing {

// Ranks keep an item of this name themselves, where they are not at the same step.
inline constexpr const char* kStepsItem = "rank_steps";

class ItemChoice {
 public:
  // THROWS Error (misuse): the options name some items to load and some to leave out.
  explicit ItemChoice(const CheckpointOptions& options);

  // THROWS Error (misuse): `only` names an item that the program did not add.
  void require_known(const std::vector<NamedPart>& parts) const;

  struct Chosen {
    std::vector<std::string> loaded;
    std::string told;  // a line on what is left out; empty: nothing is
  };
  // `path`: of the checkpoint. THROWS Error (misuse): an item that is to be loaded is missing on
  // one side; the options name one that neither side has.
  Chosen of(const checkpoint::Manifest& manifest, const std::vector<NamedPart>& parts,
            const std::string& path) const;
  // All items, whatever the options name: of a checkpoint that this job has saved itself.
  static Chosen all(const checkpoint::Manifest& manifest, const std::vector<NamedPart>& parts,
                    const std::string& path);

 private:
  ItemChoice() = default;
  bool takes(const std::string& name) const;

  std::vector<std::string> only_, ignore_;
};

class Resuming {
 public:
  // The run of which this is the beginning.
  struct Run {
    std::string job;
    std::uint64_t generation = 1;  // above 1: the launcher has started it again
  };
  // `group`, `disk` and `directory` outlive it.
  Resuming(Run run, Communicator& group, Disk& disk, checkpoint::CheckpointDirectory& directory,
           const CheckpointOptions& options);

  // On rank 0, which holds the directory: what becomes of checkpoints from which this run shall not
  // go on. THROWS Error: misuse, nobody said that it may go on from them; io, they cannot be set
  // aside.
  void settle_old_ones();

  // Collective: the step from which all ranks go on; nothing: there is no checkpoint, or none that
  // this run goes on from. THROWS Error, on all ranks: misuse, all are damaged; io, one cannot be
  // read now.
  std::optional<std::uint64_t> find(const std::vector<NamedPart>& parts);

  struct Loaded {
    std::int64_t own_step = 0;       // that this rank has ended
    std::vector<std::string> items;  // those that were loaded
  };
  // Collective: loads the step that find() gave. Every rank knows that all of it fits before any
  // tensor is written. `may_differ`: ranks need not be at the same step. THROWS Error, on all
  // ranks: misuse, which names the first thing that differs; io.
  Loaded load(std::uint64_t step, const std::vector<NamedPart>& parts, bool may_differ);

 private:
  bool goes_on() const;
  bool may_be_own(const std::vector<std::uint64_t>& steps) const;
  ItemChoice::Chosen chosen_items(const checkpoint::Manifest& manifest,
                                  const std::vector<NamedPart>& parts,
                                  const std::string& path) const;

  const Run run_;
  Communicator& group_;
  Disk& disk_;
  checkpoint::CheckpointDirectory& directory_;
  const Resume resume_;
  const ItemChoice choice_;
};

// Finds the checkpoint from which a run goes on.
struct ResumePoint {
  std::optional<std::uint64_t> step = {};  // nothing: no checkpoint is whole
  std::vector<std::string> damaged = {};   // a line for each newer one that is not
};

// The newest step of which every byte verifies. THROWS Error: misuse, the newest was saved by a
// newer Paceline; io, the directory, or a step that is newer than all whole ones, cannot be read
// now. COST: reads the files once.
ResumePoint find_resume_point(Disk& disk, const checkpoint::CheckpointDirectory& directory);

}  // namespace paceline::checkpointing
