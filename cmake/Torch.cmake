# libtorch without find_package(Torch), which wants a CUDA toolkit and pulls every CUDA library in.
#
# Finds the torch of a Python environment (never imports it) and makes
#   torch::c10, torch::cpu   imported shared libraries; an executable that links torch::cpu runs with no further setting.
# libtorch.so is not linked: it needs libtorch_cuda.
#
#   PACELINE_TORCH_PYTHON   the interpreter whose torch is taken; default: .venv/bin/python, then the system's python3.

set(PACELINE_TORCH_MINIMUM 2.11)
set(PACELINE_TORCH_MAXIMUM 2.15)  # inclusive; c10d's C++ interface changes between minor versions

if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin/python")
  set(default_python "${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin/python")
else()
  set(default_python "${Python3_EXECUTABLE}")
endif()
if(PACELINE_TORCH_PYTHON)
  set(torch_python "${PACELINE_TORCH_PYTHON}")
else()
  set(torch_python "${default_python}")
endif()

execute_process(
  COMMAND "${torch_python}" -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
  OUTPUT_VARIABLE PACELINE_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT PACELINE_TORCH_DIR OR NOT EXISTS "${PACELINE_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "paceline: no libtorch found with ${torch_python}. Run scripts/setup, name another Python with "
                      "-DPACELINE_TORCH_PYTHON=..., or build without it: -DPACELINE_WITH_TORCH=OFF")
endif()

file(STRINGS "${PACELINE_TORCH_DIR}/version.py" version_line REGEX "^__version__ *=")
string(REGEX MATCH "([0-9]+\\.[0-9]+)\\.[0-9]+[^']*" PACELINE_TORCH_VERSION "${version_line}")
set(torch_minor "${CMAKE_MATCH_1}")
if(NOT torch_minor OR torch_minor VERSION_LESS PACELINE_TORCH_MINIMUM OR torch_minor VERSION_GREATER PACELINE_TORCH_MAXIMUM)
  message(FATAL_ERROR "paceline: torch '${PACELINE_TORCH_VERSION}' in ${PACELINE_TORCH_DIR} is outside "
                      "${PACELINE_TORCH_MINIMUM}..${PACELINE_TORCH_MAXIMUM}. Run scripts/setup (installs 2.11.0 into .venv), or "
                      "name a Python with a fitting torch by -DPACELINE_TORCH_PYTHON=...")
endif()

# torch ships its own copy of {fmt} beside its headers. The system's must win, or core and the torch floor would
# disagree about fmt's types: a folder with nothing but a link to it stands before torch's.
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
list(GET fmt_include 0 fmt_include)
set(fmt_first "${CMAKE_CURRENT_BINARY_DIR}/generated/fmt_first")
file(MAKE_DIRECTORY "${fmt_first}")
file(CREATE_LINK "${fmt_include}/fmt" "${fmt_first}/fmt" SYMBOLIC)

file(GLOB cuda_library_dirs "${PACELINE_TORCH_DIR}/../nvidia/*/lib")
set(torch_link_options "LINKER:-rpath-link,${PACELINE_TORCH_DIR}/lib")
foreach(dir IN LISTS cuda_library_dirs)
  get_filename_component(dir "${dir}" REALPATH)
  list(APPEND torch_link_options "LINKER:-rpath,${dir}" "LINKER:-rpath-link,${dir}")
endforeach()

if(NOT TARGET torch::cpu)
  add_library(torch::c10 SHARED IMPORTED GLOBAL)
  set_target_properties(torch::c10 PROPERTIES IMPORTED_LOCATION "${PACELINE_TORCH_DIR}/lib/libc10.so")
  target_include_directories(torch::c10 SYSTEM BEFORE INTERFACE
    "${fmt_first}" "${PACELINE_TORCH_DIR}/include" "${PACELINE_TORCH_DIR}/include/torch/csrc/api/include")
  target_link_options(torch::c10 INTERFACE ${torch_link_options})
  add_library(torch::cpu SHARED IMPORTED GLOBAL)
  set_target_properties(torch::cpu PROPERTIES IMPORTED_LOCATION "${PACELINE_TORCH_DIR}/lib/libtorch_cpu.so")
  target_link_libraries(torch::cpu INTERFACE torch::c10 Threads::Threads)
endif()
