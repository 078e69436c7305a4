#include "paceline/app/launch/hosts/hosts.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <numeric>
#include <optional>

#include "paceline/core/base/number.h"
#include "paceline/core/base/processors.h"
#include "paceline/core/membership/environment/node_list.h"
#include "paceline/core/transport/socket/resolve.h"

namespace paceline::launch {
namespace {

constexpr int kMostSlots = 4096;

Failure wrong(std::string_view where, std::string_view what) {
  return {Fault::misuse, fmt::format("{}: {}", where, what), {}};
}

Result<int> slots_in(std::string_view where, std::string_view text) {
  const auto value = number_in<int>(text);
  if (!value || *value < 1 || *value > kMostSlots) {
    return wrong(where,
                 fmt::format("\"{}\" is no number of slots; give 1 to {}", text, kMostSlots));
  }
  return *value;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return words;
    const auto end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

// Parses the names and the slots of each: "b:2", "[fd00::2]:2", "n[1-3]".
Result<std::vector<HostSlots>> parse_host(std::string_view where, std::string_view text) {
  const auto bracket = text.rfind(']');
  const auto colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  auto names = text.substr(0, colon);
  int slots = 1;
  if (colon != std::string_view::npos) {
    const auto given = slots_in(where, text.substr(colon + 1));
    if (!given) return given.error();
    slots = given.value();
  }
  if (names.empty()) return wrong(where, "a host has no name; write name:slots, as in a:2");
  if (names.find_first_of("/@ \t") != std::string_view::npos || names.front() == '-') {
    return wrong(
        where,
        fmt::format("\"{}\" is no host name (users and ports belong into ~/.ssh/config)", names));
  }
  if (names.front() == '[' && names.back() == ']')
    return std::vector{HostSlots{std::string(names.substr(1, names.size() - 2)), slots}};
  auto all = membership::parse_node_list(names);
  if (!all) return wrong(where, all.error().what);
  std::vector<HostSlots> result;
  for (std::string& name : *all) result.push_back({std::move(name), slots});
  return result;
}

void add(std::vector<HostSlots>& to, const HostSlots& host) {
  const auto known = std::ranges::find(to, host.name, &HostSlots::name);
  if (known == to.end()) to.push_back(host);
  else known->slots += host.slots;
}

// Reads the words after the host's name in a line of a hostfile.
Result<> read_keys(std::string_view where, const std::vector<std::string_view>& words, int& slots) {
  std::optional<int> most;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    const auto key = words[i].substr(0, equals);
    if (equals == std::string_view::npos ||
        (key != "slots" && key != "max_slots" && key != "max-slots")) {
      return wrong(
          where, fmt::format("\"{}\" is not known; a line is: host slots=2 max_slots=4", words[i]));
    }
    const auto value = slots_in(where, words[i].substr(equals + 1));
    if (!value) return value.error();
    if (key == "slots") slots = value.value();
    else most = value.value();
  }
  if (most && *most < slots)
    return wrong(where, fmt::format("max_slots={} is below slots={}", *most, slots));
  return Done{};
}

}  // namespace

Result<std::vector<HostSlots>> parse_hosts(std::string_view text, std::string_view option) {
  std::vector<HostSlots> hosts;
  int depth = 0;
  for (std::size_t begin = 0, at = 0; at <= text.size(); ++at) {
    const char c = at < text.size() ? text[at] : ',';
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (at < text.size() && (c != ',' || depth > 0)) continue;
    const auto parsed = parse_host(option, text.substr(begin, at - begin));
    if (!parsed) return parsed.error();
    for (const HostSlots& host : parsed.value()) add(hosts, host);
    begin = at + 1;
  }
  return hosts;
}

Result<std::vector<HostSlots>> parse_hostfile(std::string_view text, std::string_view file) {
  std::vector<HostSlots> hosts;
  int number_of_line = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto where = fmt::format("{} line {}", file, ++number_of_line);
    const auto words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    auto parsed = parse_host(where, words.front());
    if (!parsed) return parsed.error();
    for (HostSlots host : *parsed) {
      if (auto read = read_keys(where, words, host.slots); !read) return read.error();
      add(hosts, host);
    }
  }
  if (hosts.empty()) return wrong(file, "it names no host; a line is: host slots=2");
  return hosts;
}

Result<std::vector<HostShare>> share_ranks(const std::vector<HostSlots>& hosts, int processes) {
  const int slots =
      std::accumulate(hosts.begin(), hosts.end(), 0,
                      [](int sum, const HostSlots& host) { return sum + host.slots; });
  if (processes > slots) {
    return Failure{
        Fault::misuse,
        fmt::format(
            "-n {}: the hosts have {} slots together; give them more, as in --hosts a:4,b:4",
            processes, slots),
        {}};
  }
  std::vector<HostShare> shares;
  int next = 0;
  const int all = processes == 0 ? slots : processes;
  for (const HostSlots& host : hosts) {
    const int count = std::min(host.slots, all - next);
    if (count > 0) shares.push_back({host.name, next, count});
    next += count;
  }
  return shares;
}

bool is_this_host(const std::string& name) {
  if (name == "localhost" || name == host_name()) return true;
  const bool colons = name.find(':') != std::string::npos;
  const auto address = transport::resolve_tcp_address(colons ? "[" + name + "]:0" : name + ":0");
  return address && transport::is_own_address(address.value().host);
}

int usable_cores() {
  return own_processors().count();
}

int free_port(transport::PortRange ports) {
  auto probe = transport::listen_tcp({"127.0.0.1", 0}, ports);
  if (!probe) return 0;
  const auto address = transport::local_address(probe->get());
  return address ? address.value().port : 0;
}

std::string random_job_id() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    throw Error(io_failure("cannot get random bytes", errno));
  }
  return fmt::format("{:016x}", number);
}

}  // namespace paceline::launch
