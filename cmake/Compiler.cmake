# Language, flags and ccache for every target of this folder. Nothing here leaks into a project that adds us.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG -g1")  # -g1: backtraces with lines, at little cost
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1")  # -Og takes a quarter less to compile, and the tests twice as long

# One set of code generation flags for all targets, also executables: a precompiled header built with -fPIC cannot
# be used by a target built with -fPIE, and the static libraries must fit into a Python extension.
add_compile_options(-fPIC -fno-semantic-interposition -fstack-protector-strong
                    -ffp-contract=off)  # no fused multiply-add, because results must not depend on the compiler
add_compile_definitions(_GLIBCXX_ASSERTIONS)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                    -Wno-missing-field-initializers)  # designated initialisers name what differs from the default
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)  # GCC 12 warns about its own std::string operator+ (its bug 105329)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # GCC collects its garbage later: a twentieth less to compile, in 0.1 GiB more
  add_compile_options("SHELL:--param ggc-min-expand=100 --param ggc-min-heapsize=524288")
endif()
if(PACELINE_WARNINGS_AS_ERRORS)
  add_compile_options(-Werror)
endif()

# GCC guesses wrong about uninitialised values in instrumented code; release keeps that warning.
set(PACELINE_SANITIZER_OPTIONS -fno-omit-frame-pointer -Wno-maybe-uninitialized)
# Three checks that find what the address sanitizer finds too are a fifth of the compilation.
set(PACELINE_UNDEFINED_OPTIONS -fno-sanitize-recover=undefined -fno-sanitize=null,object-size,vptr)
if(PACELINE_SANITIZE)
  add_compile_options(-fsanitize=${PACELINE_SANITIZE} ${PACELINE_SANITIZER_OPTIONS})
  add_link_options(-fsanitize=${PACELINE_SANITIZE})
  if(PACELINE_SANITIZE MATCHES "undefined")
    add_compile_options(${PACELINE_UNDEFINED_OPTIONS})
  endif()
  if(PACELINE_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)  # "atomic_thread_fence is not supported": our code does not rely on fences alone
  endif()
endif()

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(PACELINE_CCACHE ccache DOC "Optional: makes rebuilds fast")
  if(PACELINE_CCACHE)
    # With this sloppiness ccache can also cache files that use the precompiled torch header. Paths are relative in its
    # keys, so that clones and worktrees share what one of them has compiled.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        env "CCACHE_BASEDIR=${CMAKE_CURRENT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime "${PACELINE_CCACHE}")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      add_compile_options(-fpch-preprocess)
    endif()
  endif()
endif()
