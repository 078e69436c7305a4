#include "paceline/torch/pipeline/chosen_options.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/collective/group/values.h"
#include "paceline/core/pipeline/pipeline.h"
#include "paceline/core/plan/plan.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/pipeline/timed_layers.h"

namespace paceline::pipeline {
namespace {

using Costs = std::vector<plan::LayerCost>;

// A rank's link has 1 Gbit/s where ranks do not share memory, as `paceline plan` takes it.
constexpr double kLink = 125e6, kSharedMemory = 2e9;

// Says whether the text is a partition, or is meant to be one.
bool is_partition(const std::string& text) {
  return text.find_first_not_of("0123456789-,x ") == std::string::npos;
}

bool is_left_open(const PipelineOptions& options) {
  return options.micro_batches == automatic || options.recompute == "auto" ||
         !is_partition(options.partition);
}

struct Choice {
  int micro_batches = 1;
  std::string partition = {};
  std::vector<std::string> recompute = {};  // by rank of the stages
};

std::string text_of(const Choice& choice) {
  std::string text = fmt::format("{} {}", choice.micro_batches, choice.partition);
  for (const std::string& one : choice.recompute) text += " " + one;
  return text;
}

Choice choice_of(const std::string& text) {
  Choice choice;
  std::istringstream words(text);
  words >> choice.micro_batches >> choice.partition;
  for (std::string word; words >> word;) choice.recompute.push_back(word);
  return choice;
}

// Rank 0 makes one.
class Chooser {
 public:
  Chooser(const Layers& layers, DeviceMesh& mesh, const PipelineOptions& options)
      : layers_(layers),
        options_(options),
        form_(plan::PipelineForm::parse(options.schedule).value()),
        ranks_(mesh.size("pp")),
        bytes_per_second_(mesh.job().transport() == "shm" ? kSharedMemory : kLink) {
    if (mesh.size("cp") > 1 && !is_profile()) {
      throw_misuse(
          "layers whose sequences ranks share (cp) cannot be timed on one rank: give partition, "
          "micro_batches and recompute by hand");
    }
    if (!options.sample.data.empty())
      batch_ = static_cast<int>(options.sample.data.front().size(0));
  }

  Choice choose() {
    Choice choice{.micro_batches = options_.micro_batches, .partition = options_.partition};
    if (!is_partition(choice.partition) || choice.partition.empty()) choice.partition = cut();
    partition_ = plan::StagePartition::parse(choice.partition, layers_.size()).value();
    if (!partition_.is_straight()) {
      throw_misuse("PipelineOptions::partition \"" + options_.partition +
                   "\" replicates stages, for which nothing is chosen by times: give micro_batches "
                   "and recompute by hand");
    }
    if (partition_.size() != stages()) return refused(std::move(choice));
    if (choice.micro_batches == automatic) choice.micro_batches = best_micro_batches();
    for (int rank = 0; rank < ranks_; ++rank)
      choice.recompute.push_back(recompute_of(rank, choice.micro_batches));
    return choice;
  }

 private:
  int stages() const { return ranks_ * form_.chunks; }
  // A partition of another number of stages is refused where the stages are made.
  Choice refused(Choice choice) const {
    choice.micro_batches = std::max(choice.micro_batches, 1);
    choice.recompute.assign(static_cast<std::size_t>(ranks_), "none");
    return choice;
  }
  bool is_profile() const {
    return !is_partition(options_.partition) && options_.partition != "automatic";
  }

  // The stages of rank r are r, r + ranks, and so on.
  Costs layers_of_rank(const Costs& costs, int rank) const {
    Costs own;
    for (auto stage = static_cast<std::size_t>(rank); stage < partition_.stages.size();
         stage += static_cast<std::size_t>(ranks_)) {
      const plan::Stage& some = partition_.stages[stage];
      own.insert(own.end(), costs.begin() + some.first, costs.begin() + some.last + 1);
    }
    return own;
  }

  const Costs& timed(int samples) {
    const auto there = timed_.find(samples);
    if (there != timed_.end()) return there->second;
    Costs costs;
    for (const MeasuredLayer& one : timed_layers(layers_, options_, samples))
      costs.push_back({.forward = one.forward,
                       .backward = one.backward,
                       .output_bytes = static_cast<double>(one.output_bytes),
                       .saved_bytes = static_cast<double>(one.saved_bytes)});
    return timed_[samples] = std::move(costs);
  }

  // A micro-batch is a quarter of the batch where nothing says how large it will be.
  const Costs& timed() {
    constexpr int kUnknown = 4;
    const int parts = options_.micro_batches == automatic ? kUnknown : options_.micro_batches;
    return timed(std::max(batch_ / parts, 1));
  }

  const Costs& known() {
    if (!is_profile()) return timed();
    if (!profile_.empty()) return profile_;
    if (!std::filesystem::exists(options_.partition)) {
      throw_misuse("PipelineOptions::partition \"" + options_.partition +
                   "\" is neither a list of layers such as \"0-3,4-6\", nor \"automatic\", nor a "
                   "file that rank 0 can read: record a profile with `paceline profile`");
    }
    const schedule::Model model = schedule::read_model(options_.partition);
    std::vector<plan::NamedLayer> own;
    for (int layer = 0; layer < layers_.size(); ++layer) {
      std::size_t elements = 0;
      for (const at::Tensor& one : layers_.make(layer)->module()->parameters())
        elements += static_cast<std::size_t>(one.numel());
      own.push_back({layers_.name(layer), elements});
    }
    profile_ = plan::profiled_layers(model, options_.partition).value();
    plan::check_profile_of(model, options_.partition, own).value();
    return profile_;
  }

