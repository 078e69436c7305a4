// All mistakes that can be made when a job is started: in options, requests for manifests, host
// lists, hostfile lines, TF_CONFIG, node lists and the variables of other launchers. One table
// holds each mistake and the texts that name its cause, its place and the remedy. The exit code is
// always 2, and nothing is started.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

struct Wrong {
  Words arguments;  // of `paceline`; FILE is a file that holds `file`
  Words says;
  Variables environment = {};
  std::string file = {};
  int mode = 0600;
};

// `paceline run <options> -- true`
Words run_with(Words options) {
  options.insert(options.begin(), "run");
  options.insert(options.end(), {"--", "true"});
  return options;
}

std::vector<Wrong> wrong_options() {
  return {
      {run_with({}), {"how many processes?", "-n 2"}},
      {run_with({"-n", "0"}), {"-n: 0 is too few", "1 to 4096"}},
      {run_with({"-n", "x"}), {"-n: \"x\" is not a whole number", "1 to 4096"}},
      {run_with({"-n", "2", "--timeout", "1 day"}),
       {"--timeout: \"1 day\" is not a duration", "90s"}},
      {run_with({"-n", "2", "--transport", "udp"}),
       {"--transport: \"udp\" is not known", "auto, shm, tcp"}},
      {run_with({"--devices", "first"}), {"--devices: \"first\" names no device", "0,1", "UUIDs"}},
      {run_with({"--devices", "0,0"}), {"--devices: 0 is named twice", "--ranks-per-device"}},
      {run_with({"--devices", "0,1", "--ranks-per-device", "0"}),
       {"--ranks-per-device: 0 is too few", "1 to 4096"}},
      {run_with({"--ranks-per-device", "2"}),
       {"how many processes?", "--ranks-per-device 2 needs -n", "--devices 0,1"}},
      {run_with({"-n", "3", "--devices", "0,1", "--ranks-per-device", "2"}),
       {"-n: each host has 3 processes", "make 4 on each host", "give -n 4"}},
      {run_with({"-n", "2", "--devices", "0,2"}),
       {"--devices: 2 is not among what CUDA_VISIBLE_DEVICES=4,5 shows", "unset"},
       {{"CUDA_VISIBLE_DEVICES", "4,5"}}},
      {run_with({"-n", "2", "--device-transport", "carrier"}),
       {"--device-transport: \"carrier\" is not known", "auto, direct, nccl, staged"}},
      {run_with({"-n", "2", "--transport", "nccl", "--device-transport", "direct"}),
       {"--transport nccl is another word for --device-transport nccl", "leave one out"}},
      {run_with({"-n", "4", "--devices", "0,1", "--device-transport", "nccl"}),
       {"NCCL wants a device for each", "--device-transport auto"}},
      {run_with({"-n", "2", "--host-file", "x"}), {"unknown option --host-file", "--hostfile?"}},
      {run_with({"-n", "2", "--store", "10.0.0.7:1"}),
       {"10.0.0.7 is not this host's loopback", "--hosts"}},
      {run_with({"-n", "2", "--port-range", "5:4"}),
       {"--port-range: \"5:4\" is no range of ports", "20000:20100"}},
      {run_with({"-n", "2", "--ssh", "rsh"}), {"--ssh: there is no other host", "--hosts"}},
      {run_with({"--hosts", "localhost:2", "--ssh", " "}), {"--ssh: it is empty"}},
      {run_with({"-n", "2", "--tee", "3"}), {"--tee: into which files?", "--log-dir"}},
      {run_with({"-n", "2", "--redirects", "3"}), {"--redirects: into which files?", "--log-dir"}},
      {run_with({"-n", "2", "--log-dir", "/tmp/x", "--tee", "4"}),
       {"--tee: \"4\" is no mask", "0:1,1:3"}},
      {run_with({"-n", "2", "--log-dir", "/tmp/x", "--redirects", "0:1,1"}),
       {"--redirects: \"0:1,1\" is no mask", "3 (both)"}},
      {run_with({"-n", "2", "--log-dir", "/proc/none"}),
       {"--log-dir: /proc/none cannot be written", "a folder that can"}},
      {run_with({"-n", "2", "-x", "PACELINE_NOT_SET"}),
       {"-x: PACELINE_NOT_SET is not set here", "PACELINE_NOT_SET=VALUE"}},
      {run_with({"-n", "2", "-x", "=x"}), {"-x: \"=x\" cannot be passed on", "NAME=VALUE"}},
      {run_with({"-n", "2", "-x", "PACELINE_RANK=1"}),
       {"-x: \"PACELINE_RANK=1\" cannot be passed on", "launcher"}},
      {run_with({"-n", "2", "--nnodes", "1:4"}), {"--nnodes: 1:4 is a range", "one number"}},
      {run_with({"-n", "2", "--nnodes", "two"}), {"--nnodes: \"two\" is not a whole number"}},
      {run_with({"-n", "2", "--nnodes", "2"}), {"which node is this?", "--node-rank 0 to 1"}},
      {run_with({"-n", "2", "--nnodes", "2", "--node-rank", "2"}),
       {"--node-rank: 2 is too many", "from 0 to 1"}},
      {run_with({"-n", "2", "--nnodes", "2", "--node-rank", "0"}),
       {"where do the nodes meet?", "--rdzv-endpoint HOST:PORT"}},
      {run_with({"-n", "2", "--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", "a"}),
       {"--rdzv-endpoint: 'a' is no address", "host:port"}},
      {run_with({"-n", "2", "--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", "127.0.0.1:0"}),
       {"port 0 cannot be found", "1 to 65535"}},
      {run_with({"-n", "2", "--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", "no.invalid:1",
                 "--timeout", "300ms"}),
       {"'no.invalid' cannot be resolved", "/etc/hosts"}},
      {run_with({"-n", "2", "--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", "127.0.0.1:1"}),
       {"need a secret", "openssl rand -hex 32"}},
      {run_with({"-n", "2", "--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", "127.0.0.1:1",
                 "--secret-file", "FILE"}),
       {"--secret-file", "64 hexadecimal digits"},
       {},
       "abc"},
      {run_with({"-n", "2", "--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", "127.0.0.1:1",
                 "--secret-file", "FILE"}),
       {"--secret-file", "others may read", "0600"},
       {},
       std::string(64, 'a'),
       0644},
      {run_with({"-n", "2", "--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", "192.0.2.7:1",
                 "--secret-file", "FILE"}),
       {"192.0.2.7 is no address of this host", "--node-rank 0 on the host"},
       {},
       std::string(64, 'a')},
      {run_with({"--hosts", "localhost:1", "--nnodes", "2"}),
       {"--nnodes starts one launcher on each node", "leave one out"}},
      {run_with({"-n", "2", "--node-rank", "1"}), {"--node-rank is for --nnodes"}},
      {run_with({}), {"-n: \"gpu\" is not a whole number"}, {{"PET_NPROC_PER_NODE", "gpu"}}},
      {run_with({"-n", "2"}), {"which node is this?", "--node-rank"}, {{"PET_NNODES", "2"}}},
      {run_with({"-n", "2", "--rdzv-endpoint", "a:1"}), {"--rdzv-endpoint is for --nnodes"}},
      {run_with({"-n", "2", "--secret-file", "a"}), {"--secret-file is for --nnodes"}},
      {{"doctor", "now"}, {"now is not an option", "takes no program"}},
      {{"doctor", "--jsn", "x"}, {"unknown option --jsn", "--json?"}},
      {{"doctor", "--json", "/proc/none"},
       {"--json: /proc/none cannot be written", "- for stdout"}},
  };
}

