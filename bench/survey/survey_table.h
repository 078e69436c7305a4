// The survey's measurements (seed 001, figure 4; the authors' results of 2020-05-29): throughput of
// seven methods on 4 to 32 GPUs, four in a machine.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::survey {

inline constexpr std::array kSurveyWorkers = {4, 8, 16, 32};
inline constexpr std::array<std::string_view, 3> kSurveyNetworks = {"100GbIB", "100GbE", "10GbE"};
inline constexpr std::array<std::string_view, 7> kSurveyMethods = {
    "BSP-PS", "BSP-A2A", "WFBP-PS", "WFBP-A2A", "MG-WFBP", "ByteScheduler-PS", "ByteScheduler-A2A"};

struct SurveyRow {
  std::string network, model, method;
  int batch = 1;      // samples of a worker's step
  double single = 0;  // samples a second of one GPU alone
  std::array<double, kSurveyWorkers.size()> samples_per_second = {};
  bool operator==(const SurveyRow&) const = default;
};
using SurveyTable = std::vector<SurveyRow>;

// Null when there is none.
const SurveyRow* find(const SurveyTable& table, std::string_view network, std::string_view model,
                      std::string_view method);
const SurveyRow* find(const SurveyTable&&, std::string_view, std::string_view,
                      std::string_view) = delete;

// The built-in copy: 48 rows. For BERT-Base it has only the BSP rows.
SurveyTable survey_table();

// Comma-separated, with the head
// network,model,local_batch,method,single,n4,n8,n16,n32. The failure (misuse) names `origin`, the
// line and what it must be.
Result<SurveyTable> parse_survey_table(std::string_view text, std::string_view origin);

}  // namespace paceline::survey