  std::string cut() {
    if (options_.partition.empty()) return plan::even_cut(layers_.size(), stages()).value().text();
    return plan::balanced_cut(known(), stages(), bytes_per_second_).value().partition.text();
  }

  // The seconds of each rank for a micro-batch of so many samples.
  std::vector<plan::StageTimes> stage_times(int samples) {
    std::vector<plan::StageTimes> times;
    const Costs& costs = timed(samples);
    for (int rank = 0; rank < ranks_; ++rank) {
      plan::StageTimes& own = times.emplace_back();
      const Costs layers = layers_of_rank(costs, rank);
      for (const plan::LayerCost& layer : layers) {
        own.forward += layer.forward;
        own.backward += layer.backward;
      }
      if (ranks_ > 1) own.transfer = layers.back().output_bytes / bytes_per_second_;
    }
    return times;
  }

  plan::BatchCost slowest_stage() {
    std::vector<plan::TimedBatch> times;
    const std::vector<int> sizes =
        batch_ >= 8 ? std::vector{batch_ / 8, batch_ / 4, batch_ / 2, batch_}
                    : std::vector{1, std::min(2, batch_), std::min(3, batch_), std::min(4, batch_)};
    for (const int samples : sizes) {
      double most = 0;
      for (const plan::StageTimes& stage : stage_times(samples))
        most = std::max(most, stage.seconds());
      times.push_back({static_cast<double>(samples), most});
    }
    return plan::fitted_batch_cost(times).value();
  }

  int best_micro_batches() {
    if (!form_.is_synchronous()) {
      throw_misuse(
          "micro_batches automatic goes with schedules that empty the pipeline: give a "
          "number to \"" +
          options_.schedule + "\"");
    }
    const bool has_idle = form_.kind != plan::PipelineKind::sequential;
    const plan::MicroBatchQuestion question{
        .batch = batch_,
        .idle = has_idle ? plan::idle_micro_batches(form_, ranks_) : 0,
        .cost = slowest_stage(),
        .multiple_of = form_.chunks > 1 ? ranks_ : 1};
    const plan::MicroBatchChoice expected = plan::best_micro_batches(question).value();
    std::vector<int> first = {expected.micro_batches};
    for (const auto& [samples, costs] : timed_)
      if (batch_ % samples == 0) first.push_back(batch_ / samples);
    const plan::MicroBatchSearch found = plan::quickest_micro_batches(
        question, first,
        [this](int m) { return plan::step_seconds(form_, stage_times(batch_ / m), m); });
    std::string measured;
    for (const auto& [m, seconds] : found.measured)
      measured += fmt::format("{}{} makes a step of {:.3g} ms", measured.empty() ? "" : ", ", m,
                              1e3 * seconds);
    fmt::print(stderr, "paceline: micro-batches: {}. Measured: {}; taken: {}\n", expected.why,
               measured, found.micro_batches);
    return found.micro_batches;
  }

  std::string recompute_of(int rank, int micro_batches) {
    if (options_.recompute != "auto") return options_.recompute;
    const Costs& costs = known();
    const int first = partition_.stages[static_cast<std::size_t>(rank)].first;
    const double input = first == 0 ? 0 : costs[static_cast<std::size_t>(first - 1)].output_bytes;
    const std::vector<int> replicas(static_cast<std::size_t>(ranks_), 1);
    const double live =
        plan::live_activations(plan::recomputing(form_), replicas, rank, micro_batches);
    return plan::best_recompute(layers_of_rank(costs, rank), input, live).text();
  }

  const Layers& layers_;
  const PipelineOptions& options_;
  const plan::PipelineForm form_;
  const int ranks_;
  const double bytes_per_second_;
  int batch_ = 1;  // samples
  plan::StagePartition partition_;
  Costs profile_;
  std::map<int, Costs> timed_;  // by the samples of a micro-batch
};

// Rank 0's text on all ranks; what it throws is thrown on all.
std::string of_rank_0(Communicator& world, const std::function<std::string()>& make) {
  std::string text;  // its first character says whether it is an error
  if (world.rank() == 0) {
    try {
      text = "+" + make();
    } catch (const Error& error) {
      text = "-" + error.failure().what;
    } catch (const c10::Error& error) {
      text = std::string("-the layers could not be timed: ") + error.what_without_backtrace();
    } catch (const std::exception& error) {
      text = std::string("-the layers could not be timed: ") + error.what();
    }
  }
  if (world.size() > 1) text = broadcast_bytes(world, text);
  if (text.front() == '-') throw_misuse(text.substr(1));
  return text.substr(1);
}

}  // namespace

PipelineOptions chosen(const Layers& layers, DeviceMesh& mesh, PipelineOptions options) {
  const bool knows_schedule = parse_schedule(options.schedule).has_value();
  if (!is_left_open(options) || !knows_schedule || !options.loss) return options;
  const Choice choice = choice_of(
      of_rank_0(mesh.world(), [&] { return text_of(Chooser(layers, mesh, options).choose()); }));
  options.sample = {};
  options.micro_batches = choice.micro_batches;
  options.partition = choice.partition;
  options.recompute = choice.recompute[static_cast<std::size_t>(mesh.rank("pp"))];
  return options;
}

}  // namespace paceline::pipeline