std::vector<Wrong> wrong_manifests() {
  const auto emit = [](const std::string& target, Words options) {
    options.insert(options.begin(), {"--emit", target, "-n", "2"});
    return run_with(std::move(options));
  };
  const auto pods = [](Words options, Words command) {
    Words words = {"run", "--emit", "pytorchjob", "-n", "2", "--emit-image", "i"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "train"});
    words.insert(words.end(), command.begin(), command.end());
    return words;
  };
  return {
      {emit("slrm", {}), {"--emit: \"slrm\" is not known", "slurm, k8s-trainjob", "mean slurm?"}},
      {emit("compose", {}), {"--emit compose: which image?", "--emit-image IMAGE"}},
      {emit("slurm", {"--emit-image", "i"}), {"--emit-image is for containers", "leave it out"}},
      {emit("slurm", {"--emit-volume", "v"}), {"--emit-volume is for containers"}},
      {emit("compose", {"--hosts", "a:2"}), {"--hosts: the manifest", "--nnodes", "leave it out"}},
      {emit("slurm", {"--secret-file", "s"}), {"--secret-file: the manifest"}},
      {emit("slurm", {"--node-rank", "0"}), {"--node-rank: the manifest"}},
      {emit("slurm", {"--devices", "2,3"}),
       {"--devices 2,3: the manifest of --emit slurm asks for 2 devices", "--devices 0,1"}},
      {emit("slurm", {"--nnodes", "0"}), {"--nnodes: 0 is too few"}},
      {emit("slurm", {"--nnodes", "1:4"}), {"--nnodes: \"1:4\" is not a whole number"}},
      {emit("slurm", {"--grace", "soon"}), {"--grace: \"soon\" is not a duration"}},
      {emit("slurm", {"--dry-run"}), {"--dry-run: --emit starts nothing either"}},
      {emit("slurm", {"--rdzv-id", "My_job"}), {"--rdzv-id: My_job cannot be", "lower case"}},
      {emit("slurm", {"--transport", "mpi"}), {"--transport mpi", "mpirun -n 4"}},
      {emit("slurm", {"-x", "A;B=1"}), {"-x: \"A;B\" cannot be a variable", "letters, digits"}},
      {emit("mpijob", {"--emit-image", "i", "--log-dir", "/l"}),
       {"--log-dir is for `paceline run`", "mpirun", "another target"}},
      {run_with({"-n", "2", "--emit-image", "i"}), {"--emit-image", "are for --emit"}},
      {{"run", "--emit", "slurm", "-n", "2"}, {"no program given"}},
      {{"run", "--emit", "slurm", "true"}, {"how many processes?"}},
      {pods({}, {"--checkpoint-dir", "runs/a"}), {"\"runs/a\" is no folder", "NAME:/runs"}},
      {pods({"--emit-volume", "v:runs"}, {}), {"\"runs\" is no folder", "an absolute one"}},
      {pods({"--emit-volume", ":/runs"}, {}), {"--emit-volume: :/runs has no name"}},
      {pods({"--emit-volume", "v"}, {}), {"no folder", "--emit-volume NAME:/runs"}},
      {pods({"--emit-volume", "./v:/runs"}, {}), {"./v is a folder", "PersistentVolumeClaim"}},
      {pods({"--emit-volume", "v:/runs"}, {"--checkpoint-dir=/elsewhere"}),
       {"--checkpoint-dir /elsewhere would end with its container", "/runs/elsewhere"}},
      {pods({"--log-dir", "/logs"}, {}), {"--log-dir /logs would end", "--emit-volume NAME:/runs"}},
      {pods({}, {"not \xff UTF-8"}), {"is not UTF-8", "YAML"}},
  };
}

