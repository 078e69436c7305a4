// A file for Docker Compose: each node is a service on this host.
#include <fmt/format.h>

#include "paceline/app/launch/emit/containers.h"
#include "paceline/app/launch/emit/run_plan.h"

namespace paceline::launch {
namespace {

std::string service_name(int node) {
  return fmt::format("node-{}", node);
}

Json environment_of(const RunPlan& plan) {
  Json variables = Json::object();
  for (const std::string& entry : plan.environment) {
    const auto equals = entry.find('=');
    variables[entry.substr(0, equals)] = without_dollars(entry.substr(equals + 1));
  }
  return variables;
}

bool is_folder(const Volume& volume) {
  return volume.source.find('/') != std::string::npos;
}

Json service(const RunPlan& plan, int node) {
  Json words = launch_command(plan, {.node_rank = std::to_string(node),
                                     .endpoint = service_name(0) + ":29400",
                                     .id = plan.name,
                                     .secret_file = "/run/secrets/paceline"});
  Json result = {{"image", without_dollars(plan.image)}, {"entrypoint", {words.at(0)}}};
  words.erase(0);
  result["command"] = std::move(words);
  if (!plan.environment.empty()) result["environment"] = environment_of(plan);
  if (node > 0) result["depends_on"] = {service_name(0)};
  result["restart"] =
      plan.max_restarts == 0 ? "no" : fmt::format("on-failure:{}", plan.max_restarts);
  result["stop_grace_period"] = fmt::format("{}s", termination_grace(plan).count());
  if (plan.nodes > 1)
    result["secrets"] = {
        {{"source", secret_name(plan)}, {"target", "paceline"}, {"mode", kSecretMode}}};
  if (plan.volume) {
    result["volumes"] = {{{"type", is_folder(*plan.volume) ? "bind" : "volume"},
                          {"source", without_dollars(plan.volume->source)},
                          {"target", without_dollars(plan.volume->path)}}};
  }
  if (plan.devices > 0) {
    const Json device = {{"driver", "nvidia"}, {"count", plan.devices}, {"capabilities", {"gpu"}}};
    result["deploy"]["resources"]["reservations"]["devices"] = Json::array({device});
  }
  return result;
}

std::string write_compose(const RunPlan& plan) {
  std::string text =
      "# Written by `paceline run --emit compose`. Start it with: docker compose -f FILE up\n";
  text += note_on_logs(plan);
  Json file = Json::object();
  for (int node = 0; node < plan.nodes; ++node)
    file["services"][service_name(node)] = service(plan, node);
  if (plan.volume && !is_folder(*plan.volume))
    file["volumes"][plan.volume->source] = Json::object();
  if (plan.nodes > 1) {
    const std::string secret = fmt::format("./{}", secret_name(plan));
    text += fmt::format(
        "# Once, beside this file (mode 256 is 0400): (umask 377; openssl rand -hex 32 >{})\n",
        secret);
    file["secrets"][secret_name(plan)]["file"] = secret;
  }
  return text + yaml(file);
}

}  // namespace

Target compose() {
  return {.name = "compose",
          .about = "a file for Docker Compose, all nodes on one host",
          .write = write_compose};
}

}  // namespace paceline::launch
