// Options of programs that train a model in stages, as fashion_mnist and tiny_gpt have them: what a
// paceline::Pipeline may choose by itself.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "paceline/train.h"

// --micro-batches N|auto; `parts`: what is cut. It gives paceline::automatic for auto.
inline void add_micro_batches(CLI::App& app, int& micro_batches, const std::string& parts) {
  const CLI::Range count(1, 100'000);
  const auto number = [count](std::string& text) {
    if (text != "auto") return count(text);
    text = std::to_string(paceline::automatic);
    return std::string();
  };
  app.add_option("--micro-batches", micro_batches,
                 "Cut " + parts +
                     " into so many parts, which follow each other through the stages: more of "
                     "them let stages wait less; auto times layers and chooses the number. Workers "
                     "without stages add up the gradients of the parts, with the same bits [1]")
      ->transform(CLI::Validator(number, "N|auto"))
      ->type_name("");
}

inline void add_recompute(CLI::App& app, std::string& recompute) {
  const auto complaint = [](const std::string& text) {
    const auto parsed = paceline::plan::Recompute::parse(text);
    return parsed ? std::string() : parsed.error().what;
  };
  app.add_option("--recompute", recompute,
                 "Compute activations again in the backward pass, with the same bits: full, those "
                 "within each layer; every:K, those within segments of K layers; auto, those of "
                 "the segments that take the least memory [none]")
      ->check(CLI::Validator(complaint, "none|full|every:K|auto"))
      ->type_name("");
}

inline std::string micro_batches_as_given(int micro_batches) {
  return "--micro-batches " +
         (micro_batches == paceline::automatic ? "auto" : std::to_string(micro_batches));
}