std::vector<Wrong> wrong_hosts() {
  const auto hosts = [](const std::string& list) { return run_with({"--hosts", list}); };
  const auto file = [](const std::string& text, Words says) {
    return Wrong{run_with({"--hostfile", "FILE"}), std::move(says), {}, text};
  };
  return {
      {hosts("a:0"), {"--hosts: \"0\" is no number of slots", "1 to 4096"}},
      {hosts("a:2,b:x"), {"--hosts: \"x\" is no number of slots"}},
      {hosts("a:2,,b"), {"--hosts: a host has no name", "a:2"}},
      {hosts(":2"), {"--hosts: a host has no name"}},
      {hosts("me@a:2"), {"\"me@a\" is no host name", "~/.ssh/config"}},
      {hosts("-oProxyCommand=x"), {"\"-oProxyCommand=x\" is no host name"}},
      {hosts("n[3-1]:2"), {"--hosts", "\"3-1\"", "goes down"}},
      {hosts("n[1-2:2"), {"--hosts", "not closed"}},
      {run_with({"-n", "3", "--hosts", "localhost:2"}), {"-n 3", "2 slots together", "a:4,b:4"}},
      {run_with({"--hosts", "no-such-host.invalid:1"}),
       {"host no-such-host.invalid", "/etc/hosts", "--store"}},
      {run_with({"--hosts", "a", "--hostfile", "b"}), {"--hosts and --hostfile are both given"}},
      {run_with({"--hostfile", "/no/such"}),
       {"--hostfile: /no/such cannot be read", "check the path"}},
      file("", {"it names no host", "host slots=2"}),
      file("# nobody\n\n", {"it names no host"}),
      file("a slots=2\nb slots=0\n", {"line 2: \"0\" is no number of slots"}),
      file("a slots=two", {"line 1: \"two\" is no number of slots"}),
      file("a\n\nb cores=2", {"line 3: \"cores=2\" is not known", "slots=2 max_slots=4"}),
      file("a 2", {"line 1: \"2\" is not known"}),
      file("a slots=4 max_slots=2", {"line 1: max_slots=2 is below slots=4"}),
      file("a:2:3", {"line 1: \"2:3\" is no number of slots"}),
      file("# x\nroot@b slots=1", {"line 2: \"root@b\" is no host name"}),
      file("n[a-b] slots=1", {"line 1", "\"a-b\"", "01-03"}),
  };
}

