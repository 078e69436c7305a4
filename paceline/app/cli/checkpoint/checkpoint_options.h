// The options that the subcommands of `paceline checkpoint` share.
#pragma once

#include <memory>
#include <string>

#include <CLI/App.hpp>

namespace paceline::cli {

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
