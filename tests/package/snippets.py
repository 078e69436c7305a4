"""Writes the programs that the front door shows as sources that compile: snippets.py REPOSITORY OUTPUT_FOLDER

README's program, and the first snippets of the guides first_steps, data_parallel, checkpoints and server. A snippet that is
not a whole program becomes a function, with what its page takes for granted; "..." stands for the reader's own code.
server_guide.cpp needs no torch. front_door.cpp, with torch, also includes gradient.cpp, whose main it has.
"""

import pathlib
import re
import sys

TORCH = """#include <torch/torch.h>

{includes}
struct Batch {{
  at::Tensor data, target;
  double size() const {{ return static_cast<double>(data.size(0)); }}
}};

// What the pages take for granted.
static at::Tensor loss(torch::nn::Linear& model, const Batch& batch) {{
  return torch::mse_loss(model->forward(batch.data), batch.target);
}}

{functions}
#define main program_of_readme
{readme}
#undef main

#include "gradient.cpp"
"""

SETTING = """  torch::nn::Linear model(8, 1);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  torch::optim::StepLR scheduler(optimizer, 10);
  std::vector<Batch> loader;
  paceline::data::DistributedSampler sampler(64, {.rank = 0, .world_size = 1});
  double best = 0;
  at::Tensor ema = torch::zeros(1);
  const std::int64_t steps = 0;
  const bool resume = false;
"""

SERVER = """{includes}
#include <vector>

int main() {{
  const std::size_t n = 8;
  std::vector<float> w(n), g(n, 1);
  const auto initial = paceline::buffer_of(w), values = initial, gradient = paceline::buffer_of(g);
{snippet}
}}
"""


def first_snippet(page):
    """The first block of C++ of a page, as its includes and the rest."""
    block = re.search(r"^```cpp\n(.*?)^```$", page.read_text(encoding="utf-8"), re.S | re.M)
    if not block:
        sys.exit(f"{page} shows no program")
    lines = re.sub(r"^(\s*)\.\.\.;? ?", r"\1", block.group(1), flags=re.M).split("\n")
    includes = [line for line in lines if line.startswith("#include")]
    return "\n".join(includes), "\n".join(line for line in lines if line not in includes)


def torch_function(name, snippet):
    returns = "" if "return " in snippet else "\n  return 0;"
    return f"[[maybe_unused]] static int {name}() {{\n{SETTING}{snippet}{returns}\n}}\n"


def main(repository, output):
    guides = repository / "docs" / "guide"
    includes, snippet = first_snippet(guides / "server.md")
    (output / "server_guide.cpp").write_text(SERVER.format(includes=includes, snippet=snippet), encoding="utf-8")
    snippets = {name: first_snippet(guides / f"{name}.md") for name in ("first_steps", "data_parallel", "checkpoints")}
    functions = "\n".join(torch_function(name, snippet) for name, (_, snippet) in snippets.items())
    readme_includes, readme = first_snippet(repository / "README.md")
    (output / "front_door.cpp").write_text(TORCH.format(includes=snippets["first_steps"][0] + "\n" + readme_includes, functions=functions,
                                                        readme=readme), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
