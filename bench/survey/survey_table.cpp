#include "bench/survey/survey_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "paceline/core/base/number.h"

namespace paceline::survey {
namespace {

constexpr std::string_view kHead = "network,model,local_batch,method,single,n4,n8,n16,n32";
constexpr std::size_t kFields = 9;

constexpr std::string_view kBuiltIn = R"(network,model,local_batch,method,single,n4,n8,n16,n32
100GbIB,ResNet-50,64,BSP-PS,253.1,862.96,1694.90,3353.22,6587.63
100GbIB,ResNet-50,64,BSP-A2A,253.1,920.28,1821.20,3602.90,7126.52
100GbIB,ResNet-50,64,WFBP-PS,253.1,1010.80,2008.09,3988.67,7977.78
100GbIB,ResNet-50,64,WFBP-A2A,253.1,1014.28,2017.12,3946.06,7326.56
100GbIB,ResNet-50,64,MG-WFBP,253.1,1003.90,2001.72,3987.40,7876.46
100GbIB,ResNet-50,64,ByteScheduler-PS,253.1,1015.82,2018.39,4013.88,7999.83
100GbIB,ResNet-50,64,ByteScheduler-A2A,253.1,653.80,1257.66,2529.14,4766.38
100GbIB,BERT-Base,64,BSP-PS,212.8,557.92,1040.01,2077.68,4162.20
100GbIB,BERT-Base,64,BSP-A2A,212.8,555.70,1082.42,2112.96,4184.38
100GbIB,BERT-Large,8,BSP-PS,49,51.38,88.51,168.22,355.69
100GbIB,BERT-Large,8,BSP-A2A,49,53.08,99.18,191.64,375.22
100GbIB,BERT-Large,8,WFBP-PS,49,55.30,89.89,175.74,344.02
100GbIB,BERT-Large,8,WFBP-A2A,49,56.30,101.68,185.42,339.82
100GbIB,BERT-Large,8,MG-WFBP,49,57.50,106.78,205.78,400.16
100GbIB,BERT-Large,8,ByteScheduler-PS,49,55.36,85.52,148.09,349.93
100GbIB,BERT-Large,8,ByteScheduler-A2A,49,49.42,91.27,171.90,326.40
100GbE,ResNet-50,64,BSP-PS,253.1,864.14,1191.65,2353.15,4355.98
100GbE,ResNet-50,64,BSP-A2A,253.1,926.00,1601.36,3087.16,5744.76
100GbE,ResNet-50,64,WFBP-PS,253.1,1014.78,2002.06,3811.35,6933.74
100GbE,ResNet-50,64,WFBP-A2A,253.1,1015.10,1985.74,3650.74,6141.38
100GbE,ResNet-50,64,MG-WFBP,253.1,1002.68,1990.68,3945.96,7540.94
100GbE,ResNet-50,64,ByteScheduler-PS,253.1,1015.06,2017.66,3996.03,7982.25
100GbE,ResNet-50,64,ByteScheduler-A2A,253.1,728.52,1344.30,2687.68,5104.06
100GbE,BERT-Base,64,BSP-PS,212.8,557.18,748.78,1688.95,3583.77
100GbE,BERT-Base,64,BSP-A2A,212.8,555.36,804.62,1504.62,2815.72
100GbE,BERT-Large,8,BSP-PS,49,51.46,27.86,59.19,117.85
100GbE,BERT-Large,8,BSP-A2A,49,52.90,55.80,103.34,187.00
100GbE,BERT-Large,8,WFBP-PS,49,55.32,29.61,61.60,116.72
100GbE,BERT-Large,8,WFBP-A2A,49,56.00,54.82,98.98,174.78
100GbE,BERT-Large,8,MG-WFBP,49,57.54,62.02,107.48,191.46
100GbE,BERT-Large,8,ByteScheduler-PS,49,55.40,50.20,151.53,338.12
100GbE,BERT-Large,8,ByteScheduler-A2A,49,48.90,56.02,99.50,187.56
10GbE,ResNet-50,64,BSP-PS,253.1,866.30,1194.44,2361.27,4376.58
10GbE,ResNet-50,64,BSP-A2A,253.1,925.02,1282.28,2485.12,4920.82
10GbE,ResNet-50,64,WFBP-PS,253.1,1017.32,2021.44,3811.97,6945.39
10GbE,ResNet-50,64,WFBP-A2A,253.1,1015.40,1795.74,3146.78,5113.18
10GbE,ResNet-50,64,MG-WFBP,253.1,1003.18,1980.58,3784.98,6883.60
10GbE,ResNet-50,64,ByteScheduler-PS,253.1,1018.40,2025.62,3815.62,6888.99
10GbE,ResNet-50,64,ByteScheduler-A2A,253.1,658.12,1319.10,2701.52,4754.26
10GbE,BERT-Base,64,BSP-PS,212.8,559.26,505.44,1022.38,2028.02
10GbE,BERT-Base,64,BSP-A2A,212.8,555.52,518.94,984.88,1926.64
10GbE,BERT-Large,8,BSP-PS,49,51.42,28.37,59.22,117.96
10GbE,BERT-Large,8,BSP-A2A,49,53.04,28.96,54.30,105.10
10GbE,BERT-Large,8,WFBP-PS,49,55.42,29.80,61.31,118.36
10GbE,BERT-Large,8,WFBP-A2A,49,56.04,29.06,53.42,101.96
10GbE,BERT-Large,8,MG-WFBP,49,57.34,30.04,54.26,105.02
10GbE,BERT-Large,8,ByteScheduler-PS,49,55.34,29.31,61.21,116.79
10GbE,BERT-Large,8,ByteScheduler-A2A,49,51.32,30.40,56.00,108.80
)";

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

std::optional<double> positive(std::string_view text) {
  const auto value = number_in<double>(text);
  constexpr double kMost = 1e12;
  return value && *value > 0 && *value < kMost ? value : std::nullopt;
}

std::string_view without_return(std::string_view line) {
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

Failure complaint(std::string_view origin, int line, std::string_view wanted) {
  return {
      Fault::misuse,
      fmt::format("calibration {}, line {}: {}; the file must look like {}, with a row for each "
                  "network, model and method",
                  origin, line, wanted, kHead),
      {}};
}

// Returns the defect of the fields, or nothing.
std::optional<std::string> take(const std::vector<std::string_view>& fields, SurveyRow& row) {
  if (fields.size() != kFields)
    return fmt::format("{} fields instead of {}", fields.size(), kFields);
  row.network = fields[0];
  row.model = fields[1];
  row.method = fields[3];
  if (std::ranges::find(kSurveyNetworks, row.network) == kSurveyNetworks.end())
    return fmt::format("the network \"{}\" is none of {}", row.network,
                       fmt::join(kSurveyNetworks, ", "));
  if (std::ranges::find(kSurveyMethods, row.method) == kSurveyMethods.end())
    return fmt::format("the method \"{}\" is none of {}", row.method,
                       fmt::join(kSurveyMethods, ", "));
  const auto batch = positive(fields[2]), single = positive(fields[4]);
  if (!batch || !single) return "batch and single must be numbers above 0";
  row.batch = static_cast<int>(*batch);
  row.single = *single;
  for (std::size_t i = 0; i < kSurveyWorkers.size(); ++i) {
    const auto rate = positive(fields[5 + i]);
    if (!rate) return fmt::format("\"{}\" is no number above 0", fields[5 + i]);
    row.samples_per_second[i] = *rate;
  }
  return std::nullopt;
}

}  // namespace

const SurveyRow* find(const SurveyTable& table, std::string_view network, std::string_view model,
                      std::string_view method) {
  const auto found = std::ranges::find_if(table, [&](const SurveyRow& row) {
    return row.network == network && row.model == model && row.method == method;
  });
  return found == table.end() ? nullptr : &*found;
}

SurveyTable survey_table() {
  return parse_survey_table(kBuiltIn, "built in").value();
}

Result<SurveyTable> parse_survey_table(std::string_view text, std::string_view origin) {
  SurveyTable table;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = without_return(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (number == 1) {
      if (line != kHead) return complaint(origin, number, "the head is missing");
      continue;
    }
    if (line.empty()) continue;
    SurveyRow row;
    if (const auto wrong = take(fields_of(line), row)) return complaint(origin, number, *wrong);
    if (find(table, row.network, row.model, row.method) != nullptr)
      return complaint(origin, number, "this row stands there twice");
    table.push_back(std::move(row));
  }
  if (table.empty()) return complaint(origin, 1, "the file has no rows");
  return table;
}

}  // namespace paceline::survey
