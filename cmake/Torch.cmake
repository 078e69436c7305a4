# libtorch without find_package(Torch), which wants a CUDA toolkit and pulls every CUDA library in.
#
# Finds the torch of a Python environment (never imports it), or an unpacked libtorch, and makes
#   torch::c10, torch::cpu   imported shared libraries; an executable that links torch::cpu runs with no further setting.
#   torch::cuda              where this torch has CUDA: its devices too.
# libtorch.so is not linked: it needs libtorch_cuda.
#
# The first of these that is given decides:
#   PACELINE_TORCH_PYTHON          the interpreter whose torch is taken
#   Torch_DIR, CMAKE_PREFIX_PATH   as find_package(Torch) reads them: a libtorch (pytorch.org's zip) has share/cmake/Torch
#   .venv/bin/python, then the system's python3

set(PACELINE_TORCH_MINIMUM 2.11)
set(PACELINE_TORCH_MAXIMUM 2.15)  # inclusive; c10d's C++ interface changes between minor versions

set(PACELINE_TORCH_DIR)
if(NOT PACELINE_TORCH_PYTHON)
  set(prefixes "$ENV{CMAKE_PREFIX_PATH}")
  string(REPLACE ":" ";" prefixes "${prefixes}")
  if(Torch_DIR)
    get_filename_component(of_torch_dir "${Torch_DIR}/../../.." ABSOLUTE)
  endif()
  foreach(prefix IN LISTS of_torch_dir CMAKE_PREFIX_PATH prefixes)
    if(NOT PACELINE_TORCH_DIR AND EXISTS "${prefix}/share/cmake/Torch/TorchConfig.cmake")
      set(PACELINE_TORCH_DIR "${prefix}")
    endif()
  endforeach()
  unset(of_torch_dir)
endif()

if(NOT PACELINE_TORCH_DIR)
  if(PACELINE_TORCH_PYTHON)
    set(torch_python "${PACELINE_TORCH_PYTHON}")
  elseif(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin/python")
    set(torch_python "${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin/python")
  else()
    set(torch_python "${Python3_EXECUTABLE}")
  endif()
  execute_process(
    COMMAND "${torch_python}" -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE PACELINE_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT PACELINE_TORCH_DIR)
    message(FATAL_ERROR "paceline: no libtorch was found in CMAKE_PREFIX_PATH, nor a torch with ${torch_python}. Run scripts/setup; "
                        "name an unpacked libtorch by -DCMAKE_PREFIX_PATH=/path/to/libtorch or a Python by "
                        "-DPACELINE_TORCH_PYTHON=...; or do without torch: -DPACELINE_WITH_TORCH=OFF builds the rest")
  endif()
endif()
if(NOT EXISTS "${PACELINE_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "paceline: the torch in ${PACELINE_TORCH_DIR} lacks lib/libtorch_cpu.so. Unpack or install it again, or name another "
                      "by -DCMAKE_PREFIX_PATH=/path/to/libtorch or -DPACELINE_TORCH_PYTHON=...")
endif()

# A Python package has version.py; a zip has build-version, one line.
if(EXISTS "${PACELINE_TORCH_DIR}/version.py")
  file(STRINGS "${PACELINE_TORCH_DIR}/version.py" version_line REGEX "^__version__ *=")
elseif(EXISTS "${PACELINE_TORCH_DIR}/build-version")
  file(STRINGS "${PACELINE_TORCH_DIR}/build-version" version_line LIMIT_COUNT 1)
else()
  set(version_line)
endif()
string(REGEX MATCH "([0-9]+\\.[0-9]+)\\.[0-9]+[^']*" PACELINE_TORCH_VERSION "${version_line}")
set(torch_minor "${CMAKE_MATCH_1}")
if(NOT torch_minor OR torch_minor VERSION_LESS PACELINE_TORCH_MINIMUM OR torch_minor VERSION_GREATER PACELINE_TORCH_MAXIMUM)
  message(FATAL_ERROR "paceline: torch '${PACELINE_TORCH_VERSION}' in ${PACELINE_TORCH_DIR} is outside "
                      "${PACELINE_TORCH_MINIMUM}..${PACELINE_TORCH_MAXIMUM}. Run scripts/setup (installs 2.11.0 into .venv), or "
                      "name a fitting torch by -DCMAKE_PREFIX_PATH=/path/to/libtorch or -DPACELINE_TORCH_PYTHON=...")
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
  # libtorch finds CUDA's devices if these are loaded when it first looks, though no program names anything of them. What
  # they need themselves, such as cuDNN, is looked for when a program starts.
  if(EXISTS "${PACELINE_TORCH_DIR}/lib/libtorch_cuda.so")
    add_library(torch::cuda INTERFACE IMPORTED GLOBAL)
    target_link_libraries(torch::cuda INTERFACE torch::cpu)
    target_link_options(torch::cuda INTERFACE
      "LINKER:--push-state,--no-as-needed" "${PACELINE_TORCH_DIR}/lib/libtorch_cuda.so" "${PACELINE_TORCH_DIR}/lib/libc10_cuda.so"
      "LINKER:--pop-state" "LINKER:--unresolved-symbols=ignore-in-shared-libs")
  endif()
endif()
