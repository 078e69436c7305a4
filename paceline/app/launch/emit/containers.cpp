#include "paceline/app/launch/emit/containers.h"

#include <fmt/format.h>

namespace paceline::launch {
namespace {

constexpr const char* kSecretFolder = "/run/paceline";
constexpr const char* kSecretKey = "secret";

bool has_secret(const RunPlan& plan) {
  return plan.nodes > 1;
}

Json environment_list(const RunPlan& plan) {
  Json list = Json::array();
  for (const std::string& entry : plan.environment) {
    const auto equals = entry.find('=');
    list.push_back(
        {{"name", entry.substr(0, equals)}, {"value", without_dollars(entry.substr(equals + 1))}});
  }
  return list;
}

}  // namespace

std::string without_dollars(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '$' ? "$$" : std::string(1, c);
  return result;
}

Json launch_command(const RunPlan& plan, const NodePlace& place) {
  RunPlan exact = plan;
  for (std::string& word : exact.options) word = without_dollars(word);
  Json words = launcher_words(exact, place);
  for (const std::string& word : plan.command) words.push_back(without_dollars(word));
  return words;
}

std::chrono::seconds termination_grace(const RunPlan& plan) {
  return plan.stop_grace + std::chrono::seconds(5);
}

int container_restarts(const RunPlan& plan) {
  return plan.max_restarts * plan.nodes;
}

std::string secret_name(const RunPlan& plan) {
  return plan.name + "-secret";
}

std::string secret_in_pod() {
  return fmt::format("{}/{}", kSecretFolder, kSecretKey);
}

Json container(const RunPlan& plan, Json words) {
  Json result = {{"image", plan.image}, {"command", std::move(words)}};
  if (!plan.environment.empty()) result["env"] = environment_list(plan);
  return result;
}

void ask_for_devices(const RunPlan& plan, const char* member, Json& to) {
  if (plan.devices > 0) to[member]["limits"]["nvidia.com/gpu"] = std::to_string(plan.devices);
}

void mount_volumes(const RunPlan& plan, Json& container) {
  Json mounts = Json::array();
  if (has_secret(plan))
    mounts.push_back({{"name", "secret"}, {"mountPath", kSecretFolder}, {"readOnly", true}});
  if (plan.volume) mounts.push_back({{"name", "checkpoints"}, {"mountPath", plan.volume->path}});
  if (!mounts.empty()) container["volumeMounts"] = std::move(mounts);
}

Json pod(const RunPlan& plan, Json container) {
  Json spec = {{"terminationGracePeriodSeconds", termination_grace(plan).count()},
               {"containers", Json::array({std::move(container)})}};
  Json volumes = Json::array();
  if (has_secret(plan)) {
    volumes.push_back(
        {{"name", "secret"},
         {"secret", {{"secretName", secret_name(plan)}, {"defaultMode", kSecretMode}}}});
  }
  if (plan.volume) {
    volumes.push_back(
        {{"name", "checkpoints"}, {"persistentVolumeClaim", {{"claimName", plan.volume->source}}}});
  }
  if (!volumes.empty()) spec["volumes"] = std::move(volumes);
  return spec;
}

Json object(const RunPlan& plan, const char* version, const char* kind, Json spec) {
  return {{"apiVersion", version},
          {"kind", kind},
          {"metadata", {{"name", plan.name}}},
          {"spec", std::move(spec)}};
}

std::string heading(const RunPlan& plan, const std::string& target) {
  std::string text = fmt::format(
      "# Written by `paceline run --emit {}`. Start it with: kubectl apply -f FILE\n", target);
  text += note_on_logs(plan);
  if (has_secret(plan)) {
    text += fmt::format(
        "# Once, the run's secret, which pods see as a file of mode 0400 (256):\n"
        "#   openssl rand -hex 32 | kubectl create secret generic {} "
        "--from-file={}=/dev/stdin\n",
        secret_name(plan), kSecretKey);
  }
  if (plan.volume) {
    text += fmt::format("# The PersistentVolumeClaim {} must exist{}.\n", plan.volume->source,
                        plan.nodes > 1 ? ", with access mode ReadWriteMany" : "");
  }
  return text;
}

}  // namespace paceline::launch
