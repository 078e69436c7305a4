#include "paceline/app/launch/emit/targets.h"

namespace paceline::launch {

const std::vector<Target>& targets() {
  static const std::vector<Target> table = {slurm(), k8s_trainjob(), pytorchjob(), mpijob(),
                                            compose()};
  return table;
}

}  // namespace paceline::launch
