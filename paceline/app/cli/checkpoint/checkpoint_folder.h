// The options of commands on checkpoints, and the checkpoints that their argument names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/checkpoint.h"

namespace paceline::cli {

struct FoundStep {
  std::uint64_t step = 0;
  std::string directory;
};

// The committed steps of a run's directory, in ascending order, or the one that `path` itself is.
// THROWS Error (misuse), with the remedy, if there is none.
std::vector<FoundStep> steps_in(Disk& disk, const std::string& path);

// The newest of them.
FoundStep step_in(Disk& disk, const std::string& path);

// The manifest of a step. THROWS Error (io; misuse of a newer version).
checkpoint::Manifest manifest_of(Disk& disk, const FoundStep& step);

// The bytes of all files that a manifest lists.
std::uint64_t bytes_in(const checkpoint::Manifest& manifest);

// The options that the subcommands of `paceline checkpoint` share.
struct CheckpointOptions {
  // The texts of --help: `who` is "paceline checkpoint ls"; `directory_is` and `json_does` tell of
  // the argument and of --json.
  struct Texts {
    const char *who, *about, *more, *directory_is, *json_does;
  };
  explicit CheckpointOptions(const Texts& texts);

  CLI::App app;
  std::string directory, json;
};

std::shared_ptr<const CLI::App> described_options(const CheckpointOptions::Texts& texts);

}  // namespace paceline::cli
