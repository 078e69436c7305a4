#include "paceline/torch/precision/choice.h"

#include <ATen/cpu/Utils.h>
#include <c10/util/StringUtil.h>

#include <cmath>
#include <utility>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/core/settings/named_choice.h"
#include "paceline/core/settings/settings.h"

namespace paceline::precision {
namespace {

constexpr const char *kDtype = "dtype", *kScale = "scale", *kInterval = "interval",
                     *kFloor = "floor";
constexpr const char* kSynchronous = "synchronous";

struct Entry {
  std::string_view name;
  Mode mode;
  std::vector<Setting> settings;
};

std::vector<Entry> modes() {
  const PrecisionChoice standard;
  const std::vector<Setting> settings = {
      {.name = kDtype,
       .standard = 0,
       .least = 0,
       .most = 1,
       .meaning = "the type of 16 bits",
       .whole = true,
       .words = {"bf16", "fp16"}},
      {.name = kScale,
       .standard = standard.scale,
       .least = 0,
       .most = 16777216,
       .meaning = "factor of the loss in the first step, with fp16; 0: the program scales"},
      {.name = kInterval,
       .standard = static_cast<double>(standard.interval),
       .least = 1,
       .most = 1e9,
       .meaning = "good steps until the scale doubles, with fp16",
       .whole = true},
      {.name = kFloor,
       .standard = standard.floor,
       .least = 1.0 / 16777216,
       .most = 16777216,
       .meaning = "the scale never falls below this, with fp16"}};
  return {{"none", Mode::none, {}}, {"o1", Mode::o1, settings}, {"o2", Mode::o2, settings}};
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

// Empty: the settings of the scale go with each other.
std::string complaint_about_scale(const PrecisionChoice& choice) {
  const PrecisionChoice standard;
  const bool is_rule_given = choice.interval != standard.interval || choice.floor != standard.floor;
  if (choice.type != at::kHalf && (choice.scale != standard.scale || is_rule_given)) {
    return "bf16 has the exponents of float32 and no scale: leave scale, interval and floor out, "
           "or take dtype=fp16";
  }
  if (choice.scale == 0) {
    return is_rule_given ? "scale=0 leaves the scale to the program: leave interval and floor out"
                         : "";
  }
  for (const auto& [name, value] : {std::pair(kScale, choice.scale), {kFloor, choice.floor}}) {
    if (!is_power_of_two(value)) {
      return c10::str(name, "=", value,
                      " would round gradients; take a power of two, such as 65536");
    }
  }
  if (choice.floor > choice.scale) {
    return c10::str("the scale begins at ", choice.scale, ", below its floor ", choice.floor,
                    ": take a lower floor, or a higher scale");
  }
  return {};
}

}  // namespace

Result<PrecisionChoice> parse_precision(std::string_view text) {
  const auto named = parse_named("precision", text, modes());
  if (!named) return named.error();
  PrecisionChoice choice{.mode = named.value().entry.mode};
  if (choice.mode == Mode::none) return choice;
  const Settings& settings = named.value().settings;
  choice.type = settings.on(kDtype) ? at::kHalf : at::kBFloat16;
  choice.scale = settings[kScale];
  choice.interval = settings.as<int>(kInterval);
  choice.floor = settings[kFloor];
  const std::string complaint = complaint_about_scale(choice);
  if (complaint.empty()) return choice;
  return Failure{Fault::misuse, c10::str("precision \"", text, "\": ", complaint), {}};
}

void require_fitting(const PrecisionChoice& choice, const DataParallelOptions& options,
                     bool has_model) {
  require_fitting_synchrony(choice, options);
  // It refuses what it does not know.
  static_cast<void>(replica::FiniteWatch(options.non_finite, options.non_finite_limit));
  if (choice.has_scaler() && options.compression != "none") {
    throw_misuse(c10::str("precision \"", options.precision,
                          "\" tells by infinities that its scale is too large, which compression "
                          "\"",
                          options.compression,
                          "\" may swallow: take dtype=bf16, or compression \"none\""));
  }
  if (choice.mode == Mode::o2 && options.zero_stage > 0) {
    throw_misuse(
        c10::str("precision \"", options.precision,
                 "\" keeps float32 masters of all parameters on every rank, and zero_stage ",
                 options.zero_stage, " divides them: take precision \"o1\", or zero_stage 0"));
  }
  if (!has_model && (choice.mode == Mode::o2 || choice.has_scaler())) {
    throw_misuse(c10::str("precision \"", options.precision,
                          "\" needs the model, and this was made from parameters alone: hand the "
                          "module to DataParallel, or take \"o1\""));
  }
}

void require_fitting_synchrony(const PrecisionChoice& choice, const DataParallelOptions& options) {
  if (options.synchrony == kSynchronous) return;
  if (choice.mode == Mode::o2 || choice.has_scaler()) {
    throw_misuse(c10::str("precision \"", options.precision,
                          "\" decides on each step from the gradients of all ranks, which "
                          "synchrony \"",
                          options.synchrony,
                          "\" does not have: take \"synchronous\", or precision \"o1\""));
  }
  if (options.max_grad_norm > 0) {
    throw_misuse(
        c10::str("DataParallelOptions::max_grad_norm clips the gradients of all ranks, "
                 "which synchrony \"",
                 options.synchrony,
                 "\" does not have: take \"synchronous\", or clip each rank's own before "
                 "step(optimizer)"));
  }
}

bool processor_multiplies(at::ScalarType type) {
#if defined(__x86_64__)
  const auto features = at::cpu::get_cpu_capabilities();
  const auto has = [&](const char* name) {
    const auto found = features.find(name);
    return found != features.end() && found->second.isBool() && found->second.toBool();
  };
  if (type == at::kBFloat16) return has("avx512_bf16") || has("amx_bf16");
  if (type == at::kHalf) return has("avx512_fp16") || has("amx_fp16");
#endif
  return true;
}

std::string slowness_of(const PrecisionChoice& choice, bool processor_multiplies) {
  if (choice.mode == Mode::none || processor_multiplies) return {};
  const char* const type = choice.type == at::kHalf ? "fp16" : "bf16";
  return c10::str(
      "precision \"", choice.mode == Mode::o1 ? "o1" : "o2", "\" computes in ", type,
      ", but the processor of this host does not multiply ", type, " (lscpu shows no avx512_", type,
      "), so a step may take several times as long as in float32. To train fast here, take "
      "precision \"none\"");
}

}  // namespace paceline::precision
