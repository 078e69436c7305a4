#include "paceline/app/cli/plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

using plan::PipelinePlan;
using plan::PlannedStage;
using Json = nlohmann::ordered_json;

constexpr double kMillisOfSecond = 1e3, kBytesOfMebi = 1 << 20, kMegabitsOfByte = 8e-6;

std::string chunks_text(const PlannedStage& stage) {
  std::string text;
  for (const plan::Stage& chunk : stage.chunks) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", chunk.first);
    if (chunk.last > chunk.first) text += fmt::format("-{}", chunk.last);
  }
  return text;
}

std::vector<int> ranks_of(const PipelinePlan& plan, std::size_t stage) {
  int first = 0;
  for (std::size_t i = 0; i < stage; ++i) first += plan.copies * plan.stages[i].times.replicas;
  std::vector<int> ranks;
  for (int i = 0; i < plan.copies * plan.stages[stage].times.replicas; ++i)
    ranks.push_back(first + i);
  return ranks;
}

std::string ranks_text(const PipelinePlan& plan, std::size_t stage) {
  const std::vector<int> ranks = ranks_of(plan, stage);
  return ranks.size() == 1 ? fmt::format("{}", ranks.front())
                           : fmt::format("{}-{}", ranks.front(), ranks.back());
}

std::string mebibytes(double bytes) {
  return fmt::format("{:.2f}", bytes / kBytesOfMebi);
}

// The widths of the columns that hold texts of any length.
struct Widths {
  std::size_t layout = 0, layers = 0;
};

Widths widths_of(const plan::PlanReport& report) {
  Widths widths{.layout = 12, .layers = 18};
  const auto take = [&widths](const PipelinePlan& plan) {
    widths.layout = std::max(widths.layout, plan.layout().size() + 2);
    widths.layers = std::max(widths.layers, plan.partition.text().size() + 2);
  };
  take(report.data_parallel);
  for (const PipelinePlan& plan : report.pipelines) take(plan);
  return widths;
}

std::string plan_line(const PipelinePlan& plan, const PipelinePlan& best, const Widths& widths) {
  const std::string note = !plan.fits       ? "  does not fit into the limit"
                           : &plan == &best ? "  expected to be the quickest"
                                            : "";
  return fmt::format("{:<{}}{:<{}}{:>8}{:>12.3f}{:>8.1f}{:>11}{}\n", plan.layout(), widths.layout,
                     plan.partition.text(), widths.layers, plan.micro_batches,
                     plan.seconds * kMillisOfSecond, plan.idle_share * 100,
                     mebibytes(plan.most_memory()), note);
}

std::string stages_text(const PipelinePlan& plan) {
  std::string text = fmt::format(
      "\n{}, {}: a rank's memory in MiB\n{:<8}{:<14}{:>9}{:>6}{:>9}{:>9}{:>9}{:>11}{:>9}{:>9}"
      "{:>13}{:>9}{:>10}{:>8}\n",
      plan.layout(), plan.form.text(), "ranks", "layers", "work ms", "live", "total", "weights",
      "grads", "optimizer", "masters", "versions", "activations", "buckets", "messages", "reused");
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const PlannedStage& stage = plan.stages[i];
    const plan::RankMemory& memory = stage.memory;
    text += fmt::format(
        "{:<8}{:<14}{:>9.3f}{:>6.3g}{:>9}{:>9}{:>9}{:>11}{:>9}{:>9}{:>13}{:>9}{:>10}{:>8}\n",
        ranks_text(plan, i), chunks_text(stage),
        plan.micro_batches * stage.times.seconds() * kMillisOfSecond, stage.live_micro_batches,
        mebibytes(memory.total()), mebibytes(memory.weights), mebibytes(memory.gradients),
        mebibytes(memory.optimizer), mebibytes(memory.masters), mebibytes(memory.versions),
        mebibytes(memory.activations), mebibytes(memory.buckets), mebibytes(memory.messages),
        mebibytes(0 - memory.reused));
  }
  return plan.why.empty() ? text : text + "micro-batches: " + plan.why + "\n";
}

// The bytes of both kinds of parallelism, for a straight pipeline over all ranks.
std::string bytes_text(const PlanRun& run) {
  for (const PipelinePlan& plan : run.report.pipelines) {
    if (plan.copies > 1 || !plan.partition.is_straight() || plan.form.chunks > 1) continue;
    const auto table = plan::split_table({.layers = run.question.layers,
                                          .profiled_batch = run.question.profiled_batch,
                                          .batch = run.question.batch,
                                          .ranks = run.question.ranks,
                                          .partition = plan.partition});
    if (table) return "\n" + text_of(table.value());
  }
  return {};
}

