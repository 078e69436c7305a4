#include "paceline/torch/replica/agreement.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <typeinfo>

#include "paceline/core/base/base.h"
#include "paceline/core/collective/collective.h"

namespace paceline::replica {
namespace {

std::string line_at(std::string_view text, std::size_t index) {
  for (; index > 0 && !text.empty(); --index) {
    const auto end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::string(text.substr(0, text.find('\n')));
}

[[noreturn]] void throw_first_difference(int rank, std::string_view expected,
                                         std::string_view got) {
  std::size_t index = 0;
  while (line_at(expected, index) == line_at(got, index)) ++index;
  const auto told = [](const std::string& line) {
    return line.empty() ? std::string("nothing there") : "'" + line + "'";
  };
  const bool is_split = line_at(expected, index).ends_with("parallelize() split") ||
                        line_at(got, index).ends_with("parallelize() split");
  const char* const remedy =
      is_split ? ". Ranks that hold parts of one layer are one replica: make DataParallel(model, "
                 "mesh), which averages among ranks with the same parts; DistributedOptimizer "
                 "knows no mesh"
               : ". Build the model in the same way on every rank";
  throw Error({Fault::mismatch,
               "DataParallel needs the same model on all ranks, but the models differ: "
               "rank 0 has " +
                   told(line_at(expected, index)) + " where rank " + std::to_string(rank) +
                   " has " + told(line_at(got, index)) + remedy,
               {0, rank}});
}

// The texts of all ranks if they differ; empty when all agree.
std::vector<std::string> texts_if_different(Communicator& group, const std::string& text) {
  std::uint64_t fingerprint = text.size();
  for (const char c : text) fingerprint = mix(fingerprint, static_cast<unsigned char>(c));
  const std::int64_t own[] = {static_cast<std::int64_t>(fingerprint)};
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  group.all_gather(const_buffer_of(own), buffer_of(all)).wait();
  if (std::ranges::count(all, all[0]) == group.size()) return {};
  return all_gather_bytes(group, text);
}

std::string difference_of(const GivenOption& setting, const std::vector<std::string>& texts,
                          std::size_t index) {
  const std::string expected = line_at(texts[0], index);
  for (std::size_t r = 1; r < texts.size(); ++r) {
    const std::string got = line_at(texts[r], index);
    if (got != expected)
      return setting.name + " is '" + expected + "' on rank 0 and '" + got + "' on rank " +
             std::to_string(r);
  }
  return {};
}

// Options of a user's own class may tell no rate, which libtorch throws anew each time.
std::optional<double> rate_of(const torch::optim::OptimizerOptions& options) {
  static thread_local const std::type_info* without_rate = nullptr;
  if (without_rate != nullptr && *without_rate == typeid(options)) return std::nullopt;
  try {
    return options.get_lr();
  } catch (const c10::Error&) {
    without_rate = &typeid(options);
    return std::nullopt;
  }
}

std::optional<double> rate_of(const torch::optim::Optimizer& optimizer,
                              const torch::optim::OptimizerParamGroup& group) {
  return rate_of(group.has_options() ? group.options() : optimizer.defaults());
}

// A line for each leaf: its rate, with all digits, and its name.
std::string rates_told(const std::vector<Parameter>& leaves, const Optimizers& optimizers) {
  std::ostringstream lines;
  lines.precision(17);
  for (const torch::optim::Optimizer* optimizer : optimizers) {
    for (const auto& group : optimizer->param_groups()) {
      const auto rate = rate_of(*optimizer, group);
      if (!rate) continue;
      for (const at::Tensor& tensor : group.params())
        for (const Parameter& leaf : leaves)
          if (leaf.tensor.is_same(tensor)) lines << *rate << ' ' << leaf.name << '\n';
    }
  }
  return lines.str();
}

}  // namespace

void require_agreement(Communicator& group, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  const std::vector<std::string> texts = texts_if_different(group, text);
  for (std::size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] != texts[0]) throw_first_difference(static_cast<int>(r), texts[0], texts[r]);
  }
}

void require_same_settings(Communicator& group, const std::vector<GivenOption>& settings) {
  std::string text;
  for (const GivenOption& setting : settings) text += setting.value + '\n';
  const std::vector<std::string> texts = texts_if_different(group, text);
  if (texts.empty()) return;
  std::string differences;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string one = difference_of(settings[i], texts, i);
    if (!one.empty()) differences += (differences.empty() ? "" : "; ") + one;
  }
  std::vector<int> ranks = {0};
  for (std::size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] != texts[0]) ranks.push_back(static_cast<int>(r));
  }
  throw Error({Fault::mismatch,
               "DataParallelOptions must be the same on all ranks, but " + differences +
                   ". Make them in the same way on every rank",
               std::move(ranks)});
}

std::uint64_t fingerprint_of_rates(const Optimizers& optimizers) {
  std::vector<std::uint64_t> rates;
  for (const torch::optim::Optimizer* optimizer : optimizers) {
    for (const auto& group : optimizer->param_groups()) {
      if (group.params().empty()) continue;
      const auto rate = rate_of(*optimizer, group);
      if (!rate) return 0;
      const auto bits = std::bit_cast<std::uint64_t>(*rate);
      if (std::ranges::find(rates, bits) == rates.end()) rates.push_back(bits);
    }
  }
  std::ranges::sort(rates);
  std::uint64_t fingerprint = rates.size();
  for (const std::uint64_t bits : rates) fingerprint = mix(fingerprint, bits);
  return std::max<std::uint64_t>(fingerprint, 1);
}

void require_same_rates(Communicator& group, const std::vector<Parameter>& leaves,
                        const Optimizers& optimizers) {
  struct Told {
    int rank = 0;
    std::string rate;
  };
  std::map<std::string, Told> first_told;
  const std::vector<std::string> texts = all_gather_bytes(group, rates_told(leaves, optimizers));
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    std::istringstream lines(texts[rank]);
    std::string rate, name;
    while (lines >> rate && std::getline(lines >> std::ws, name)) {
      const auto [found, is_new] = first_told.emplace(name, Told{static_cast<int>(rank), rate});
      const Told& before = found->second;
      if (is_new || before.rate == rate) continue;
      throw Error({Fault::mismatch,
                   c10::str("the optimizer's learning rate of '", name, "' is ", before.rate,
                            " on rank ", before.rank, " and ", rate, " on rank ", rank,
                            ", so the replicas would drift apart. Set the same rate on all ranks; "
                            "a schedule that follows a loss takes parallel.mean(loss)"),
                   {before.rank, static_cast<int>(rank)}});
    }
  }
}

}  // namespace paceline::replica
