#include "paceline/app/cli/checkpoint/checkpoint_options.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace paceline::cli {

CheckpointOptions::CheckpointOptions(const Texts& texts) : app(texts.about, texts.who) {
  app.footer(texts.more);
  app.add_option("DIRECTORY", directory, texts.directory_is)->required();
  app.add_option("--json", json, texts.json_does)->type_name("FILE");
}

std::shared_ptr<const CLI::App> described_options(const CheckpointOptions::Texts& texts) {
  const auto options = std::make_shared<CheckpointOptions>(texts);
  return {options, &options->app};
}

}  // namespace paceline::cli