std::string expectation(const plan::PlanReport& report) {
  const PipelinePlan& best = report.best();
  const PipelinePlan& data = report.data_parallel;
  if (report.pipelines.empty()) return "no pipeline can be: the whole model stands on each rank\n";
  if (!data.fits)
    return fmt::format(
        "{} is expected to be the quickest that fits into the limit of memory; "
        "data parallelism does not fit\n",
        best.layout());
  const PipelinePlan& other = &best == &data ? report.pipelines.front() : data;
  if (!other.fits)
    return fmt::format("{} is expected to be the quickest: no pipeline fits into the limit\n",
                       best.layout());
  return fmt::format("{} is expected to be {:.2f} times as fast as {}\n", best.layout(),
                     other.seconds / best.seconds, other.layout());
}

std::int64_t whole_bytes(double bytes) {
  return std::llround(bytes);
}

Json json_of_stage(const PlannedStage& stage, const PipelinePlan& plan, std::size_t place) {
  Json chunks = Json::array();
  for (const plan::Stage& chunk : stage.chunks) chunks.push_back({chunk.first, chunk.last});
  const plan::RankMemory& memory = stage.memory;
  return {{"ranks", ranks_of(plan, place)},
          {"layers", std::move(chunks)},
          {"replicas", stage.times.replicas},
          {"forward_ms", stage.times.forward * kMillisOfSecond},
          {"backward_ms", stage.times.backward * kMillisOfSecond},
          {"live_micro_batches", stage.live_micro_batches},
          {"weight_versions", stage.weight_versions},
          {"recompute", stage.recompute.text()},
          {"memory_bytes",
           {{"total", whole_bytes(memory.total())},
            {"weights", whole_bytes(memory.weights)},
            {"gradients", whole_bytes(memory.gradients)},
            {"optimizer", whole_bytes(memory.optimizer)},
            {"masters", whole_bytes(memory.masters)},
            {"versions", whole_bytes(memory.versions)},
            {"activations", whole_bytes(memory.activations)},
            {"buckets", whole_bytes(memory.buckets)},
            {"messages", whole_bytes(memory.messages)},
            {"reused", whole_bytes(memory.reused)}}}};
}

Json json_of_plan(const PipelinePlan& plan, int batch) {
  Json stages = Json::array();
  for (std::size_t i = 0; i < plan.stages.size(); ++i)
    stages.push_back(json_of_stage(plan.stages[i], plan, i));
  return {{"layout", plan.layout()},
          {"schedule", plan.form.text()},
          {"partition", plan.partition.text()},
          {"copies", plan.copies},
          {"micro_batches", plan.micro_batches},
          {"step_ms", plan.seconds * kMillisOfSecond},
          {"samples_per_second", batch / plan.seconds},
          {"idle_share", plan.idle_share},
          {"fits", plan.fits},
          {"why", plan.why},
          {"stages", std::move(stages)}};
}

}  // namespace

std::string plan_text(const PlanRun& run) {
  const plan::PlanQuestion& question = run.question;
  const PipelinePlan& best = run.report.best();
  const Widths widths = widths_of(run.report);
  std::string text =
      fmt::format("{}: {} layers; {} ranks, batches of {}, {}, links of {:.6g} Mbit/s\n\n",
                  run.profile, question.layers.size(), question.ranks, question.batch,
                  question.form.text(), question.bytes_per_second * kMegabitsOfByte);
  text += fmt::format("{:<{}}{:<{}}{:>8}{:>12}{:>8}{:>11}\n", "layout", widths.layout, "layers",
                      widths.layers, "micros", "step ms", "idle %", "most MiB");
  text += plan_line(run.report.data_parallel, best, widths);
  for (const PipelinePlan& plan : run.report.pipelines) text += plan_line(plan, best, widths);
  for (const std::string& reason : run.report.left_out) text += "left out " + reason + "\n";
  text += stages_text(best) + bytes_text(run);
  return text + "\n" + expectation(run.report);
}

std::string plan_json(const PlanRun& run) {
  Json pipelines = Json::array();
  for (const PipelinePlan& plan : run.report.pipelines)
    pipelines.push_back(json_of_plan(plan, run.question.batch));
  const Json json = {{"profile", run.profile},
                     {"ranks", run.question.ranks},
                     {"batch", run.question.batch},
                     {"schedule", run.question.form.text()},
                     {"expected", run.report.best().layout()},
                     {"data_parallel", json_of_plan(run.report.data_parallel, run.question.batch)},
                     {"pipelines", std::move(pipelines)},
                     {"left_out", run.report.left_out}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace paceline::cli
