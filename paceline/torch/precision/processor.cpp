#include "paceline/torch/precision/processor.h"

#include <ATen/cpu/Utils.h>
#include <c10/util/StringUtil.h>

namespace paceline::precision {

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

std::string slowness_of(const Choice& choice, bool processor_multiplies) {
  if (choice.mode == Mode::none || processor_multiplies) return {};
  const char* const type = choice.type == at::kHalf ? "fp16" : "bf16";
  return c10::str(
      "precision \"", choice.mode == Mode::o1 ? "o1" : "o2", "\" computes in ", type,
      ", but the processor of this host does not multiply ", type, " (lscpu shows no avx512_", type,
      "), so a step may take several times as long as in float32. To train fast here, take "
      "precision \"none\"");
}

}  // namespace paceline::precision
