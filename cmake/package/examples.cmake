# The examples as a project of their own: each numbered folder is one program, named like the folder
# without its number.
# Copy this folder, then: cmake -S examples -B build && cmake --build build
cmake_minimum_required(VERSION 3.22)
project(paceline_examples LANGUAGES CXX)
find_package(paceline REQUIRED COMPONENTS core linear torch)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
file(GLOB folders RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}/[0-9]*")
file(GLOB support "${CMAKE_CURRENT_SOURCE_DIR}/support/*.cpp")
add_library(support STATIC ${support})
target_link_libraries(support PUBLIC paceline::linear)
foreach(folder IN LISTS folders)
  file(GLOB sources "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
  string(REGEX REPLACE "^[0-9]+_" "" name "${folder}")
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE paceline::torch support CLI11::CLI11 nlohmann_json::nlohmann_json)
endforeach()
