// Chooses the items of a checkpoint with which a run goes on: all, or those its options name.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/checkpoint/checkpoint.h"
#include "paceline/torch/checkpoint/checkpoint_options.h"
#include "paceline/torch/checkpoint/checkpoint_part.h"

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

}  // namespace paceline::checkpointing