// Told by a worker that joins; `doctor --as-worker` is one.
std::vector<Wrong> wrong_environments() {
  std::vector<Wrong> all;
  const auto add = [&all](Variables environment, Words says) {
    all.push_back({{"doctor", "--as-worker"}, std::move(says), std::move(environment)});
  };
  const auto tf = [&add](const std::string& config, Words says) {
    says.insert(says.begin(), "TF_CONFIG");
    add({{"TF_CONFIG", config}}, std::move(says));
  };
  const std::string worker0 = R"("task": {"type": "worker", "index": 0}})";
  tf("worker", {"it is no JSON", "\"cluster\":"});
  tf(R"({"cluster": {}, )" + worker0, {"names nobody"});
  tf(R"({"cluster": {"worker": "a:1"}, )" + worker0, {"\"worker\" is no list"});
  tf(R"({"cluster": {"worker": ["a"]}, )" + worker0,
     {"\"a\" under \"worker\" is not \"host:port\""});
  tf(R"({"cluster": {"worker": ["a:1", "b:1"]}})", {"\"task\" has no \"type\""});
  tf(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}})",
     {"the task is worker 1, but the cluster has 1"});
  tf(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}})",
     {"has servers", "no chief or worker for them"});
  tf(R"({"cluster": {"worker": ["192.0.2.7:1", "localhost:1"]}, "task": {"type": "worker", "index": 1}})",
     {});
  all.back().says = {"rank 0 is on another host (192.0.2.7:1)", "PACELINE_SECRET_FILE"};

  const auto slurm = [&add](const char* nodes, const char* tasks, Words says) {
    add({{"SLURM_PROCID", "1"},
         {"SLURM_NTASKS", "4"},
         {"SLURM_NODEID", "0"},
         {"SLURM_STEP_ID", "0"},
         {"SLURM_JOB_ID", "7"},
         {"SLURM_STEP_NODELIST", nodes},
         {"SLURM_STEP_TASKS_PER_NODE", tasks}},
        std::move(says));
  };
  slurm("n[01-03,7", "2,2", {"\"n[01-03,7\"", "not closed", "n[01-03,7],login"});
  slurm("n[3-1]", "2,2", {"\"3-1\"", "goes down"});
  slurm("n[1-2],", "2,2", {"\"n[1-2],\"", "a name is missing"});
  slurm("n[x]", "2,2", {"\"x\"", "numbers and ranges"});
  slurm("n[1-2]", "2(x", {"\"2(x\" does not tell the tasks", "2(x3),1"});
  add({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}},
      {"RANK=4", "below WORLD_SIZE=4"});
  add({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
      {"OMPI_COMM_WORLD_RANK=x", "whole number", "leave it alone"});
  add({{"PMI_RANK", "0"}, {"PMI_SIZE", "0"}}, {"PMI_SIZE=0", "from 1"});
  add({{"PACELINE_RANK", "0"}},
      {"PACELINE_RANK is set but PACELINE_WORLD_SIZE is not", "paceline run"});
  add({{"PACELINE_TRANSPORT", "smoke"}},
      {"PACELINE_TRANSPORT=smoke", "auto, shm, tcp, ucx, mpi or nccl"});
  add({{"PACELINE_DEVICE_TRANSPORT", "smoke"}},
      {"PACELINE_DEVICE_TRANSPORT=smoke", "auto, direct, nccl or staged"});
  add({{"PACELINE_RANKS_PER_DEVICE", "none"}}, {"PACELINE_RANKS_PER_DEVICE=none", "whole number"});
  return all;
}

class LaunchErrors : public ::testing::Test {
 protected:
  void expect(const Wrong& wrong) {
    auto arguments = wrong.arguments;
    std::string name = fs::temp_directory_path() / "paceline-wrong-XXXXXX";
    const int made = ::mkstemp(name.data());
    ASSERT_GE(made, 0);
    ::fchmod(made, static_cast<mode_t>(wrong.mode));
    ::close(made);
    std::ofstream(name) << wrong.file;
    for (auto& word : arguments) {
      if (word == "FILE") word = name;
    }
    ProcessOptions options{.command = {binary("paceline")}, .environment = wrong.environment};
    options.command.insert(options.command.end(), arguments.begin(), arguments.end());
    const auto result = run(options);
    fs::remove(name);
    SCOPED_TRACE(fmt::format("paceline {} with {} and \"{}\"", fmt::join(arguments, " "),
                             fmt::join(wrong.environment, " "), wrong.file));
    EXPECT_EQ(result.exit_code, 2) << result.output;
    for (const auto& text : wrong.says) EXPECT_THAT(result.error, HasSubstr(text));
    EXPECT_THAT(result.error, HasSubstr("--help`"));
    EXPECT_LE(lines_of(result.error).size(), 3U) << result.error;
  }
};

TEST_F(LaunchErrors, OptionsNameCauseAndRemedy) {
  for (const auto& wrong : wrong_options()) expect(wrong);
}

TEST_F(LaunchErrors, ManifestsNameCauseAndRemedy) {
  for (const auto& wrong : wrong_manifests()) expect(wrong);
}

TEST_F(LaunchErrors, HostsNameLineCauseAndRemedy) {
  for (const auto& wrong : wrong_hosts()) expect(wrong);
}

TEST_F(LaunchErrors, EnvironmentsNameTheVariableCauseAndRemedy) {
  for (const auto& wrong : wrong_environments()) expect(wrong);
}

TEST_F(LaunchErrors, AreManyMoreThanSixty) {
  EXPECT_GE(wrong_options().size() + wrong_hosts().size() + wrong_environments().size(), 60U);
}

}  // namespace
}  // namespace paceline::test
